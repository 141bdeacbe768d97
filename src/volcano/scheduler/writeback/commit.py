"""Commit: the decisions of a cycle are assumed in the cluster cache and submitted; rejected ones are forgotten."""

import asyncio
from collections.abc import Callable, Sequence

from volcano.base.clock import Clock
from volcano.kube.api.kinds import POD
from volcano.kube.client.protocol import Client, Event, EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Decision, Evict
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.writeback.operations import OperationBuilder
from volcano.scheduler.writeback.read_back import read_pod
from volcano.scheduler.writeback.stale_decisions import drop_stale
from volcano.scheduler.writeback.writeback import WriteBack

BATCH = 100  # decisions assumed and submitted before other tasks of the event loop run


class Commit:
    """Decisions on their way from a cycle to the API server."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: SchedulerOptions,
        cluster: Cluster,
        metrics: SchedulerMetrics,
        *,
        apply: Callable[[Sequence[Event]], None],
        wake: Callable[[], None],
    ) -> None:
        """`apply` applies events to the cluster cache, `wake` requests a cycle."""
        self._client = client
        self._clock = clock
        self._cluster = cluster
        self._metrics = metrics
        self._apply = apply
        self._wake = wake
        self.write_back = WriteBack(
            client,
            OperationBuilder(options.component),
            clock,
            on_rejected=self._on_rejected,
            read_back=self._read_back,
            on_bound=metrics.bound,
            scheduled_events=options.scheduled_events,
        )

    async def commit(
        self, decisions: Sequence[Decision], snapshot: Snapshot, revision: int
    ) -> Sequence[Decision]:
        """Assumes and submits decisions, in batches: there may be thousands. Returns them without those that are stale,
        when the cluster cache is not at the revision of the snapshot any more."""
        if self._cluster.revision != revision:
            decisions = drop_stale(decisions, snapshot, self._cluster)
        for start in range(0, len(decisions), BATCH):
            batch = decisions[start : start + BATCH]
            self._cluster.assume(batch)
            self.write_back.submit(batch)
            self._metrics.placed(batch, snapshot)
            await asyncio.sleep(0)
        return decisions

    async def _read_back(self, decision: Bind | Evict) -> bool:
        """Applies the pod as the server has it, before an unanswered decision about it is forgotten; returns whether
        the decision was carried out."""
        task = await read_pod(self._client, self._clock, decision, self._cluster.decoder(POD))
        if task is None:
            return True  # the pod was deleted
        self._apply((Event(EventType.MODIFIED, POD, task),))
        return bool(task.node) if isinstance(decision, Bind) else task.status is Status.RELEASING

    def _on_rejected(self, decision: Decision) -> None:
        """Forgets a rejected decision; bindings and evictions are decided again at once, status with the next cycle."""
        self._cluster.forget(decision)
        if isinstance(decision, Bind):
            self._metrics.binding_rejected(decision)
        if isinstance(decision, Bind | Evict):
            self._wake()
