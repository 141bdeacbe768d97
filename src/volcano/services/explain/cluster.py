"""Explains queues, nodes, the cluster and cycles of the scheduler."""

from volcano.analysis.explain import cluster, node, queue
from volcano.analysis.explain.cluster import ClusterExplanation, RecordedWaiting
from volcano.analysis.explain.node import NodeExplanation
from volcano.analysis.explain.queue import QueueExplanation
from volcano.analysis.explain.recorded import CycleExplanation, recorded_waiting
from volcano.base.clock import Clock
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Client
from volcano.services.cluster_state import read_whole_case
from volcano.services.errors import NotFoundError, near
from volcano.services.explain.record import read_cycle, read_cycles


async def explain_queue(client: Client, clock: Clock, name: str) -> QueueExplanation:
    """How the share of a queue comes about, and why its jobs wait."""
    case = await read_whole_case(client, clock)
    if name not in case.snapshot.queues:
        raise NotFoundError(f"queue {name!r} not found{near(name, case.snapshot.queues)}")
    return queue.explain_queue(case, name)


async def explain_node(client: Client, clock: Clock, name: str) -> NodeExplanation:
    """The pods of a node, and why waiting jobs do not use it."""
    case = await read_whole_case(client, clock)
    if name not in case.snapshot.row_of:
        raise NotFoundError(f"node {name!r} not found{near(name, case.snapshot.row_of)}")
    return node.explain_node(case, name)


async def explain_cluster(client: Client, clock: Clock) -> ClusterExplanation:
    """The waiting jobs by code, and the one change that starts most of them."""
    return cluster.explain_cluster(await read_whole_case(client, clock))


async def explain_waiting(
    client: HttpClient, *, queue: str = "", cycle: int | None = None, at: str = ""
) -> RecordedWaiting:
    """The jobs that waited in a queue or in the cluster after a cycle or at a time, by code."""
    return recorded_waiting(await read_cycle(client, cycle, at), queue)


async def explain_cycle(client: HttpClient, number: int | None = None, *, at: str = "") -> CycleExplanation:
    """A cycle of the scheduler by number or time; without both, the last ones."""
    if number is None and not at:
        return CycleExplanation(await read_cycles(client))
    return CycleExplanation(await read_cycle(client, number, at))
