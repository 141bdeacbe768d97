"""proportion: divides the cluster among queues by weight; queues borrow idle shares and return them."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import PODS, STEP, Vector
from volcano.model.shares.division import own_shares, proportional_shares
from volcano.model.shares.tree import capability
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Memory
from volcano.scheduler.engine.diagnosis import Rejection, closed
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.plugins.proportion.oversized_gangs import OversizedGangs
from volcano.scheduler.queue_shares.evicted_requests import EvictedRequests
from volcano.scheduler.queue_shares.plugin import QueueShares
from volcano.scheduler.queue_shares.queue_usage import (
    count_within,
    is_within,
    over_limit,
    over_share,
    requested_columns,
)
from volcano.scheduler.queue_shares.reclaim_rule import Held, ReclaimTerms, without_uncontended


class Proportion(QueueShares):
    """A queue deserves a share of the cluster, or of its parent's share, by weight and at most what it requests.

    Shares that are not requested are divided among the other queues, siblings first. A queue may hold what
    it deserves; when it holds more, because other queues request their share again, the excess can be
    reclaimed.
    """

    depends_on_preemptor = False

    # -- shares ----------------------------------------------------------------------------------------------

    @cached_property
    def deserved(self) -> dict[str, Vector]:
        """Each queue's share of the cluster when the cycle started; of a parent, the part of its own jobs, if any."""
        return own_shares(self._shares)

    @cached_property
    def _shares(self) -> dict[str, Vector]:
        """Shares of whole subtrees, and of the own jobs of parents."""
        return proportional_shares(
            self.tree, self.capability, self.guarantee, self._requested, self.snapshot.total
        )

    @cached_property
    def _evicted_requests(self) -> EvictedRequests:
        return EvictedRequests(self.snapshot, self.ledger, self._memory.get("evicted"))

    def remember(self) -> Memory | None:
        evicted, admitted = self._evicted_requests.memory(), self.oversized_gangs.memory()
        kept: dict[str, Any] = {"admitted": admitted} if admitted else {}
        if evicted is not None:
            kept["evicted"] = evicted.state
        return Memory(kept, evicted.due if evicted is not None else None) if kept else None

    @cached_property
    def oversized_gangs(self) -> OversizedGangs:
        return OversizedGangs(self, self._memory.get("admitted", ()))

    def _terms(self) -> ReclaimTerms:
        return ReclaimTerms(
            deserved=without_uncontended(self._shares, self.deserved, self._requested),
            guarantee=self.guarantee,
            tolerance=self.tolerance,
            preemptive=self._is_preemptive,
            below=self._is_below,
            exceeds=self._exceeds,
        )

    # -- order and admission ---------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[int, float]:
        """Queues of higher priority first, then those with the smallest share in use."""
        return (-queue.priority, self._share(queue.name))

    def _share(self, queue: str) -> float:
        """Returns the largest fraction, over all resources, of its deserved share that a queue holds."""
        reciprocals = self._reciprocals.get(queue)
        return 0.0 if reciprocals is None else float((self.usage.allocated[queue] * reciprocals).max())

    @cached_property
    def _reciprocals(self) -> dict[str, Vector]:
        """Reciprocals of the deserved amounts; 0 where a queue deserves nothing."""
        return {
            name: np.divide(1.0, amount, out=np.zeros_like(amount), where=amount >= STEP)
            for name, amount in self.deserved.items()
        }

    def _admission_rejection(self, job: Job, queue: Queue) -> Rejection | None:
        return None if queue.open else closed(queue)

    # -- limits of a queue -----------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Reports whether the queue holds its deserved share of every resource."""
        deserved, held = self._share_of(queue), self.usage.allocated[queue.name]
        for column in range(len(deserved)):
            if column != PODS and deserved.item(column) - held.item(column) >= STEP:
                return False
        return not self.oversized_gangs.has_incomplete_gang(queue)

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        if not queue.open:
            return 0
        parts = self.usage.request_items(task.shape)
        found = min(count, count_within(parts, self.usage.allocated[queue.name], self._share_of(queue)))
        if found < count and (missing := self._missing_tasks(queue, self.snapshot.jobs[task.job])) > found:
            path = self.tree.path(queue.name)
            capacity = min(
                count_within(parts, self.usage.allocated[name], self.capability[name]) for name in path
            )
            found = max(found, min(count, missing, capacity))
        for name in self.tree.path(queue.name)[1:]:  # a sibling may hold more than its share
            found = min(found, count_within(parts, self.usage.allocated[name], self.capability[name]))
        return found

    def _missing_tasks(self, queue: Queue, job: Job) -> int:
        """Returns how many tasks a gang may get beyond the queue's share."""
        if job.uid == self.reclaim_rule.exceeding_job:
            return max(0, job.min_available - self.ledger.ready(job) - self.ledger.waiting(job))
        return self.oversized_gangs.missing_tasks(queue, job)

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        if not queue.open:
            return closed(queue)
        for name in self.tree.path(queue.name):
            declared = capability(self.snapshot.queues[name], self.resources)
            text = f"queue {name} has reached its capability"
            held = self.usage.allocated[name]
            rejection = over_limit(
                held, task.request, declared, self.resources, text, code=Code.QUEUE_CAPABILITY, queue=name
            )
            if rejection is not None:
                return rejection
        held, share = self.usage.allocated[queue.name], self._share_of(queue)
        text = f"queue {queue.name} has all that it deserves"
        return over_limit(
            held, task.request, share, self.resources, text, code=Code.QUEUE_SHARE, queue=queue.name
        )

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if not queue.open:
            return False
        if len(tasks) == 1:
            parts = self.usage.request_items(tasks[0].shape)
            return count_within(parts, self.usage.allocated[queue.name], self._share_of(queue)) > 0
        request: Vector = np.sum([task.request for task in tasks], axis=0)
        return is_within(
            self.usage.allocated[queue.name] + request, self._share_of(queue), requested_columns(request)
        )

    def _share_of(self, queue: Queue) -> Vector:
        deserved = self.deserved.get(queue.name)
        return self.resources.zeros() if deserved is None else deserved

    def measure(self) -> Iterator[MetricSample]:
        """Returns the shares and limits of the queues; nothing in a cycle that could not change them."""
        for name, queue in self.snapshot.queues.items() if self._may_have_changed else ():
            if name in self.deserved and self.tree.parent.get(name):
                idle = not self.usage.allocated[name].any()  # it deserves nothing, so it holds all of it
                overused = not idle and self.overused(queue)
                yield from self._metrics(name, self._share(name), overused, self.deserved[name])

    # -- reclaim ---------------------------------------------------------------------------------------------

    def below_deserved(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if tasks[0].job == self.reclaim_rule.exceeding_job:
            return queue.open
        return queue.open and self._is_below(queue.name, np.sum([task.request for task in tasks], axis=0))

    def reclaim_closed(self, job: Job, committed: bool) -> None:
        if committed and self.reclaim_rule.exceeding_job:
            self.oversized_gangs.admit(job)
        super().reclaim_closed(job, committed)

    def _is_preemptive(self, name: str, request: Vector, holds: Vector) -> bool:
        return not self._is_asked or is_within(holds, self.deserved[name], requested_columns(request))

    def _is_below(self, name: str, request: Vector) -> bool:
        columns = requested_columns(request)
        missing = self.deserved.get(name, self.resources.zeros()) - self.usage.allocated[name]
        return bool((missing[columns] >= STEP).all())

    def _exceeds(self, context: EvictionContext, task: Task, held: Held) -> bool:
        queue = self.snapshot.jobs[task.job].queue
        parts = self.usage.common_items(task.shape, context.task.shape)
        return over_share(held(queue), parts, self.deserved[queue], self.tolerance.get(queue, 0.0))
