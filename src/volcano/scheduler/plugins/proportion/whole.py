"""Gangs larger than their queue's share: two of them would keep each other, and an empty cluster, waiting for ever."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.plugins.proportion.shares import asked, within

if TYPE_CHECKING:
    from volcano.scheduler.plugins.proportion import Proportion


class WholeGangs:
    """A queue that holds nothing else may take one gang beyond its share, where nobody is owed the room.

    Owed is a gang of another queue that waits, would be within its queue's share, and could be placed on some node.
    """

    def __init__(self, plugin: "Proportion") -> None:
        self._plugin = plugin

    def lacks(self, queue: Queue, job: Job) -> int:
        """How many tasks the gang may be given whatever the queue's share is; 0 when the share binds."""
        ledger = self._plugin.ledger
        lacking = job.min_available - ledger.ready(job) - ledger.waiting(job)
        if lacking <= 0 or job.queue != queue.name:
            return 0
        beside = self._plugin.holdings.allocated[queue.name] - ledger.allocated(job)
        if (beside >= STEP).any() or self._owed_beside(queue.name):
            return 0
        return lacking

    def unfinished(self, queue: Queue) -> bool:
        """Whether the queue has a gang to complete beyond its share."""
        return any(self.lacks(queue, job) for job in self._waiting if job.queue == queue.name)

    @cached_property
    def _waiting(self) -> list[Job]:
        """Gangs that were let in and lack members, as the cycle began."""
        ledger = self._plugin.ledger
        return [
            job
            for job in self._plugin.session.active_jobs()
            if ledger.phase(job) != "Pending" and ledger.ready(job) < job.min_available
        ]

    @cached_property
    def _owed(self) -> frozenset[str]:
        """The queues to whose gangs room is owed."""
        found: set[str] = set()
        for job in self._waiting:
            if job.queue not in found and self._is_owed(job):
                found.add(job.queue)
        return frozenset(found)

    def _owed_beside(self, queue: str) -> bool:
        return bool(self._owed - {queue})

    def _is_owed(self, job: Job) -> bool:
        plugin = self._plugin
        queue = plugin.snapshot.queues.get(job.queue)
        share = plugin.deserved.get(job.queue)
        pending = list(job.by_status.get(Status.PENDING, ()))
        lacking = job.min_available - plugin.ledger.ready(job)
        if queue is None or not queue.open or share is None or len(pending) < lacking:
            return False
        need: Vector = np.sum([task.request for task in pending[:lacking]], axis=0)
        held = plugin.snapshot.totals[job.queue].allocated
        return within(held + need, share, asked(need)) and self._possible(pending[0], job.queue)

    def _possible(self, task: Task, queue: str) -> bool:
        return not task.gates and len(self._plugin.session.placer.resolvable(task, queue)) > 0
