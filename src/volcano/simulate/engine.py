"""Simulation: arrivals, run times and failures of a trace around the scheduler's own cycles, in virtual time.

The cluster cache, the cycle with its actions and plugins, and their decisions are those of the running scheduler. The
API server is replaced by values in memory that confirm each decision at once: there is nothing to encode, to store or
to wait for. Time passes from event to event.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from volcano.base.clock import VirtualClock
from volcano.kube.api import kinds
from volcano.model.decisions import (
    Bind,
    Decision,
    Evict,
    Nominate,
    RemoveGate,
    SetPodCondition,
    SetPodGroup,
    SetQueue,
)
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.scheduler.cycle import schedule
from volcano.scheduler.cycle_sequence import CycleSequence
from volcano.scheduler.cycle_timer import LONGEST_WINDOW, SHORTEST_WINDOW
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Outcome
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.snapshot_file import read_events
from volcano.simulate.events import Due, EventQueue, What
from volcano.simulate.faults import NodeFault
from volcano.simulate.jobs import LiveJob, LivePod, Result
from volcano.simulate.objects import (
    GpuSharing,
    ObjectBuilder,
    added,
    apply_all,
    deleted,
    modified,
)
from volcano.simulate.workload import SimNode, TraceJob, Workload

NEVER = float("inf")
MOST_IDLE_CYCLES = (
    10_000  # in a row, if decisions depend on time: a job that never starts must not run for ever
)


class Observer(Protocol):
    """Receives what happens, in order of time."""

    def arrived(self, job: LiveJob, now: float) -> None: ...

    def started(self, pod: LivePod, now: float) -> None: ...

    def stopped(self, pod: LivePod, now: float, *, lost: bool) -> None:
        """A pod ended; `lost` if it will be created again because of an eviction or a failed node."""

    def requeued(self, pod: LivePod, now: float) -> None:
        """A pod that had ended is created again, for the next attempt of its job."""

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None: ...

    def evicted(self, pod: LivePod, now: float, reason: str) -> None: ...

    def cycled(self, snapshot: Snapshot, outcome: Outcome, now: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one simulation."""

    config: Config
    seed: int = 0
    period: float = 0.0  # seconds between cycles at least; 0: as the scheduler, soon after a change
    grace: float = 1.0  # seconds that an evicted pod takes to terminate
    sharing: GpuSharing = GpuSharing.DIVISIBLE
    faults: tuple[NodeFault, ...] = ()
    until: float = NEVER  # virtual seconds after which it ends


