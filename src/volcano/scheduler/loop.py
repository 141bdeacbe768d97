"""The scheduler's main flow: watch the cluster, run a scheduling cycle, write its decisions back. Read this first."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.client.protocol import Client
from volcano.scheduler.cluster_informer import ClusterInformer
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.cycle import decide
from volcano.scheduler.cycle_sequence import CycleSequence
from volcano.scheduler.cycle_timer import CycleTimer
from volcano.scheduler.default_queues import ensure_queues
from volcano.scheduler.engine.config import Config
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.inputs import Inputs, Readers
from volcano.scheduler.node_cleanup import NodeCleanup
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.report.log_lines import log_cycle
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.writeback.commit import Commit

log = Log("scheduler")


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """Context that a program gives its scheduler beside options: records, ways to read inputs, and callbacks."""

    metrics: SchedulerMetrics = field(default_factory=SchedulerMetrics)
    history: CycleHistory = field(default_factory=CycleHistory)
    readers: Readers = field(default_factory=Readers)
    between_cycles: Callable[[], None] = lambda: None
    on_ready: Callable[[], None] = lambda: None


class Scheduler:
    """One running scheduler. `ready` once the caches are synced and a valid configuration is loaded."""

    def __init__(
        self,
        client: Client,
        source: ConfigSource,
        clock: Clock,
        options: SchedulerOptions | None = None,
        context: SchedulerContext | None = None,
    ) -> None:
        self._client, self._clock, self.source = client, clock, source
        self.options = options = options or SchedulerOptions()
        self._context = context = context or SchedulerContext()
        self.metrics = context.metrics
        self.cluster = cluster = options.new_cluster()
        self.cycles = CycleSequence(cluster, clock, period=options.period, seed=options.seed)
        self._timer = CycleTimer(
            clock, options.period, revision=self._revision, busy=self._busy, waiting=self._waiting
        )
        self._cleanup = NodeCleanup(client, clock, cluster)
        self._informer = self._new_informer()
        apply, wake = self._informer.apply, self._timer.wake
        self.commit = Commit(client, clock, options, cluster, self.metrics, apply=apply, wake=wake)
        self.inputs = Inputs(client, clock, source, options, cluster, context.readers, apply)

    def _new_informer(self) -> ClusterInformer:
        return ClusterInformer(
            self._client,
            self._clock,
            self.cluster,
            on_change=self._timer.on_change,
            on_pod_added=lambda task: self.metrics.watched(task, self._clock.now().wall),
            on_group_deleted=lambda group: self.commit.write_back.withdraw(group),
            on_node_deleted=self._cleanup.on_node_deleted,
            ignored=self.options.ignored_kinds,
        )

    def _revision(self) -> int:
        return self.cluster.revision

    def _busy(self) -> bool:
        """Whether a cycle has anything to do."""
        undecided = self.cluster.busy and not self.cycles.is_settled(self.source.current)
        return undecided or self.cycles.needs_cycle()

    def _waiting(self) -> bool:
        """Whether a job waits for resources, or a plugin for a cycle."""
        return self.cluster.waiting or self.cycles.needs_cycle()

    @property
    def synced(self) -> bool:
        """Whether every watched kind has been listed."""
        return self._informer.synced

    @property
    def ready(self) -> bool:
        return self.synced and self.source.current is not None

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(ensure_queues(self._client, self._clock, self.options.default_queue))
            group.create_task(self._informer.run())
            group.create_task(self.commit.write_back.run())
            group.create_task(self._cleanup.run())
            group.create_task(self.inputs.run(self._informer.wait_for_sync))
            group.create_task(self.source.watch(self._clock, self._on_new_config))
            await self._informer.wait_for_sync()
            await self.inputs.wait_for_sync()
            self._context.on_ready()
            with closing(self._timer):
                while True:
                    await self._timer.wait()
                    if (config := self.source.current) is not None:
                        await self._cycle(config)
                    self._context.between_cycles()

    def _on_new_config(self) -> None:
        self.inputs.on_new_config()
        self._timer.wake()

    async def _cycle(self, config: Config) -> None:
        """Takes a snapshot, decides, assumes the decisions and submits them."""
        cycles, context = self.cycles, self._context
        cycles.remember(await self.inputs.restore(config, cycles.last_outcome.memory))
        revision = self.cluster.revision
        snapshot = cycles.begin(self.inputs.load.usage())
        try:
            outcome = await decide(snapshot, config, self._clock, record_scores=context.history.enabled)
        except Exception as error:  # a bug in one cycle must not stop the scheduler
            log.error("cycle failed", cycle=cycles.count, error=error)
            cycles.failed(error)
            await self._clock.sleep(self.options.period)
            return
        decisions = await self.commit.commit(outcome.decisions, snapshot, revision)
        log_cycle(decisions, snapshot.jobs, cycles.count)
        self.metrics.cycle(outcome, snapshot)
        context.history.record(outcome, snapshot, decisions, outcome.timings.get(("cycle",), 0.0))
        cycles.ended(outcome, config, revision)
