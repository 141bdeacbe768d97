"""THE MAIN FLOW: mirror the cluster, decide, write back, for ever. Read this first."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from volcano.clock import Clock
from volcano.kube import names
from volcano.kube.client import Client, Event, EventType
from volcano.kube.controller import Watch
from volcano.kube.kinds import POD
from volcano.kube.recorder import Recorder
from volcano.kube.reflector import Reflector
from volcano.log import Log
from volcano.model.cluster import WATCHED, Cluster
from volcano.model.decisions import Bind, Decision, Evict
from volcano.model.job import PodGroup
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.cycle import schedule
from volcano.scheduler.cycle_timer import CycleTimer
from volcano.scheduler.default_queues import ensure_queues
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.session import Outcome
from volcano.scheduler.report.log_lines import log_cycle
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.writeback.operations import OperationBuilder
from volcano.scheduler.writeback.read_back import read_pod
from volcano.scheduler.writeback.stale_decisions import drop_stale
from volcano.scheduler.writeback.writeback import WriteBack

log = Log("scheduler")

AT_ONCE = 100  # decisions taken for done before others get their turn


class Scheduler:
    """One scheduler at work. `ready` says whether it has seen the cluster and has a configuration to work with."""

    def __init__(
        self,
        client: Client,
        source: ConfigSource,
        clock: Clock,
        *,
        scheduler_names: Sequence[str] = (names.SCHEDULER_NAME,),
        serve_default: bool = False,
        default_queue: str = names.DEFAULT_QUEUE,
        node_selector: Collection[tuple[str, str]] = (),
        ignored_provisioners: Sequence[str] = (),
        period: float = 1.0,
        seed: int = 0,
        metrics: SchedulerMetrics | None = None,
        between_cycles: Callable[[], None] = lambda: None,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster = Cluster(
            scheduler_names=scheduler_names,
            serve_default=serve_default,
            default_queue=default_queue,
            node_selector=node_selector,
            ignored_provisioners=ignored_provisioners,
        )
        self.source = source
        source.on_change = lambda: self._timer.wake()
        self.metrics = metrics or SchedulerMetrics()
        self.diagnoses: dict[str, Diagnosis] = {}
        self.errors: tuple[str, ...] = ()  # what the last cycle did without, and why
        self.cycles = 0
        component = scheduler_names[0] if len(scheduler_names) == 1 else names.SCHEDULER_NAME
        builder = OperationBuilder(Recorder(component), component)
        self.write_back = WriteBack(
            client, builder, clock, refused=self._refused, make_sure=self._make_sure, bound=self.metrics.bound
        )
        self._client = client
        self._clock = clock
        self._default_queue = default_queue
        self._period = period
        self._seed = seed
        self._between_cycles = between_cycles
        self._on_ready = on_ready
        self.synced = False
        self._memory: dict[str, Any] = {}
        self._timer = CycleTimer(
            clock, period, lambda: self.cluster.revision, lambda: self.cluster.busy or bool(self._memory)
        )
        self.last_snapshot: Snapshot | None = None

    @property
    def ready(self) -> bool:
        return self.synced and self.source.current is not None

    async def run(self) -> None:
        """Runs until cancelled."""
        mirrors = [self._mirror(kind) for kind in WATCHED]
        async with asyncio.TaskGroup() as group:
            group.create_task(ensure_queues(self._client, self._clock, self._default_queue))
            for mirror in mirrors:
                group.create_task(mirror.run())
            group.create_task(self.write_back.run())
            group.create_task(self.source.follow(self._clock))
            for mirror in mirrors:
                await mirror.synced.wait()
            self.synced = True
            self._on_ready()
            while True:
                await self._timer.beat()
                if (config := self.source.current) is not None:
                    await self._cycle(config)
                self._between_cycles()

    async def _cycle(self, config: Config) -> None:
        """Snapshot, decide in a thread of its own, assume, and hand over to be written."""
        self.cycles += 1
        revision = self.cluster.revision
        snapshot = self.cluster.snapshot(self._clock.now().wall, self._seed + self.cycles, self._memory)
        self.last_snapshot = snapshot
        try:
            outcome = await asyncio.to_thread(schedule, snapshot, config, lambda: self._clock.now().monotonic)
        except Exception as error:  # only this cycle is lost: the next one sees the cluster afresh
            log.error("cycle abandoned", cycle=self.cycles, error=error)
            self.errors = (f"cycle abandoned: {type(error).__name__}: {error}",)
            await self._clock.sleep(self._period)
            return
        await self._take(outcome, snapshot, revision)

    async def _take(self, outcome: Outcome, snapshot: Snapshot, revision: int) -> None:
        """Assumes and hands over some at a time: a cluster's worth of decisions must not hold up everybody else."""
        decisions = [decision for decision in outcome.decisions if self._still_possible(decision)]
        if self.cluster.revision != revision:
            decisions = drop_stale(decisions, snapshot, self.cluster)
        for start in range(0, len(decisions), AT_ONCE):
            some = decisions[start : start + AT_ONCE]
            self.cluster.assume(some)
            self.write_back.submit(some)
            self.metrics.placed(some, snapshot)
            await asyncio.sleep(0)
        log_cycle(decisions, snapshot.jobs, self.cycles)
        self.diagnoses = dict(outcome.diagnoses)
        self.errors = outcome.errors
        self._memory = dict(outcome.memory)
        self.metrics.cycle(outcome, snapshot)

    def _mirror(self, kind: Any) -> Reflector:
        decode = self.cluster.decoder(kind)
        return Reflector(self._client, Watch(kind), self._saw, self._clock, decode=decode, identify=_identity)

    def _saw(self, group: Sequence[Event]) -> None:
        cluster = self.cluster
        revision, jobless_revision = cluster.revision, cluster.jobless_revision
        for event in group:
            self._take_in(event)
        if cluster.revision == revision:
            return
        only_aside = cluster.revision - revision == cluster.jobless_revision - jobless_revision
        if only_aside and not cluster.busy and not self._memory:
            self._timer.wake_in_time()  # others' pods came or went, and nobody waits for room
        else:
            self._timer.wake()

    def _take_in(self, event: Event) -> None:
        before = self.cluster.revision
        try:
            self.cluster.apply(event)
        except Exception as error:  # one object we cannot take in must not blind us to the others
            log.error("event not understood", kind=event.kind, error=error)
        if self.cluster.revision != before:
            seen = event.object
            if event.type is EventType.DELETED and isinstance(seen, PodGroup):
                self.write_back.withdraw(seen.namespace, seen.name)
            if self.synced and event.type is EventType.ADDED and isinstance(seen, Task) and not seen.node:
                self.metrics.watched(seen, self._clock.now().wall)

    def _still_possible(self, decision: Decision) -> bool:
        return not isinstance(decision, Bind) or self.cluster.has_node(decision.node)

    async def _make_sure(self, decision: Bind | Evict) -> None:
        """Takes in what the server has of a pod before a decision about it is forgotten."""
        decode = self.cluster.decoder(POD)
        task = await read_pod(self._client, self._clock, decision, decode)
        if task is not None:
            self._saw((Event(EventType.MODIFIED, POD, task),))

    def _refused(self, decision: Decision) -> None:
        """What was to be done is tried again at once, what was merely to be said with the next cycle."""
        self.cluster.forget(decision)
        if isinstance(decision, Bind):
            self.metrics.refused(decision)
        if isinstance(decision, Bind | Evict):
            self._timer.wake()


def _identity(fact: Any) -> object:
    return getattr(fact, "namespace", ""), fact.name
