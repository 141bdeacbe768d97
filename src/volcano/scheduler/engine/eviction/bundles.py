"""Bundles: running tasks that are evicted together: surplus members of a gang one by one, or a gang as a
whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import Vector
from volcano.model.status import EVICTABLE, READY, Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.cycle import Cycle


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job. Evicting a `whole` bundle breaks the gang and costs the resources of the whole gang.

    `inside` are those of its tasks in the domain that is to be freed; the others are evicted with their gang.
    """

    job: Job
    tasks: tuple[Task, ...]
    whole: bool
    inside: tuple[Task, ...]

    def gain(self, zeros: Vector) -> Vector:
        """Resources that evicting it frees in the domain."""
        return sum((task.request for task in self.inside), zeros)


class GangVictims:
    """Jobs with tasks that may be evicted for one job, found once and used for several domains."""

    def __init__(self, session: Cycle, context: EvictionContext) -> None:
        self._session = session
        self._context = context
        self._jobs = {job.uid: (job, tasks) for job, tasks in _candidates(session, context)}

    @cached_property
    def _on_row(self) -> dict[int, dict[str, list[Task]]]:
        """Tasks by row and job."""
        found: dict[int, dict[str, list[Task]]] = {}
        for uid, (_, tasks) in self._jobs.items():
            for task in tasks:
                row = self._session.ledger.row(task)
                assert row is not None
                found.setdefault(row, {}).setdefault(uid, []).append(task)
        return found

    def requests(self) -> Vector:
        """(nodes, resources): requests of the tasks that may be evicted at all."""
        found: Vector = np.zeros_like(self._session.nodes.allocatable)
        for row, by_job in self._on_row.items():
            for tasks in by_job.values():
                for task in tasks:
                    found[row] += task.request
        return found

    def bundles(self, rows: Sequence[int] | None = None) -> list[Bundle]:
        """Bundles that may be evicted, the cheapest first; `rows` are the nodes to be freed."""
        session, context = self._session, self._context
        found: list[Bundle] = []
        for job, tasks, inside in self._inside(rows):
            found += _split(session, job, tasks, inside)
        allowed = _allowed(session, context, found)
        if not session.config.arguments(context.purpose.value).boolean("allowWholeBundle", True):
            allowed = [bundle for bundle in allowed if not bundle.whole]
        return _ordered(session, context, allowed)

    def _inside(self, rows: Sequence[int] | None) -> Iterator[tuple[Job, list[Task], list[Task]]]:
        """Jobs with tasks on these rows, all their tasks and those."""
        if rows is None:
            yield from ((job, tasks, tasks) for job, tasks in self._jobs.values())
            return
        inside: dict[str, set[str]] = {}
        for row in rows:
            for uid, tasks in self._on_row.get(row, {}).items():
                inside.setdefault(uid, set()).update(task.uid for task in tasks)
        for uid in sorted(inside):
            job, tasks = self._jobs[uid]
            yield job, tasks, [task for task in tasks if task.uid in inside[uid]]


def _candidates(session: Cycle, context: EvictionContext) -> Iterator[tuple[Job, list[Task]]]:
    """Jobs with tasks that may be evicted, and these tasks by priority."""
    jobs, ledger = session.snapshot.jobs, session.ledger
    across = context.purpose is Purpose.GANG_RECLAIM
    for job in jobs.values():
        if job.uid == context.job.uid or job.group.preemptable is False or not job.allocated.any():
            continue
        if across:
            if job.queue == context.job.queue or not session.snapshot.queues[job.queue].reclaimable:
                continue
        elif job.queue != context.job.queue or context.job.priority <= job.priority:
            continue
        statuses = (Status.RUNNING,) if across else tuple(EVICTABLE)
        tasks = [
            task
            for status in statuses
            for task in job.by_status.get(status, ())
            if task.preemptable and ledger.status(task) in EVICTABLE and ledger.row(task) is not None
        ]
        if tasks:
            yield job, sorted(tasks, key=lambda task: (task.priority, task.uid))


def _split(session: Cycle, job: Job, tasks: Sequence[Task], inside: Sequence[Task]) -> list[Bundle]:
    """Splits tasks into surplus members of the gang, one bundle each, and the rest in one bundle; a gang is broken as a
    whole, with its members outside the domain."""
    ledger = session.ledger
    tally, minimum = ledger.tally(job), job.min_available
    spare = tally.count(READY) - minimum
    if spare < 0:
        return [Bundle(job, tuple(inside), False, tuple(inside))]
    roles = job.group.min_task_member
    by_role = (
        {role: tally.count_role(role, READY) - least for role, least in roles.items()}
        if minimum >= sum(roles.values())
        else {}
    )
    safe: list[Task] = []
    rest: list[Task] = []
    for task in inside:
        if spare > 0 and by_role.get(task.role, 1) > 0:
            safe.append(task)
            spare -= 1
            if task.role in by_role:
                by_role[task.role] -= 1
        else:
            rest.append(task)
    found = [Bundle(job, (task,), False, (task,)) for task in safe]
    if not rest or len(tasks) < ledger.holding(job):
        return found  # members that may not be evicted would be left alone
    taken = {task.uid for task in safe}
    whole = tuple(task for task in tasks if task.uid not in taken)
    return [*found, Bundle(job, whole, True, tuple(rest))]


def _allowed(session: Cycle, context: EvictionContext, found: Sequence[Bundle]) -> list[Bundle]:
    """Bundles whose tasks plugins allow to be evicted; a whole gang only if all of them are."""
    candidates = [task for bundle in found for task in bundle.tasks]
    if not candidates:
        return []
    # Surplus members come first, so that they use up the limits that plugins set.
    whole = {task.uid for bundle in found if bundle.whole for task in bundle.tasks}
    ordered = sorted(session.policy.victim_order(context, candidates), key=lambda task: task.uid in whole)
    permitted = {task.uid for task in session.policy.victims(context, ordered)}
    return [bundle for bundle in found if all(task.uid in permitted for task in bundle.tasks)]


def _ordered(session: Cycle, context: EvictionContext, found: Sequence[Bundle]) -> list[Bundle]:
    """Surplus members before whole gangs, then by victim order, then by benefit for the cost."""
    tasks = [task for bundle in found for task in bundle.tasks]
    rank: dict[str, int] = {}
    for task in session.policy.victim_order(context, tasks) if tasks else ():
        rank.setdefault(task.job, len(rank))
    need = context.job.min_resources if context.job.min_resources.any() else context.task.request
    return sorted(
        found,
        key=lambda bundle: (
            bundle.whole,
            rank[bundle.job.uid],
            -_benefit(bundle, need, session.resources.zeros()),
            bundle.job.uid,
            bundle.tasks[0].uid,
        ),
    )


def _benefit(bundle: Bundle, need: Vector, zeros: Vector) -> float:
    """Part of the need that a bundle covers, relative to its cost; surplus members cost nothing."""
    if not bundle.whole:
        return float("inf")
    asked = need > 0
    covered = (np.minimum(bundle.gain(zeros), need)[asked] / need[asked]).sum()
    cost = (bundle.job.allocated[asked] / need[asked]).sum()
    return float(covered / cost) if cost > 0 else float("inf")
