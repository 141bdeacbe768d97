"""Gangs larger than their queue's share: without an exception they would never run, even in an empty cluster."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.nominations import NOMINATIONS, nomination
from volcano.scheduler.queue_shares.queue_usage import is_within, requested_columns

if TYPE_CHECKING:
    from volcano.scheduler.plugins.proportion import Proportion


class OversizedGangs:
    """Lets a queue that runs nothing else run one gang beyond its share, unless a gang of another queue waits.

    Only waiting gangs count that are within their queue's share and could be placed on some node. Gangs for which
    `reclaim` decided that they may bring their queue beyond its share are admitted until they run.
    """

    def __init__(self, plugin: "Proportion", admitted: Iterable[str]) -> None:
        self._plugin = plugin
        self._admitted = set(admitted)  # by reclaim, in the last cycle or in this one
        self._nominated: dict[str, bool] = {}

    def admit(self, job: Job) -> None:
        """Admits a gang for which a reclaiming statement was committed."""
        self._admitted.add(job.uid)

    def memory(self) -> list[str]:
        """Returns the admitted gangs that wait for resources being released."""
        ledger, jobs = self._plugin.ledger, self._plugin.snapshot.jobs
        return [uid for uid in sorted(self._admitted) if uid in jobs and ledger.waiting(jobs[uid])]

    def missing_tasks(self, queue: Queue, job: Job) -> int:
        """Returns how many tasks the gang may get beyond the queue's share; 0 when the share limits it."""
        ledger = self._plugin.ledger
        missing = job.min_available - ledger.ready(job) - ledger.waiting(job)
        if missing <= 0 or job.queue != queue.name:
            return 0
        if job.uid in self._admitted or self._has_nomination(job):
            return missing
        beside = self._plugin.usage.allocated[queue.name] - ledger.allocated(job)
        if (beside >= STEP).any() or self._others_waiting(queue.name):
            return 0
        return missing

    def _has_nomination(self, job: Job) -> bool:
        """Reports whether pods were evicted for tasks of the job; known after a restart of the scheduler as well."""
        found = self._nominated.get(job.uid)
        if found is None:
            missed = self._plugin.snapshot.memory.get(NOMINATIONS, ())
            pending = job.by_status.get(Status.PENDING, ())
            found = any(task.nominated and nomination(task) not in missed for task in pending)
            self._nominated[job.uid] = found
        return found

    def has_incomplete_gang(self, queue: Queue) -> bool:
        """Reports whether the queue has a gang to complete beyond its share."""
        return any(self.missing_tasks(queue, job) for job in self._waiting if job.queue == queue.name)

    @cached_property
    def _waiting(self) -> list[Job]:
        """Admitted gangs below their minimum when the cycle started."""
        ledger = self._plugin.ledger
        return [
            job
            for job in self._plugin.session.active_jobs()
            if ledger.phase(job) != "Pending" and ledger.ready(job) < job.min_available
        ]

    @cached_property
    def _queues_waiting(self) -> frozenset[str]:
        """The queues with gangs that wait within their share."""
        found: set[str] = set()
        for job in self._waiting:
            if job.queue not in found and self._waits_within_share(job):
                found.add(job.queue)
        return frozenset(found)

    def _others_waiting(self, queue: str) -> bool:
        return bool(self._queues_waiting - {queue})

    def _waits_within_share(self, job: Job) -> bool:
        plugin = self._plugin
        queue = plugin.snapshot.queues.get(job.queue)
        share = plugin.deserved.get(job.queue)
        pending = list(job.by_status.get(Status.PENDING, ()))
        missing = job.min_available - plugin.ledger.ready(job)
        if queue is None or not queue.open or share is None or len(pending) < missing:
            return False
        need: Vector = np.sum([task.request for task in pending[:missing]], axis=0)
        held = plugin.snapshot.totals[job.queue].allocated
        return is_within(held + need, share, requested_columns(need)) and self._possible(
            pending[0], job.queue
        )

    def _possible(self, task: Task, queue: str) -> bool:
        return not task.gates and len(self._plugin.session.placer.resolvable(task, queue)) > 0
