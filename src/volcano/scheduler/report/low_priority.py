"""LowPriority: jobs that would have room if jobs of higher priority in their queue did not hold it.

Decided once per cycle, after the actions, for jobs that wait for capacity, where the configuration preempts: pods are
evicted only for a higher priority. Where nothing is preempted, running pods are left alone whatever their priority,
and the job waits for capacity.

It is recorded only where it is certain: without those pods, the nodes have room for all that the job lacks, counted by
resources. Jobs with constraints that depend on other pods, with limits of devices or with a network topology keep
their diagnosis.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volcano.model.job import Job
from volcano.model.resources import PODS, STEP, Vector
from volcano.model.status import EVICTABLE, Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import Purpose
from volcano.scheduler.engine.diagnosis import Amount, Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.scheduler.engine.session import Session

STAGE = "priority"
PLUGIN = "priority"
COUNTED = EVICTABLE | {Status.ALLOCATED, Status.BINDING}
# Different kinds of jobs that are examined in one cycle; each costs arithmetic over all nodes.
MOST_KINDS = 100
PREEMPTING = {"preempt": Purpose.PREEMPT, "gangpreempt": Purpose.GANG_PREEMPT}


def record_low_priority(session: Session) -> None:
    """Records the code for the jobs that wait for capacity because of their priority."""
    if not any(
        name in session.config.actions and session.policy.victim_hooks(purpose).only_lower_priority
        for name, purpose in PREEMPTING.items()
    ):
        return
    waiting = [
        (known, job)
        for known in session.diagnoses.by_job.values()
        if known.code.diagnosis_class is DiagnosisClass.CAPACITY
        and known.stage != "enqueue"  # pods are evicted for admitted jobs only
        and (job := session.snapshot.jobs.get(known.job)) is not None
    ]
    if not waiting:
        return
    finder = _Finder(session)
    for known, job in waiting:
        if finder.highest.get(job.queue, job.priority) > job.priority:
            with session.inquiry(job):
                found = finder.find(known, job)
                if found is not None:
                    session.diagnoses.record(found)


class _Ahead(NamedTuple):
    """Jobs of higher priority, and what their pods take on each node."""

    first: Job  # of the highest priority
    requests: Vector  # (nodes, resources)


class _Finder:
    """Room without the pods of jobs of higher priority, by queue and priority; each is computed once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ahead: dict[object, _Ahead | None] = {}
        self._kinds: dict[object, tuple[Job, tuple[Amount, ...]] | None] = {}

    @cached_property
    def highest(self) -> dict[str, int]:
        """Highest priority of the jobs that may be ahead of others, by queue."""
        found: dict[str, int] = {}
        for job in self._candidates():
            if job.priority > found.get(job.queue, job.priority - 1):
                found[job.queue] = job.priority
        return found

    def _candidates(self) -> Iterator[Job]:
        """Jobs that hold resources, or that this cycle decided about."""
        jobs = self._session.snapshot.jobs
        yield from (job for job in jobs.values() if any(map(job.count, EVICTABLE)))
        yield from (jobs[uid] for uid in self._session.ledger.touched_jobs if uid in jobs)

    def find(self, known: Diagnosis, job: Job) -> Diagnosis | None:
        """The diagnosis of a job for which no node had room, if jobs of higher priority are why."""
        pending = self._pending(job)
        if pending is None or self._session.topology.demand(job) is not None:
            return None
        before = _before_priority(self._session, job)
        key = (job.queue, job.priority, before, tuple((shape, many) for shape, (_, many) in pending.items()))
        if key not in self._kinds:
            self._kinds[key] = self._examine(job, pending) if len(self._kinds) < MOST_KINDS else None
        found = self._kinds[key]
        return None if found is None else _diagnosis(known, job, *found)

    def _examine(self, job: Job, pending: "_Pending") -> tuple[Job, tuple[Amount, ...]] | None:
        ahead = self._jobs_ahead(job) if all(shape.preempts for shape in pending) else None
        amounts = self._amounts(job, pending, ahead.requests) if ahead is not None else None
        return (ahead.first, amounts) if ahead is not None and amounts else None

    def _pending(self, job: Job) -> "_Pending | None":
        """One pending task of each shape and how many are needed; None where more than resources limits them."""
        counts: _Pending = {}
        for task in job.by_status.get(Status.PENDING, ()):
            if not task.gates and self._session.ledger.status(task) is Status.PENDING:
                counts[task.shape] = task, counts.get(task.shape, (task, 0))[1] + 1
        if not counts or not all(map(_is_limited_by_resources_only, counts)):
            return None
        if len(counts) == 1:
            (shape, (task, count)) = next(iter(counts.items()))
            short = max(self._session.policy.job_short(job), 1)
            if short > count:
                return None  # pods are missing as well
            counts[shape] = task, short
        return counts

    def _jobs_ahead(self, job: Job) -> _Ahead | None:
        before = partial(_before_priority, self._session)
        key = (job.queue, job.priority, before(job))
        if key not in self._ahead:
            found = {other.uid: other for other in self._candidates() if _is_higher(other, job)}
            self._ahead[key] = self._sum(other for other in found.values() if before(other) == before(job))
        return self._ahead[key]

    def _sum(self, jobs: Iterable[Job]) -> _Ahead | None:
        """Resources that the jobs hold and might lose by eviction, and those they were given in this cycle."""
        ledger = self._session.ledger
        # What this cycle evicts for a job of higher priority would not be released without that job.
        counted = COUNTED if ledger.evictions else COUNTED | {Status.PIPELINED}
        rows: list[int] = []
        requests: list[Vector] = []
        first: Job | None = None
        for job in jobs:
            before = len(rows)
            for task in job.tasks.values():
                status = ledger.status(task)
                if task.preemptable and status in counted:
                    row = ledger.row(task)
                    if row is not None:
                        rows.append(row)
                        requests.append(task.request)
            if len(rows) > before and (
                first is None or (-job.priority, job.uid) < (-first.priority, first.uid)
            ):
                first = job
        if first is None:
            return None
        total: Vector = np.zeros_like(self._session.nodes.allocatable)
        np.add.at(total, np.array(rows), np.array(requests))
        return _Ahead(first, total)

    def _amounts(self, job: Job, pending: "_Pending", taken: Vector) -> tuple[Amount, ...] | None:
        """Need, have and what there would be without the jobs ahead, for the first pods without room; None if these
        would not have room for all."""
        session = self._session
        now = session.nodes.future_idle
        if session.ledger.evictions:
            now = np.minimum(now, session.nodes.idle)
        then = now + taken
        amounts: tuple[Amount, ...] | None = None
        for task, count in pending.values():
            fit = session.placer.fit(task, job.queue)
            if fit.rejection is not None or fit.limited or not session.placer.is_static(task):
                return None
            columns = fit.columns
            many = _copies(then[:, columns], fit.request[columns]) * fit.passed
            if many.sum() < count:
                return None
            has = int((_copies(now[:, columns], fit.request[columns]) * fit.passed).sum())
            if amounts is None and has < count:
                names = session.resources.names
                amounts = tuple(
                    Amount(names[c], each * count, each * has, each * int(many.sum()))
                    for c, each in zip(columns.tolist(), fit.request[columns].tolist(), strict=True)
                    if c != PODS
                )
            used = np.minimum(many, np.maximum(count - (np.cumsum(many) - many), 0))
            then[:, columns] -= used[:, None] * fit.request[columns]
        return amounts


