"""LowPriority: jobs that would have room if jobs of higher priority in their queue did not take or hold it.

Decided once per cycle, after the actions, for jobs that wait for capacity. Two cases count. Pods of jobs of higher
priority were placed in this cycle, and priority comes first in the order of jobs. Or they run, and the configuration
preempts: pods are evicted only for a higher priority. Where nothing is preempted, running pods are left alone whatever
their priority, and the job waits for capacity.

It is recorded only where it is certain: without those pods, the nodes have room for all that the job lacks, counted by
resources. Jobs with constraints that depend on other pods, with limits of devices or with a network topology keep
their diagnosis.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from volcano.model.job import Job
from volcano.model.resources import PODS, STEP, Vector
from volcano.model.status import EVICTABLE, Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.diagnosis import Amount, Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.scheduler.engine.plugin import Purpose

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

STAGE = "priority"
PLUGIN = "priority"
TAKEN = frozenset((Status.ALLOCATED, Status.BINDING))
# Different kinds of jobs that are examined in one cycle; each costs arithmetic over all nodes.
MOST_KINDS = 100
PREEMPTING = {"preempt": Purpose.PREEMPT, "gangpreempt": Purpose.GANG_PREEMPT}


def record_low_priority(session: "Session") -> None:
    """Records the code for the jobs that wait for capacity because of their priority."""
    waiting = [
        (known, job)
        for known in session.diagnoses.values()
        if known.code.diagnosis_class is DiagnosisClass.CAPACITY
        and (job := session.snapshot.jobs.get(known.job)) is not None
    ]
    if not waiting:
        return
    finder = _Finder(session)
    for known, job in waiting:
        if finder.highest.get(job.queue, job.priority) > job.priority:
            with session.inquiry(job):
                found = finder.admission(known, job) if known.stage == "enqueue" else finder.room(known, job)
                if found is not None:
                    session.record(found)


class _Ahead(NamedTuple):
    """Jobs of higher priority, and what their pods take on each node."""

    first: Job  # of the highest priority
    requests: Vector  # (nodes, resources)


class _Finder:
    """Room without the pods of jobs of higher priority, by queue and priority; each is computed once."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._ordered = session.policy.orders_by_priority
        self._preempts = any(
            name in session.config.actions and session.policy.only_lower_priority(purpose)
            for name, purpose in PREEMPTING.items()
        )
        self._ahead: dict[object, _Ahead | None] = {}
        self._kinds: dict[object, tuple[str, Job, tuple[Amount, ...]] | None] = {}

    @cached_property
    def highest(self) -> dict[str, int]:
        """Highest priority of the jobs that may be ahead of others, by queue."""
        found: dict[str, int] = {}
        for job in self._candidates():
            if job.priority > found.get(job.queue, job.priority - 1):
                found[job.queue] = job.priority
        return found

    def _candidates(self) -> Iterator[Job]:
        """Jobs that hold resources where jobs preempt others, otherwise those that this cycle decided about."""
        session = self._session
        if self._preempts:
            yield from (job for job in session.snapshot.jobs.values() if any(map(job.count, EVICTABLE)))
        if self._ordered:
            jobs = session.snapshot.jobs
            for uid in {*session.ledger.touched_jobs, *session.ledger.phases}:
                if uid in jobs:
                    yield jobs[uid]

    def room(self, known: Diagnosis, job: Job) -> Diagnosis | None:
        """The diagnosis of a job for which no node had room, if jobs of higher priority are why."""
        pending = self._pending(job)
        if pending is None or self._session.topology.demand(job) is not None:
            return None
        before = self._session.policy.order_before_priority(job)
        key = (job.queue, job.priority, before, tuple((shape, many) for shape, (_, many) in pending.items()))
        if key not in self._kinds:
            self._kinds[key] = self._examine(job, pending) if len(self._kinds) < MOST_KINDS else None
        found = self._kinds[key]
        return None if found is None else _diagnosis(known, job, *found)

    def _examine(self, job: Job, pending: "_Pending") -> tuple[str, Job, tuple[Amount, ...]] | None:
        for held, text in ((False, "go before it"), (True, "hold what it needs")):
            if not (self._preempts and all(shape.preempts for shape in pending) if held else self._ordered):
                continue
            ahead = self._jobs_ahead(job, held=held)
            amounts = self._amounts(job, pending, ahead.requests) if ahead is not None else None
            if ahead is not None and amounts:
                return text, ahead.first, amounts
        return None

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

    def _jobs_ahead(self, job: Job, *, held: bool) -> _Ahead | None:
        before = self._session.policy.order_before_priority
        key = (job.queue, job.priority, before(job), held)
        if key not in self._ahead:
            found = {other.uid: other for other in self._candidates() if _is_higher(other, job)}
            equal = [other for other in found.values() if before(other) == before(job)]
            self._ahead[key] = self._sum(equal, held=held)
        return self._ahead[key]

    def _sum(self, jobs: Iterable[Job], *, held: bool) -> _Ahead | None:
        """What the jobs were given in this cycle and, with `held`, what they hold that might be evicted."""
        ledger = self._session.ledger
        # What this cycle evicts for a job of higher priority would not be released without that job.
        taken = TAKEN if ledger.evictions else TAKEN | {Status.PIPELINED}
        rows: list[int] = []
        requests: list[Vector] = []
        first: Job | None = None
        for job in jobs:
            before = len(rows)
            for task in job.tasks.values():
                status = ledger.status(task)
                if status in taken or (held and task.preemptable and status in EVICTABLE):
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

    def admission(self, known: Diagnosis, job: Job) -> Diagnosis | None:
        """The diagnosis of a job that was not admitted, if jobs of higher priority were admitted before it."""
        if not self._ordered or known.code is not Code.CLUSTER_OVERCOMMITTED:
            return None
        session = self._session
        jobs = [
            other
            for uid in session.ledger.phases
            if (other := session.snapshot.jobs.get(uid)) is not None
            and _is_higher(other, job)
            and other.pending_phase
            and session.ledger.phase(other) == "Inqueue"
            and session.policy.order_before_priority(other) == session.policy.order_before_priority(job)
        ]
        if not jobs:
            return None
        promised = np.sum([other.min_resources for other in jobs], axis=0)
        amounts = []
        for each in known.amounts:
            then = each.have + promised.item(session.resources.names.index(each.resource))
            if each.have <= 0 or then < each.need:  # 0 also stands for more than all being promised
                return None
            amounts.append(Amount(each.resource, each.need, each.have, then))
        first = min(jobs, key=lambda other: (-other.priority, other.uid))
        return _diagnosis(known, job, "were admitted before it", first, tuple(amounts))


_Pending = dict[Shape, tuple[Task, int]]


def _diagnosis(known: Diagnosis, job: Job, does: str, first: Job, amounts: tuple[Amount, ...]) -> Diagnosis:
    ahead = f"job {first.uid} of priority {first.priority}"
    text = f"jobs of higher priority {does}: {first.uid} has {first.priority}, it has {job.priority}"
    return msgspec.structs.replace(
        known,
        stage=STAGE if known.stage != "enqueue" else known.stage,
        message=f"{text}; {known.message}",
        plugin=PLUGIN,
        resource=amounts[0].resource if amounts else "",
        need=amounts[0].need if amounts else 0.0,
        have=amounts[0].have if amounts else 0.0,
        code=Code.LOW_PRIORITY,
        amounts=amounts,
        ahead=ahead,
    )


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
