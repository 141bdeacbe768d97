"""Gangs in domains through the whole scheduler and a real store: annotations written once, and used after a restart."""

import asyncio
from contextlib import suppress

from tests.builders import node
from tests.scheduler.test_loop import Bench, bench
from tests.scheduler.topology.clusters import gang, topology, tree
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key, annotations_of
from volcano.kube.api.names import ALLOCATED_HYPERNODE
from volcano.kube.client.protocol import Options, Query
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.loop import Scheduler

HARD_1 = topology(tier=1)


async def stored(made: Bench, name: str = "j") -> str:
    group = await made.client.get(kinds.POD_GROUP, Key("default", name))
    return annotations_of(group).get(ALLOCATED_HYPERNODE, "")


async def test_the_domain_of_a_gang_is_written_to_its_podgroup_and_not_again() -> None:
    async with bench() as made:
        await made.add(*(node(f"n{i}", cpu=8) for i in range(8)), *tree(), gang("j", 2, 8, HARD_1))

        async def is_stored() -> bool:
            return bool(await stored(made))

        await made.until(is_stored)
        leaf = await stored(made)
        placed = await made.nodes_of("j-worker-0", "j-worker-1")
        domain = await made.client.get(kinds.HYPER_NODE, Key("", leaf))
        members = {m["selector"]["exactMatch"]["name"] for m in domain["spec"]["members"]}
        assert set(placed) == members
        patches = made.client.patches
        for _ in range(200):
            made.clock.advance(0.05)
            await asyncio.sleep(0)
        group = await made.client.get(kinds.POD_GROUP, Key("default", "j"))
        assert annotations_of(group)[ALLOCATED_HYPERNODE] == leaf
        assert made.client.patches - patches <= 2  # the phase and the condition


async def test_a_restarted_scheduler_replaces_a_pod_in_the_same_domain() -> None:
    async with bench() as made:
        await made.add(*(node(f"n{i}", cpu=8) for i in range(8)), *tree(), gang("j", 2, 8, HARD_1))

        async def is_stored() -> bool:
            return bool(await stored(made))

        await made.until(is_stored)
        kept, lost = await made.nodes_of("j-worker-0", "j-worker-1")
    # The first scheduler has ended.
    await made.client.delete(kinds.POD, Key("default", "j-worker-1"), options=Options(grace_seconds=0))
    again = Scheduler(made.client, ConfigSource(None), made.clock)
    running = asyncio.create_task(again.run())
    try:
        replacement = gang("j", 2, 8, HARD_1).pods[1]
        replacement["metadata"]["name"] = "j-worker-2"
        await made.add(replacement)

        async def is_placed() -> bool:
            return bool((await made.nodes_of("j-worker-2"))[0])

        await made.until(is_placed)
        assert await made.nodes_of("j-worker-0", "j-worker-2") == [kept, lost]
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_the_reason_is_on_the_podgroup_its_pods_and_in_events() -> None:
    async with bench() as made:
        await made.add(*(node(f"n{i}", cpu=8) for i in range(8)), *tree(), gang("j", 3, 6, HARD_1))
        expected = "0/4 hypernodes of tier ≤ 1 have room: s0 has room for 2 of 3 pods; cpu short by 2"

        async def is_reported() -> bool:
            group = await made.client.get(kinds.POD_GROUP, Key("default", "j"))
            conditions = group.get("status", {}).get("conditions") or ()
            return any(expected in condition.get("message", "") for condition in conditions)

        async def has_events() -> bool:
            found = await made.client.list(kinds.EVENT, Query(namespace="default"))
            about = {event["involvedObject"]["kind"] for event in found.items if expected in event["message"]}
            return about == {"Pod", "PodGroup"}

        await made.until(is_reported)
        await made.until(has_events)
        pod = await made.client.get(kinds.POD, Key("default", "j-worker-0"))
        assert expected in str(pod["status"]["conditions"])
