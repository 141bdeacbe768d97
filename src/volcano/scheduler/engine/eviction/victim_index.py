"""Eviction candidates by node, in eviction order, kept up to date with the ledger."""

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from math import inf

from volcano.model.resources import Vector
from volcano.model.status import EVICTABLE, Status
from volcano.model.task import Task
from volcano.scheduler.engine.cycle import Cycle

Eligible = Callable[[Task], bool]


class Scope(Enum):
    """Pods that may be evicted, relative to the pending task they are evicted for."""

    SAME_QUEUE = "other jobs of the same queue"
    OTHER_QUEUES = "jobs of other queues"
    SAME_JOB = "the same job"


class VictimIndex:
    """Eligible tasks by node, as far as they are still evictable in this cycle; refreshed where the ledger changed."""

    def __init__(self, session: Cycle, eligible: Eligible) -> None:
        self._ledger = session.ledger
        self._order = session.policy.task_order
        self._unsorted = set(range(len(session.snapshot.tasks_on)))
        self._seen = len(session.ledger.touched)
        # Eligibility depends on the snapshot alone and is evaluated once; the ledger removes tasks from it.
        self._eligible = [
            [task for task in tasks.values() if eligible(task)] for tasks in session.snapshot.tasks_on
        ]
        self._jobs = session.snapshot.jobs
        self._by_row: list[list[Task]] = [[] for _ in self._eligible]
        self._requests: Vector = session.ledger.used * 0.0  # sum of their requests, by row
        self._stale = {row for row, tasks in enumerate(self._eligible) if tasks}
        self._unsummed: set[int] = set()

    @classmethod
    def of_scope(cls, session: Cycle, queue: str, scope: Scope) -> "VictimIndex":
        """The index for evictions on behalf of a queue."""
        return cls(
            session,
            _in_other_queues(session, queue) if scope is Scope.OTHER_QUEUES else _in_queue(session, queue),
        )

    def on(self, row: int) -> list[Task]:
        """Eligible tasks on a node, in reverse task order."""
        self._refresh()
        if row in self._unsorted:
            self._unsorted.discard(row)
            self._eligible[row].sort(key=self._order, reverse=True)
            self._stale.add(row)
        if row in self._stale:
            self._update(row)
        return self._by_row[row]

    @cached_property
    def lowest_priority(self) -> float:
        """Lowest priority of the jobs with eligible tasks; infinite without any."""
        uids = {task.job for tasks in self._eligible for task in tasks}
        return min((self._jobs[uid].priority for uid in uids), default=inf)

    def requests(self) -> Vector:
        """(nodes, resources): sum of the requests of the eligible tasks."""
        self._refresh()
        for row in list(self._stale):
            self._update(row)
        for row in self._unsummed:
            total = self._requests[row]
            total[:] = 0.0
            for task in self._by_row[row]:
                total += task.shape.request
        self._unsummed.clear()
        return self._requests

    def _refresh(self) -> None:
        touched = self._ledger.touched
        if self._seen < len(touched):
            self._stale.update(touched[self._seen :])
            self._seen = len(touched)

    def _update(self, row: int) -> None:
        now = self._ledger.statuses
        self._by_row[row] = [
            task for task in self._eligible[row] if now.get(task.uid, task.status) in EVICTABLE
        ]
        self._stale.discard(row)
        self._unsummed.add(row)


def _in_queue(session: Cycle, queue: str) -> Eligible:
    """Preemptable tasks of a queue."""
    jobs = session.snapshot.jobs
    return lambda task: task.preemptable and task.job in jobs and jobs[task.job].queue == queue


def _in_other_queues(session: Cycle, queue: str) -> Eligible:
    """Running preemptable tasks of the other queues that are reclaimable."""
    jobs, queues = session.snapshot.jobs, session.snapshot.queues

    def eligible(task: Task) -> bool:
        job = jobs.get(task.job)
        return (
            job is not None
            and task.preemptable
            and task.status is Status.RUNNING
            and job.queue != queue
            and queues[job.queue].reclaimable
        )

    return eligible