class Simulation:
    """One configuration over one workload. `run` may be interrupted; `finish` then reports what is unfinished."""

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        observer: Observer,
        jobs: Iterable[TraceJob] | None = None,
    ) -> None:
        """`jobs`, in order of arrival, replaces those of the workload: a generator needs no memory."""
        self._settings = settings
        self._observer = observer
        self._clock = VirtualClock()
        self._start = self._clock.now().wall
        self._cluster = SchedulerOptions().new_cluster()
        self._events = EventQueue()
        self._arrivals: Iterator[TraceJob] = iter(workload.jobs if jobs is None else jobs)
        self._next: TraceJob | None = next(self._arrivals, None)
        self._live: dict[str, LiveJob] = {}  # by uid of the job
        self._pods: dict[str, LivePod] = {}  # by uid of the pod
        self._on_node: dict[str, dict[str, LivePod]] = {}
        self._priorities = {0}
        self._pending = 0  # pods
        self._reasons: dict[str, str] = {}  # of jobs that wait, by uid
        self._due = NEVER  # of the next cycle
        self._first_change = NEVER  # since the last cycle
        self._last_cycle = -NEVER
        self._idle_cycles = 0
        self._timed = settings.config.depends_on_time
        self._follows_usage = settings.config.follows_usage
        self._nodes = {node.name: node for node in workload.nodes}
        self._sequence = CycleSequence(
            self._cluster, self._clock, period=SchedulerOptions().period, seed=settings.seed
        )
        self.finished = 0
        self._objects = self._new_objects(workload)
        for fault in settings.faults:
            self._events.add(fault.at, What.NODE_FAILS, fault)

    @property
    def cycles(self) -> int:
        """Number of cycles so far."""
        return self._sequence.count

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._clock.now().monotonic

    def _new_objects(self, workload: Workload) -> ObjectBuilder:
        """Adds the nodes, queues and other objects that exist at the start."""
        if workload.base is not None:
            saved = read_events(workload.base)
            self._cluster.parser.shapes.index = saved.resources
            apply_all(self._cluster, (event for event in saved.events if _kept(event.kind)))
        objects = ObjectBuilder(self._cluster, self._start, self._settings.sharing)
        apply_all(self._cluster, (added(kinds.QUEUE, objects.queue(queue)) for queue in workload.queues))
        apply_all(self._cluster, (added(kinds.NODE, objects.node(node)) for node in workload.nodes))
        return objects

    # -- time --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs until every job has finished, or nothing that could start the waiting ones happens any more."""
        while self.step():
            pass
        self.finish(Result.UNPLACED)

    def step(self) -> bool:
        """Handles the next moment; returns whether there is one."""
        arrival = self._next.arrival if self._next is not None else NEVER
        at = min(arrival, self._events.next_at, self._due)
        if at == NEVER:
            return False
        if at > self._settings.until:
            self._clock.advance(self._settings.until - self.now)
            return False
        self._clock.advance(at - self.now)
        while self._next is not None and self._next.arrival <= at:
            job, self._next = self._next, next(self._arrivals, None)
            self._arrive(job)
        while self._events.next_at <= at:
            self._handle(self._events.pop())
        if self._due <= at:
            self._cycle()
        return True

    def finish(self, result: Result) -> None:
        """Reports the jobs that have not finished."""
        for uid, live in list(self._live.items()):
            running = live.first_start is not None
            self._observer.finished(
                live, self.now, Result.RUNNING if running else result, self._reasons.get(uid, "")
            )
        self._live.clear()

    def _changed(self, *, urgent: bool = True) -> None:
        """Makes a cycle due soon after a change, as the scheduler's timer does; changes that follow are collected."""
        now = self.now
        is_idle = not (self._pending or self._follows_usage)
        if not urgent and (is_idle or self._due <= now + SchedulerOptions().period):
            return  # only what is reported changed, or a cycle is due anyway
        if self._first_change == NEVER:
            self._first_change = now
        due = min(now + SHORTEST_WINDOW, self._first_change + LONGEST_WINDOW)
        self._due = max(due, self._last_cycle + self._settings.period)
        self._idle_cycles = 0

    # -- jobs --------------------------------------------------------------------------------------

    def _arrive(self, trace: TraceJob) -> None:
        live = LiveJob(trace)
        now = self.now
        if trace.priority not in self._priorities:
            self._priorities.add(trace.priority)
            self._cluster.apply(self._objects.priority_class(trace.priority))
        live.group = self._objects.pod_group(trace, now)
        uid = f"{live.group.namespace}/{trace.name}"
        if uid in self._live:
            raise ValueError(f"two jobs of the trace are called {trace.name!r}; names must be unique")
        self._live[uid] = live
        number = 0
        for spec in trace.tasks:
            for _ in range(spec.replicas):
                live.pods.append(LivePod(live, spec, number))
                number += 1
        placed = [node for spec in trace.tasks for node in spec.nodes]
        if placed:
            live.group = replace(live.group, phase="Running")
        self._cluster.apply(added(kinds.POD_GROUP, live.group))
        self._observer.arrived(live, now)
        for pod in live.pods:
            self._create(pod)
        for pod, node in zip(live.pods, placed, strict=False):
            self._start_pod(pod, node, {})
        if trace.longest_wait is not None and live.first_start is None:
            self._events.add(now + trace.longest_wait, What.WITHDRAWN, live)
        self._changed()

    def _create(self, pod: LivePod) -> None:
        trace = pod.job.trace
        pod.serial += 1
        uid = f"{trace.name}.{pod.number}.{pod.serial}"
        pod.node, pod.done, pod.pending = "", False, True
        self._pending += 1
        pod.task = self._objects.pod(trace, pod.spec, pod.number, self.now, uid)
        self._pods[uid] = pod
        self._cluster.apply(added(kinds.POD, pod.task))

    def _start_pod(self, pod: LivePod, node: str, annotations: dict[str, str]) -> None:
        now, live = self.now, pod.job
        marked = {**pod.task.annotations, **annotations} if annotations else pod.task.annotations
        pod.task = msgspec.structs.replace(
            pod.task,
            status=Status.RUNNING,
            node=node,
            started=self._start + now,
            scheduled=self._start + now,
            annotations=marked,
        )
        pod.node, pod.started, pod.pending = node, now, False
        self._pending -= 1
        self._on_node.setdefault(node, {})[pod.task.uid] = pod
        live.running += 1
        if live.running == live.trace.minimum and live.started is None:
            live.started = now
            if live.first_start is None:
                live.first_start = now
        self._cluster.apply(modified(kinds.POD, pod.task))
        self._observer.started(pod, now)
        self._events.add(now + live.run.seconds, What.POD_ENDS, pod, pod.serial)

    def _release(self, pod: LivePod, *, lost: bool) -> None:
        """Ends a pod that runs."""
        now, live = self.now, pod.job
        self._on_node[pod.node].pop(pod.task.uid, None)
        self._observer.stopped(pod, now, lost=lost)
        if lost:
            live.lost += now - pod.started
            live.running -= 1
        pod.serial += 1  # the end of its run time does not matter any more
        pod.node = ""

    def _delete(self, pod: LivePod) -> None:
        pod.serial += 1
        self._pending -= pod.pending
        pod.pending = False
        self._pods.pop(pod.task.uid, None)
        self._cluster.apply(deleted(kinds.POD, pod.task))

    # -- events ------------------------------------------------------------------------------------

    def _handle(self, due: Due) -> None:
        match due.what:
            case What.POD_ENDS:
                if due.serial == due.subject.serial and due.subject.running:
                    self._pod_ends(due.subject)
            case What.POD_GONE:
                if due.serial == due.subject.serial:
                    self._pod_gone(due.subject)
            case What.WITHDRAWN:
                if due.subject.first_start is None:
                    self._end(due.subject, Result.WITHDRAWN)
            case What.NODE_FAILS:
                self._node_fails(due.subject)
            case What.NODE_RETURNS:
                self._node_returns(due.subject)

    def _pod_ends(self, pod: LivePod) -> None:
        live = pod.job
        failed = live.run.failed
        self._release(pod, lost=False)
        pod.done = True
        if failed and live.attempt + 1 < len(live.trace.attempts):
            live.attempt += 1
            live.restarts += 1
            self._restart(live)
        elif failed:
            self._end(live, Result.FAILED)
        elif len(live.pods) == 1 or live.done:
            self._end(live, Result.COMPLETED)
        else:
            pod.task = msgspec.structs.replace(pod.task, status=Status.SUCCEEDED)
            self._cluster.apply(modified(kinds.POD, pod.task))
        self._changed(urgent=False)

    def _restart(self, live: LiveJob) -> None:
        """Creates every pod of a job again."""
        for pod in live.pods:
            if pod.running:
                self._release(pod, lost=True)
            self._delete(pod)
        live.running, live.started = 0, None
        for pod in live.pods:
            if pod.done:
                self._observer.requeued(pod, self.now)
            self._create(pod)
        self._changed()

    def _end(self, live: LiveJob, result: Result) -> None:
        """Removes a job with its pods: nothing of it is kept."""
        for pod in live.pods:
            if pod.running:
                self._release(pod, lost=False)
                pod.done = True
            self._delete(pod)
        self._cluster.apply(deleted(kinds.POD_GROUP, live.group))
        uid = f"{live.group.namespace}/{live.trace.name}"
        del self._live[uid]
        self.finished += 1
        self._observer.finished(live, self.now, result, self._reasons.pop(uid, ""))
        live.pods.clear()  # they refer to the job: without this, only the garbage collector would free both

    def _interrupt(self, pod: LivePod) -> None:
        """Ends a running pod whose work is lost."""
        live = pod.job
        self._release(pod, lost=True)
        if live.running < live.trace.minimum:
            live.started = None

    def _pod_gone(self, pod: LivePod) -> None:
        """Creates an evicted pod again; the rest of a gang that lost its minimum starts again with it."""
        live = pod.job
        live.restarts += 1
        if live.started is None and live.run.seconds != NEVER and live.running:
            self._restart(live)
        else:
            self._delete(pod)
            self._create(pod)
        self._changed()

    def _node_fails(self, fault: NodeFault) -> None:
        node = self._nodes.get(fault.node)
        if node is None:
            return
        self._cluster.apply(modified(kinds.NODE, self._objects.node(node, failed=True)))
        affected: dict[str, LiveJob] = {}
        for pod in list(self._on_node.get(fault.node, {}).values()):
            self._interrupt(pod)
            pod.job.evictions += 1
            self._observer.evicted(pod, self.now, "node failure")
            self._delete(pod)
            self._create(pod)
            affected[pod.job.trace.name] = pod.job
        for live in affected.values():
            live.restarts += 1
            if live.started is None and live.running:
                self._restart(live)
        self._events.add(self.now + fault.seconds, What.NODE_RETURNS, node)
        self._changed()

    def _node_returns(self, node: SimNode) -> None:
        self._cluster.apply(modified(kinds.NODE, self._objects.node(node)))
        self._changed()

    # -- cycles ------------------------------------------------------------------------------------

    def _cycle(self) -> None:
        """Runs one cycle of the scheduler and carries out its decisions."""
        self._due = self._first_change = NEVER
        self._last_cycle = now = self.now
        snapshot = self._sequence.begin()
        revision = self._cluster.revision
        outcome = schedule(snapshot, self._settings.config)
        self._sequence.ended(outcome, self._settings.config, revision)
        for uid, diagnosis in outcome.diagnoses.items():
            self._reasons[uid] = diagnosis.message
        for decision in outcome.decisions:
            self._carry_out(decision)
        self._observer.cycled(snapshot, outcome, now)
        if (
            self._cluster.revision != revision
            and (self._pending or self._follows_usage)
            and any(map(_may_matter, outcome.decisions))
        ):
            self._changed()
        elif (
            self._pending
            and (self._timed or self._sequence.needs_cycle())
            and self._idle_cycles < MOST_IDLE_CYCLES
        ):
            self._due = now + max(self._settings.period, SchedulerOptions().period)
            self._idle_cycles += 1
        elif self._pending and self._start + now < outcome.due < NEVER:
            self._due = max(outcome.due - self._start, now + self._settings.period)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Bind(task=uid, node=node, annotations=annotations, job=job):
                self._reasons.pop(job, None)
                self._start_pod(self._pods[uid], node, dict(annotations))
            case Evict(task=uid, reason=reason):
                self._evict(self._pods[uid], reason)
            case Nominate(task=uid, node=node):
                pod = self._pods[uid]
                pod.task = msgspec.structs.replace(pod.task, nominated=node)
                self._cluster.apply(modified(kinds.POD, pod.task))
            case SetPodGroup():
                self._set_pod_group(decision)
            case RemoveGate(task=uid):
                pod = self._pods[uid]
                pod.task = msgspec.structs.replace(pod.task, gates=())
                self._cluster.apply(modified(kinds.POD, pod.task))
            case SetQueue() | SetPodCondition():
                self._cluster.assume((decision,))
            case _:
                pass  # events are not kept

    def _evict(self, pod: LivePod, reason: str) -> None:
        pod.job.evictions += 1
        self._observer.evicted(pod, self.now, reason)
        self._interrupt(pod)
        pod.task = msgspec.structs.replace(pod.task, status=Status.RELEASING)
        self._cluster.apply(modified(kinds.POD, pod.task))
        self._events.add(self.now + self._settings.grace, What.POD_GONE, pod, pod.serial)

    def _set_pod_group(self, decision: SetPodGroup) -> None:
        live = self._live.get(decision.job)
        if live is None:
            return
        group = live.group
        live.group = replace(
            group,
            resource_version=self._objects.version(),
            phase=group.phase if decision.phase is None else decision.phase,
            conditions=group.conditions if decision.conditions is None else decision.conditions,
            counts=group.counts if decision.counts is None else decision.counts,
        )
        self._cluster.apply(modified(kinds.POD_GROUP, live.group))


def _may_matter(decision: Decision) -> bool:
    """Whether carrying out a decision could change what the next cycle decides."""
    return isinstance(decision, Bind | Evict | Nominate | RemoveGate) or (
        isinstance(decision, SetPodGroup) and decision.phase is not None
    )


def _kept(kind: kinds.Kind) -> bool:
    """Whether objects of a snapshot are taken as they are; jobs, nodes and queues are part of the workload."""
    return kind not in (kinds.POD, kinds.POD_GROUP, kinds.NODE, kinds.QUEUE)
