"""Queues, PodGroups and pods deleted and made again under the same names are at work again at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.cluster import SmallCluster
from tests.controllers.test_podgroup import GROUP, pod
from volcano.controllers.podgroup import PodGroupController
from volcano.controllers.queue import QueueController
from volcano.kube.api.kinds import POD, POD_GROUP, QUEUE
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.loop import Scheduler

AT_ONCE = 6.0  # seconds: a few cycles of the scheduler, and the longest delay of a status


@contextlib.asynccontextmanager
async def scheduled_cluster() -> AsyncIterator[SmallCluster]:
    """Simulated nodes, our controllers and the scheduler, under a virtual clock."""
    nodes = SimulatedNodes(nodes_of(parse_pools([2], [])))
    async with SmallCluster(QueueController(), PodGroupController(), nodes) as cluster:
        scheduling = asyncio.create_task(Scheduler(cluster.client, ConfigSource(None), cluster.clock).run())
        try:
            await cluster.rest()
            yield cluster
        finally:
            scheduling.cancel()
            await asyncio.gather(scheduling, return_exceptions=True)


async def gang(cluster: SmallCluster) -> None:
    """A queue, a group in it and its two pods."""
    await cluster.create(QUEUE, "q", spec={"weight": 1})
    await cluster.create(POD_GROUP, "g", spec={"queue": "q", "minMember": 2})
    for name in ("p0", "p1"):
        await cluster.create(POD, name, metadata={"annotations": {GROUP: "g"}}, spec=pod())


async def soon(cluster: SmallCluster, ready: Callable[[], Awaitable[bool]]) -> bool:
    """Whether something comes true within a few cycles. Cycles run in a thread: each is given some real time."""
    for _ in range(int(AT_ONCE / 0.5)):
        cluster.clock.advance(0.5)
        for _ in range(25):
            await asyncio.sleep(0.02)
            if await ready():
                return True
    return False


async def bound(cluster: SmallCluster) -> bool:
    return all(made["spec"].get("nodeName") for made in await cluster.all(POD))


async def counted(cluster: SmallCluster) -> bool:
    """The group runs, and its queue knows."""
    phase = (await cluster.get(POD_GROUP, "g"))["status"].get("phase")
    running = (await cluster.get(QUEUE, "q"))["status"].get("running")
    return bool(phase == "Running" and running == 1)


async def test_a_gang_and_its_queue_made_again_run_at_once() -> None:
    async with scheduled_cluster() as cluster:
        await gang(cluster)
        assert await soon(cluster, lambda: bound(cluster))
        for kind, name in ((POD, "p0"), (POD, "p1"), (POD_GROUP, "g"), (QUEUE, "q")):
            await cluster.delete(kind, name, grace=0)
        await gang(cluster)
        assert await soon(cluster, lambda: bound(cluster))
        assert await soon(cluster, lambda: counted(cluster))


async def test_a_bare_pod_made_again_runs_at_once() -> None:
    async with scheduled_cluster() as cluster:
        for _ in range(2):
            await cluster.create(POD, "p", spec=pod())
            assert await soon(cluster, lambda: bound(cluster))
            await cluster.delete(POD, "p", grace=0)
