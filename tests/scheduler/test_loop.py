"""The whole flow against the real store: list, decide, write, confirm; and rejected writes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from tests.apiserver.registries import namespace, registry
from tests.builders import JobManifests, job, node, numatopology, pod, podgroup, priority_class, queue
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import VirtualClock
from volcano.kube.api import crds, kinds
from volcano.kube.api.errors import Conflict, Forbidden, Unavailable
from volcano.kube.api.kinds import CRD, NAMESPACE, Kind
from volcano.kube.api.manifest import Key, Manifest, condition_of
from volcano.kube.client.protocol import DEFAULTS, EVERYTHING, Decode, Event, Options, Query
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.engine.config import shipped
from volcano.scheduler.loop import Scheduler
from volcano.scheduler.options import SchedulerOptions

KINDS = kinds.by_gvk(
    [
        kinds.NODE,
        kinds.POD,
        kinds.POD_GROUP,
        kinds.QUEUE,
        kinds.PRIORITY_CLASS,
        kinds.NUMATOPOLOGY,
        kinds.HYPER_NODE,
    ]
)


class Flaky(DirectClient):
    """The real client; the test decides which writes are rejected."""

    error_for: Callable[[str, Manifest], Exception | None] = staticmethod(lambda sub, manifest: None)
    lose_answer: Callable[[str], bool] = staticmethod(lambda sub: False)
    silent = False  # whether watches of pods say nothing
    writes = 0
    patches = 0

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        error = self.error_for(subresource, manifest)
        if error is not None:
            raise error
        self.writes += 1
        lost = self.lose_answer(subresource)
        self.silent = self.silent or lost
        answer = await super().create(kind, manifest, subresource=subresource, options=options)
        if lost:
            raise Unavailable("the answer was lost")
        return answer

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        self.patches += 1
        return await super().patch(kind, key, patch, subresource=subresource, options=options)

    async def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        async for event in super().watch(kind, query, decode=decode):
            while self.silent and kind == kinds.POD:
                await asyncio.sleep(0.001)
            yield event


class Bench:
    """A store, a scheduler, and a clock that the test turns."""

    def __init__(self, client: Flaky, clock: VirtualClock, scheduler: Scheduler) -> None:
        self.client, self.clock, self.scheduler = client, clock, scheduler

    async def add(self, *things: Manifest | JobManifests) -> None:
        for thing in things:
            manifests = [thing.group, *thing.pods] if isinstance(thing, JobManifests) else [thing]
            for manifest in manifests:
                await self._create(manifest)

    async def _create(self, manifest: Manifest) -> None:
        kind = KINDS[manifest["apiVersion"], manifest["kind"]]
        for name in ("uid", "resourceVersion", "creationTimestamp"):
            manifest["metadata"].pop(name, None)
        status = manifest.pop("status", None)
        await DirectClient.create(self.client, kind, manifest)
        if status and kind in (kinds.NODE, kinds.QUEUE, kinds.POD):
            key = Key(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
            await self.client.patch(kind, key, {"status": status}, subresource="status")

    async def until(self, wanted: Callable[[], Any]) -> None:
        """Turns the clock until something holds; fails after enough turns."""
        for _ in range(2000):
            if await wanted():
                return
            self.clock.advance(0.05)
            await asyncio.sleep(0.001)
        pytest.fail("it never came to be")

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.clock.advance(0.05)
            await asyncio.sleep(0.001)

    async def nodes_of(self, *names: str) -> list[str]:
        found = [await self.client.get(kinds.POD, Key("default", name)) for name in names]
        return [manifest["spec"].get("nodeName", "") for manifest in found]

    async def phase(self, name: str) -> str:
        group = await self.client.get(kinds.POD_GROUP, Key("default", name))
        return str(group.get("status", {}).get("phase", ""))


@asynccontextmanager
async def bench(
    conf: str | None = None, *, features: frozenset[str] = frozenset(), **options: Any
) -> AsyncIterator[Bench]:
    clock = VirtualClock()
    client = Flaky(registry(clock=clock))
    for manifest in crds.load():
        await client.create(CRD, manifest)
    await client.create(NAMESPACE, namespace("default"))
    source = ConfigSource(conf, features=features)
    scheduler = Scheduler(client, source, clock, SchedulerOptions(**options))
    running = asyncio.create_task(scheduler.run())
    made = Bench(client, clock, scheduler)

    async def synced() -> bool:
        if running.done():
            running.result()
        return scheduler.synced

    await made.until(synced)
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_job_is_admitted_placed_and_said_to_run() -> None:
    async with bench() as b:
        await b.add(node("n1", cpu=2), job("j", 2, phase=""))
        names = ["j-worker-0", "j-worker-1"]

        async def bound() -> bool:
            return await b.nodes_of(*names) == ["n1", "n1"]

        async def running() -> bool:
            return await b.phase("j") == "Running"

        await b.until(bound)
        await b.until(running)
        found = await b.client.get(kinds.QUEUE, Key("", "default"))
        assert found["status"]["allocated"] == {"cpu": "2", "pods": "2"}
        assert await b.client.get(kinds.QUEUE, Key("", "root"))


async def test_one_write_binds_a_pod() -> None:
    async with bench() as b:
        await b.add(node("n1", cpu=20), job("j", 10, phase="Inqueue"))
        before = b.client.writes

        async def bound() -> bool:
            return all(await b.nodes_of(*(f"j-worker-{i}" for i in range(10))))

        await b.until(bound)
        creations = b.client.writes - before
        assert creations <= 10 + 2  # the bindings, and events about the PodGroup


async def test_a_gang_without_room_says_why_and_starts_when_there_is_room() -> None:
    async with bench() as b:
        await b.add(node("n1", cpu=1), job("j", 2, phase=""))

        async def told() -> bool:
            found = await b.client.get(kinds.POD_GROUP, Key("default", "j"))
            condition = condition_of(found, "Unschedulable")
            return (
                condition is not None
                and "0/1 nodes are available: 1 Insufficient cpu." in condition["message"]
            )

        async def pod_told() -> bool:
            found = await b.client.get(kinds.POD, Key("default", "j-worker-0"))
            condition = condition_of(found, "PodScheduled")
            return condition is not None and condition["status"] == "False"

        async def bound() -> bool:
            return all(await b.nodes_of("j-worker-0", "j-worker-1"))

        await b.until(told)
        await b.until(pod_told)
        await b.add(node("n2", cpu=2))
        await b.until(bound)


def elsewhere(name: str) -> Manifest:
    """A pod that another scheduler has given a node."""
    return pod(name, node="n1", scheduler="other", cpu=1)


async def test_others_pods_are_no_reason_to_hurry_when_no_job_waits_for_room() -> None:
    async with bench(period=1.0) as b:
        await b.add(node("n1", cpu=40))

        async def seen() -> bool:
            return b.scheduler.cluster.has_node("n1") and not b.scheduler.cluster.busy

        await b.until(seen)
        cycles = b.scheduler.cycles.count
        for number in range(20):  # two seconds in which something happens all the time
            await b.add(elsewhere(f"theirs-{number}"))
            for _ in range(10):
                b.clock.advance(0.01)
                await asyncio.sleep(0.001)
        assert b.scheduler.cycles.count <= cycles + 4

        async def thought_over() -> bool:
            return b.scheduler.cycles.count > cycles

        await b.until(thought_over)


async def test_room_that_others_pods_leave_is_taken_at_once_by_who_waits() -> None:
    async with bench() as b:
        await b.add(node("n1", cpu=2), elsewhere("theirs"), job("j", 2, phase="Inqueue"))

        async def waits() -> bool:
            return bool(b.scheduler.cycles.last_outcome.diagnoses)

        async def bound() -> bool:
            return all(await b.nodes_of("j-worker-0", "j-worker-1"))

        await b.until(waits)
        await b.client.delete(kinds.POD, Key("default", "theirs"), options=Options(grace_seconds=0))
        await b.until(bound)


async def test_a_refused_binding_is_tried_again() -> None:
    async with bench() as b:
        errors = iter([Conflict("no"), Unavailable("away"), Conflict("no")])
        b.client.error_for = lambda sub, manifest: next(errors, None) if sub == "binding" else None
        await b.add(node("n1"), job("j", 1, phase="Inqueue"))

        async def bound() -> bool:
            return await b.nodes_of("j-worker-0") == ["n1"]

        await b.until(bound)
        assert next(errors, None) is None


async def test_a_binding_whose_answer_was_lost_is_not_forgotten_while_the_watch_is_silent() -> None:
    async with bench() as b:
        attempts: list[str] = []

        def lose_first(subresource: str) -> bool:
            if subresource == "binding":
                attempts.append(subresource)
            return len(attempts) == 1

        b.client.lose_answer = lose_first
        await b.add(node("n1", cpu=1), job("j", 1, phase="Inqueue"))

        async def known() -> bool:
            room = b.scheduler.cluster.free_on("n1")
            settled = len(attempts) > 1 and not b.scheduler.cluster.unconfirmed
            return settled and room is not None and room[0] == 0

        await b.until(known)  # the second attempt was rejected, as the pod has its node
        assert b.client.silent
        assert len(attempts) == 2


async def test_preemption_deletes_the_victim_and_nominates_its_node() -> None:
    async with bench(shipped("volcano-scheduler-preempt.conf")) as b:
        await b.add(
            priority_class("high", 100), node("n1", cpu=1), job("low", 1, phase="Inqueue", min_available=0)
        )

        async def bound() -> bool:
            return await b.nodes_of("low-worker-0") == ["n1"]

        await b.until(bound)
        await b.client.patch(
            kinds.POD, Key("default", "low-worker-0"), {"status": {"phase": "Running"}}, subresource="status"
        )
        await b.add(job("high", 1, phase="Inqueue", priority_class="high"))

        async def going() -> bool:
            victim = await b.client.get(kinds.POD, Key("default", "low-worker-0"))
            waiting = await b.client.get(kinds.POD, Key("default", "high-worker-0"))
            disrupted = condition_of(victim, "DisruptionTarget")
            return (
                bool(victim["metadata"].get("deletionTimestamp"))
                and disrupted is not None
                and waiting["status"].get("nominatedNodeName") == "n1"
            )

        await b.until(going)


async def test_pods_of_the_default_scheduler_are_served_where_we_are_the_only_one() -> None:
    async with bench(serve_default=True) as b:
        lonely = pod("lonely", scheduler="default-scheduler")
        await b.add(node("n1"), lonely)

        async def bound() -> bool:
            return await b.nodes_of("lonely") == ["n1"]

        await b.until(bound)


async def test_a_bad_configuration_schedules_nothing_until_it_is_mended() -> None:
    async with bench("actions: dance") as b:
        assert not b.scheduler.ready
        await b.add(node("n1"), job("j", 1, phase="Inqueue"))
        for _ in range(20):
            b.clock.advance(0.1)
            await asyncio.sleep(0.001)
        assert await b.nodes_of("j-worker-0") == [""]
        b.scheduler.source.load(shipped())

        async def bound() -> bool:
            return await b.nodes_of("j-worker-0") == ["n1"]

        await b.until(bound)
        assert b.scheduler.ready


async def test_a_cluster_at_rest_is_left_alone() -> None:
    async with bench() as b:
        await b.add(node("n1", cpu=1), job("j", 1, phase="Inqueue"), job("k", 2, phase="Inqueue"))

        async def settled() -> bool:
            return await b.nodes_of("j-worker-0") == ["n1"] and b.scheduler.commit.write_back.pending == 0

        await b.until(settled)
        for _ in range(60):
            b.clock.advance(0.2)
            await asyncio.sleep(0.001)
        before = b.client._registry.store.version
        for _ in range(60):
            b.clock.advance(0.2)
            await asyncio.sleep(0.001)
        assert b.client._registry.store.version == before


async def test_queues_exist_and_a_users_queue_is_served() -> None:
    async with bench() as b:
        await b.add(
            queue("mine"), node("n1"), JobManifests(podgroup("g", queue="mine"), (pod("p", group="g"),))
        )

        async def bound() -> bool:
            return await b.nodes_of("p") == ["n1"]

        await b.until(bound)


async def test_a_binding_that_is_rejected_again_and_again_is_visible_and_the_gang_is_not_ready() -> None:
    async with bench() as b:
        closed = Forbidden("admission webhook denied the request: node n1 is closed")
        b.client.error_for = lambda sub, manifest: (
            closed if sub == "binding" and manifest["metadata"]["name"] == "j-worker-1" else None
        )
        await b.add(node("n1", cpu=4), job("j", 2, phase=""))

        async def told() -> bool:
            found = await b.client.get(kinds.POD, Key("default", "j-worker-1"))
            group = await b.client.get(kinds.POD_GROUP, Key("default", "j"))
            condition, unschedulable = (
                condition_of(found, "PodScheduled"),
                condition_of(group, "Unschedulable"),
            )
            return (
                condition is not None
                and condition["reason"] == "SchedulerError"
                and condition["message"] == f"failed to bind to node n1: {closed.message}"
                and unschedulable is not None
                and closed.message in unschedulable["message"]
            )

        async def running() -> bool:
            return await b.phase("j") == "Running"

        await b.until(told)
        group = await b.client.get(kinds.POD_GROUP, Key("default", "j"))
        assert condition_of(group, "Scheduled") is None
        events = await b.client.list(kinds.EVENT, Query(namespace="default"))
        assert any(event["reason"] == "FailedScheduling" for event in events.items)
        assert not any(event["reason"] == "Scheduled" for event in events.items)
        b.client.error_for = lambda sub, manifest: None
        await b.until(running)


async def test_refusals_are_not_written_again_while_nothing_changes() -> None:
    """Jobs that are not admitted, that do not fit, that lack pods, and gangs of which a part fits."""
    limited = queue("limited", capability={"cpu": "1"})
    async with bench() as b:
        await b.add(node("n1", cpu=4), node("n2", cpu=4), limited)
        for number in range(15):
            await b.add(
                job(f"huge-{number}", 2, phase="", min_resources={"cpu": "64"}),
                job(f"later-{number}", 3, cpu=3, phase="Inqueue"),
                job(f"limited-{number}", 2, queue="limited", phase="Inqueue"),
                podgroup(f"few-{number}", min_member=2, phase="Inqueue"),
                pod(f"few-{number}-0", group=f"few-{number}"),
            )

        def written() -> int:
            return b.client.writes + b.client.patches

        async def settled() -> bool:
            return b.scheduler.cycles.count > 6 and not b.scheduler.commit.write_back.pending

        await b.until(settled)
        before, last = written(), b.scheduler.cycles.count + 3

        async def later() -> bool:
            return b.scheduler.cycles.count >= last

        await b.until(later)
        assert written() - before == 0


async def test_pods_without_a_podgroup_or_queue_are_told_so_until_it_exists() -> None:
    async with bench() as b:
        await b.add(node("n1", cpu=4), pod("lost", group="nowhere"), job("j", 1, queue="later", phase=""))

        async def message(name: str) -> str:
            found = await b.client.get(kinds.POD, Key("default", name))
            return str((condition_of(found, "PodScheduled") or {}).get("message", ""))

        async def told() -> bool:
            group = await b.client.get(kinds.POD_GROUP, Key("default", "j"))
            unschedulable = condition_of(group, "Unschedulable") or {"message": ""}
            return (
                await message("lost") == "PodGroup default/nowhere does not exist"
                and await message("j-worker-0") == "queue later does not exist"
                and unschedulable["message"] == "queue later does not exist"
            )

        async def bound() -> bool:
            return await b.nodes_of("lost", "j-worker-0") == ["n1", "n1"]

        await b.until(told)
        await b.add(podgroup("nowhere", phase=""), queue("later"))
        await b.until(bound)


async def test_the_numatopology_of_a_deleted_node_is_deleted() -> None:
    async with bench() as b:
        await b.add(node("gone"), node("kept"), numatopology("gone"), numatopology("kept"))

        async def names() -> list[str]:
            listing = await b.client.list(kinds.NUMATOPOLOGY)
            return sorted(found["metadata"]["name"] for found in listing.items)

        async def known() -> bool:
            cluster = b.scheduler.cluster
            return cluster.has_node("gone") and cluster.has_numa_topology("gone")

        async def deleted() -> bool:
            return await names() == ["kept"]

        await b.until(known)
        await b.client.delete(kinds.NODE, Key("", "gone"))
        await b.until(deleted)


async def test_numatopologies_are_not_watched_with_their_feature_gate_off() -> None:
    for enabled in (True, False):
        async with bench(ignored_kinds=frozenset(() if enabled else (kinds.NUMATOPOLOGY,))) as b:
            await b.add(node("n"), numatopology("n"))

            async def seen() -> bool:
                return b.scheduler.cluster.has_node("n")

            await b.until(seen)
            found = b.scheduler.cluster.snapshot().numa_topologies
            assert set(found) <= ({"n"} if enabled else set())
            if enabled:

                async def listed() -> bool:
                    return "n" in b.scheduler.cluster.snapshot().numa_topologies

                await b.until(listed)