_Pending = dict[Shape, tuple[Task, int]]


def _diagnosis(known: Diagnosis, job: Job, first: Job, amounts: tuple[Amount, ...]) -> Diagnosis:
    ahead = f"job {first.uid} of priority {first.priority}"
    text = (
        f"jobs of higher priority hold what it needs: {first.uid} has {first.priority}, it has {job.priority}"
    )
    return msgspec.structs.replace(
        known,
        stage=STAGE,
        message=f"{text}; {known.message}",
        plugin=PLUGIN,
        resource=amounts[0].resource if amounts else "",
        need=amounts[0].need if amounts else 0.0,
        have=amounts[0].have if amounts else 0.0,
        code=Code.LOW_PRIORITY,
        amounts=amounts,
        ahead=ahead,
    )


def _before_priority(session: Session, job: Job) -> tuple[Any, ...]:
    """The part of the order that goes before the priority: that of plugins with `orders_first`."""
    first = {plugin.name for plugin in session.policy.plugins if plugin.orders_first}
    return tuple(call(job) for name, call in session.policy.hooks("job_order").named if name in first)


def _is_higher(other: Job, job: Job) -> bool:
    return other.queue == job.queue and other.priority > job.priority


def _is_limited_by_resources_only(shape: Shape) -> bool:
    """Whether nothing but properties of nodes and counted resources decides where pods of this shape fit."""
    wanted = shape.constraints
    return not (
        wanted.required_near
        or wanted.required_apart
        or wanted.spread
        or wanted.host_ports
        or wanted.claims
        or wanted.volumes
        or wanted.device_claims
    )


def _copies(free: Vector, request: Vector) -> Vector:
    """(nodes,): pods with this request that fit into free resources."""
    if not len(request):
        return np.zeros(len(free))
    many: Vector = np.maximum(np.ceil(((free + STEP) / request).min(axis=1)) - 1, 0.0)
    return many
