"""The scheduler's main flow: watch the cluster, run a scheduling cycle, write its decisions back. Read this first."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.kinds import CONFIG_MAP, POD
from volcano.kube.client.protocol import Client, Event, EventType
from volcano.model.decisions import Bind, Decision, Evict
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.scheduler.cluster_informer import ClusterInformer
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.cycle import schedule
from volcano.scheduler.cycle_sequence import CycleSequence
from volcano.scheduler.cycle_timer import CycleTimer
from volcano.scheduler.default_queues import ensure_queues
from volcano.scheduler.device_config_informer import DeviceConfigInformer
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Outcome
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.load.collector import LoadCollector, event_about, sources
from volcano.scheduler.load.kubernetes import ReadNodeMetrics
from volcano.scheduler.numatopology_cleanup import NumatopologyCleanup
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.report.log_lines import log_cycle
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.usage_history import ReadUsage, UsageHistory
from volcano.scheduler.writeback.operations import OperationBuilder
from volcano.scheduler.writeback.read_back import read_pod
from volcano.scheduler.writeback.stale_decisions import drop_stale
from volcano.scheduler.writeback.writeback import WriteBack

log = Log("scheduler")

# A cycle with at most so many tasks to place and nodes takes a few milliseconds: it needs no thread.
INLINE_TASKS, INLINE_NODES = 64, 256
BATCH = 100  # decisions assumed and submitted before other tasks of the event loop run


class Scheduler:
    """One running scheduler. `ready` once the caches are synced and a valid configuration is loaded."""

    def __init__(
        self,
        client: Client,
        source: ConfigSource,
        clock: Clock,
        options: SchedulerOptions | None = None,
        *,
        metrics: SchedulerMetrics | None = None,
        between_cycles: Callable[[], None] = lambda: None,
        on_ready: Callable[[], None] = lambda: None,
        read_node_metrics: ReadNodeMetrics | None = None,
        history: CycleHistory | None = None,
        read_usage: ReadUsage | None = None,
    ) -> None:
        self._options = options = options or SchedulerOptions()
        self._client, self._clock = client, clock
        self._between_cycles, self._on_ready = between_cycles, on_ready
        self.source = source
        self.metrics = metrics or SchedulerMetrics()
        self.cluster = options.new_cluster()
        self.history = history or CycleHistory()
        self.cycles = cycles = CycleSequence(self.cluster, clock, period=options.period, seed=options.seed)
        self._timer = CycleTimer(
            clock,
            options.period,
            revision=lambda: self.cluster.revision,
            busy=lambda: (
                (self.cluster.busy and not cycles.is_settled(source.current)) or cycles.needs_cycle()
            ),
            waiting=lambda: self.cluster.waiting or cycles.needs_cycle(),
        )
        self.write_back = WriteBack(
            client,
            OperationBuilder(options.component),
            clock,
            on_rejected=self._on_rejected,
            read_back=self._read_back,
            on_bound=self.metrics.bound,
            scheduled_events=options.scheduled_events,
        )
        self._cleanup = NumatopologyCleanup(client, clock, self.cluster)
        self.load = LoadCollector(
            clock,
            self.cluster.nodes,
            sources(client, read_node_metrics),
            event_about(client, clock, options.component, options.default_queue),
        )
        self._usage_history = UsageHistory(clock, read_usage)
        self._informer = ClusterInformer(
            client,
            clock,
            self.cluster,
            on_change=self._timer.on_change,
            on_pod_added=lambda task: self.metrics.watched(task, clock.now().wall),
            on_group_deleted=self.write_back.withdraw,
            on_node_deleted=self._cleanup.on_node_deleted,
            ignored=options.ignored_kinds,
        )
        self._device_config = DeviceConfigInformer(
            client,
            clock,
            self.cluster.decoder(CONFIG_MAP),
            apply=self._informer.apply,
            config=lambda: self.source.current,
        )

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
            group.create_task(ensure_queues(self._client, self._clock, self._options.default_queue))
            group.create_task(self._informer.run())
            group.create_task(self.write_back.run())
            group.create_task(self._cleanup.run())
            group.create_task(self._usage_history.run())
            group.create_task(self._device_config.run())
            group.create_task(self.source.watch(self._clock, self._on_new_config))
            await self._informer.wait_for_sync()
            await self._device_config.wait_for_sync()
            group.create_task(self.load.run(self.source))
            self._on_ready()
            with closing(self._timer):
                while True:
                    await self._timer.wait()
                    if (config := self.source.current) is not None:
                        await self._cycle(config)
                    self._between_cycles()

    def _on_new_config(self) -> None:
        self._device_config.check()
        self._timer.wake()

    async def _cycle(self, config: Config) -> None:
        """Takes a snapshot, decides, assumes the decisions and submits them."""
        self.cycles.remember(await self._usage_history.restore(config, self.cycles.last_outcome.memory))
        revision = self.cluster.revision
        snapshot = self.cycles.begin(self.load.usage())
        try:
            outcome = await self._decide(snapshot, config)
        except Exception as error:  # a bug in one cycle must not stop the scheduler
            log.error("cycle failed", cycle=self.cycles.count, error=error)
            self.cycles.failed(error)
            await self._clock.sleep(self._options.period)
            return
        await self._commit(outcome, snapshot, revision)
        self.cycles.ended(outcome, config, revision)

    async def _decide(self, snapshot: Snapshot, config: Config) -> Outcome:
        """Runs the cycle in a thread of its own, or at once where that costs more than the cycle itself."""

        def stopwatch() -> float:
            return self._clock.now().monotonic

        pending = sum(
            len(snapshot.jobs[uid].tasks) for uid in snapshot.active[:INLINE_TASKS] if uid in snapshot.jobs
        )
        if max(pending, len(snapshot.active)) <= INLINE_TASKS and len(snapshot.nodes) <= INLINE_NODES:
            return schedule(snapshot, config, stopwatch, record_scores=self.history.enabled)
        record_scores = self.history.enabled
        return await asyncio.to_thread(schedule, snapshot, config, stopwatch, record_scores=record_scores)

    async def _commit(self, outcome: Outcome, snapshot: Snapshot, revision: int) -> None:
        """Assumes decisions and submits them for writing, in batches: there may be thousands."""
        decisions: Sequence[Decision] = outcome.decisions
        if self.cluster.revision != revision:
            decisions = drop_stale(decisions, snapshot, self.cluster)
        for start in range(0, len(decisions), BATCH):
            batch = decisions[start : start + BATCH]
            self.cluster.assume(batch)
            self.write_back.submit(batch)
            self.metrics.placed(batch, snapshot)
            await asyncio.sleep(0)
        log_cycle(decisions, snapshot.jobs, self.cycles.count)
        self.metrics.cycle(outcome, snapshot)
        self.history.record(outcome, snapshot, decisions, outcome.timings.get(("cycle",), 0.0))

    async def _read_back(self, decision: Bind | Evict) -> bool:
        """Applies the pod as the server has it, before an unanswered decision about it is forgotten; returns whether
        the decision was carried out."""
        task = await read_pod(self._client, self._clock, decision, self.cluster.decoder(POD))
        if task is None:
            return True  # the pod was deleted
        self._informer.apply((Event(EventType.MODIFIED, POD, task),))
        return bool(task.node) if isinstance(decision, Bind) else task.status is Status.RELEASING

    def _on_rejected(self, decision: Decision) -> None:
        """Forgets a rejected decision; bindings and evictions are decided again at once, status with the next cycle."""
        self.cluster.forget(decision)
        if isinstance(decision, Bind):
            self.metrics.binding_rejected(decision)
        if isinstance(decision, Bind | Evict):
            self._timer.wake()
