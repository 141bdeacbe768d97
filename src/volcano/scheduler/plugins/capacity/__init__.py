"""capacity: queues declare what they deserve, may borrow up to their capability, and return what others deserve."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Vector
from volcano.model.shares.declared import Deserved, flat_deserved, hierarchical_deserved
from volcano.model.shares.tree import QueueTree, build_tree
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Memory, Purpose
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis import Rejection, closed
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.plugins.capacity.devices import EXCEEDED, DeviceQuota
from volcano.scheduler.queue_shares.plugin import QueueShares
from volcano.scheduler.queue_shares.queue_usage import (
    QUOTA_INSUFFICIENT,
    QueueUsage,
    count_within,
    insufficient,
    is_within,
    over_limit,
    over_share,
    requested_columns,
    vector_items,
)
from volcano.scheduler.queue_shares.reclaim_rule import Held, ReclaimTerms, without_uncontended


class Capacity(QueueShares):
    """Limits borrowing by capability and reclaiming by the deserved share; `enableHierarchy` applies it to a tree."""

    arguments: ClassVar = (
        Argument("ancestorReclaimLevel"),
        Argument("capacity.DynamicResourceAllocationEnable", Type.BOOLEAN),
        # Accepted without effect: capacities of devices count wherever a queue limits them.
        Argument("capacity.*", Type.BOOLEAN),
    )

    def open(self, arguments: Arguments) -> None:
        super().open(arguments)
        self.hierarchical = arguments.hierarchy
        self.level = max(arguments.integer("ancestorReclaimLevel", 0), 0) if self.hierarchical else 0
        self.counts_devices = arguments.boolean("capacity.DynamicResourceAllocationEnable", True)

    # -- shares ----------------------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> QueueTree:
        return build_tree(self.snapshot.queues, flat=not self.hierarchical)

    @cached_property
    def tree_error(self) -> str:
        """Why the tree of queues is invalid; no task is scheduled then."""
        if not self.hierarchical:
            return ""
        missing = () if ROOT_QUEUE in self.snapshot.queues else ("there is no queue root",)
        return "; ".join((*missing, *self.tree.problems))

    @cached_property
    def usage(self) -> QueueUsage:
        """Created on first use, which is before the first placement of the cycle."""
        return QueueUsage(self.snapshot, self.ledger, self.tree, self.devices)

    @cached_property
    def devices(self) -> DeviceQuota:
        return DeviceQuota(self.session, self.tree, enabled=self.counts_devices)

    @cached_property
    def _total(self) -> Vector:
        return self.devices.total()

    @cached_property
    def deserved(self) -> dict[str, Deserved]:
        if not self.hierarchical:
            return flat_deserved(self.snapshot.queues, self.resources, self.capability, self.guarantee)
        return hierarchical_deserved(
            self.tree, self.resources, self.capability, self.guarantee, self._requested, self._total
        )

    def remember(self) -> Memory | None:
        return self._evicted_requests.memory() if self.hierarchical else None

    def _terms(self) -> ReclaimTerms:
        return ReclaimTerms(
            deserved=self._counted_shares(),
            guarantee=self.guarantee,
            tolerance=self.tolerance,
            preemptive=self._is_preemptive,
            below=self._is_below,
            exceeds=self._exceeds,
            level=self.level,
        )

    def _share(self, queue: str) -> float:
        """Returns the largest fraction of its deserved share that a queue holds; 1 if it deserves nothing."""
        deserved = self.deserved.get(queue)
        return 1.0 if deserved is None else deserved.share(self.usage.allocated[queue])

    def _counted_shares(self) -> dict[str, Vector]:
        """Returns the shares that the reclaim rule counts: all declared ones, others where queues compete."""
        shares = {name: deserved.amount for name, deserved in self.deserved.items()}
        if not self.hierarchical:
            return shares
        requested = {name: amount for name, amount in self._requested.items() if self.tree.is_leaf(name)}
        contended = without_uncontended(shares, shares, requested)
        declared = {name: shares[name] for name in shares if self.snapshot.queues[name].deserved}
        return contended | declared

    # -- order -----------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[object, ...]:
        """Queues of higher priority first; then, level by level, smaller shares; then those that deserve any."""
        path = reversed(self.tree.path(queue.name))
        levels = tuple((self._share(name), self.deserved[name].empty) for name in path)
        return (-queue.priority, not self.tree.is_leaf(queue.name), levels)

    def victim_queue_order(self, queue: Queue, evictor: Queue) -> int:
        """In a tree, the closest relatives first."""
        if not self.hierarchical:
            return 0
        theirs, ours = self.tree.path(queue.name), self.tree.path(evictor.name)
        return -len(set(theirs) & set(ours))

    # -- limits of a queue -----------------------------------------------------------------------------------

    def _queue_rejection(self, queue: Queue) -> Rejection | None:
        """Returns why the queue gets no resources at all."""
        if self.tree_error:
            return Rejection(f"the tree of queues is broken: {self.tree_error}", Code.QUEUE_TREE_BROKEN)
        if not self.tree.is_leaf(queue.name):
            return Rejection(
                f"queue {queue.name} has children; submit to one of them",
                Code.QUEUE_NOT_LEAF,
                queue=queue.name,
            )
        if not queue.open:
            return closed(queue)
        return None

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        if self._queue_rejection(queue) is not None:
            return 0
        parts = self.usage.request_items(task.shape)
        claiming = self.devices.applies_to(task)
        for name in self.tree.path(queue.name):
            if claiming:
                if self.devices.unlisted(self.snapshot.queues[name], task):
                    return 0
                parts = vector_items(self.usage.added(task, name))
            count = min(count, count_within(parts, self.usage.allocated[name], self.capability[name]))
        return min(count, 1) if claiming else count  # the next one may share a claim with this one

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        rejection = self._queue_rejection(queue)
        for name in self.tree.path(queue.name):
            if rejection is None and (unlisted := self.devices.unlisted(self.snapshot.queues[name], task)):
                rejection = Rejection(
                    f"queue {name} limits the devices of the claim and has no limit for {unlisted}",
                    Code.QUEUE_CAPABILITY,
                    queue=name,
                )
            rejection = rejection or over_limit(
                self.usage.allocated[name],
                self.usage.added(task, name),
                self.capability[name],
                self.resources,
                f"queue {name} has reached its capability",
                code=Code.QUEUE_CAPABILITY,
                queue=name,
            )
        return rejection

    def _admission_rejection(self, job: Job, queue: Queue) -> Rejection | None:
        return self._queue_rejection(queue) or self._device_rejection(job)

    def _device_rejection(self, job: Job) -> Rejection | None:
        """Rejects a job whose pods exist and claim more devices than its queue may have."""
        if not self.devices or self.session.preempts:
            return None
        minimum = self.devices.minimum(job)
        for name in self.tree.path(job.queue):
            need = self.usage.allocated[name] + self.usage.inqueue.get(name, 0.0) + minimum
            columns = requested_columns(minimum)
            found = insufficient(
                need,
                self.capability[name],
                columns,
                self.resources,
                QUOTA_INSUFFICIENT,
                request=minimum,
                code=Code.QUEUE_CAPABILITY,
                queue=name,
            )
            if found is not None:
                return replace(
                    found, message=f"{QUOTA_INSUFFICIENT}: insufficient {EXCEEDED} ({found.resource})"
                )
        return None

    def job_enqueued(self, job: Job) -> None:
        super().job_enqueued(job)
        if self.devices:
            self.usage.promise(job, self.devices.minimum(job))

    def measure(self) -> Iterator[MetricSample]:
        """Returns the shares and limits of the queues; nothing in a cycle that could not change them."""
        for name in self.tree.parent if self._may_have_changed else ():
            share = self._share(name)
            yield from self._metrics(name, share, share > 1, self.deserved[name].amount)

    # -- reclaim ---------------------------------------------------------------------------------------------

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Some requested resource stays within what the queue, or one of the considered ancestors, deserves."""
        if self._queue_rejection(queue) is not None:
            return False
        request: Vector = np.sum([self.usage.request(task) for task in tasks], axis=0)
        holds = self.usage.allocated[queue.name] + request
        return self._within_capability(queue.name, request, holds) and self._deserves(
            queue.name, request, holds
        )

    def below_deserved(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if self._queue_rejection(queue) is not None:
            return False
        request: Vector = np.sum([self.usage.request(task) for task in tasks], axis=0)
        if not self._within_capability(queue.name, request, self.usage.allocated[queue.name] + request):
            return False
        return tasks[0].job == self.reclaim_rule.exceeding_job or self._is_below(queue.name, request)

    def reclaim_opened(self, job: Job, tasks: Sequence[Task]) -> bool:
        return not self.tree_error and super().reclaim_opened(job, tasks)

    def _within_capability(self, name: str, request: Vector, holds: Vector) -> bool:
        columns = requested_columns(request)
        if not is_within(holds, self.capability[name], columns):
            return False
        # Tasks below an ancestor that is over its capability could not be placed, even after evictions.
        return all(
            is_within(self.usage.allocated[above], self.capability[above], columns)
            for above in self.tree.path(name)[1:]
        )

    def _is_preemptive(self, name: str, request: Vector, holds: Vector) -> bool:
        return not self._is_asked or self._deserves(name, request, holds)

    def _deserves(self, name: str, request: Vector, holds: Vector) -> bool:
        columns, more = requested_columns(request), holds - self.usage.allocated[name]
        for above in self.tree.path(name)[: self.level + 1]:
            need, amount = self.usage.allocated[above] + more, self.deserved[above].amount
            counted = columns & ((need >= STEP) & (amount >= STEP))
            if (need[counted] <= amount[counted] + STEP).any():
                return True
        return False

    def _is_below(self, name: str, request: Vector) -> bool:
        """Considers the requested resources that the queue deserves at all."""
        amount = self.deserved[name].amount
        counted = requested_columns(request) & (amount >= STEP)
        missing = amount[counted] - self.usage.allocated[name][counted]
        return bool(len(missing)) and bool((missing >= STEP).all())

    def unified_evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        if context.purpose is Purpose.GANG_PREEMPT:
            return candidates
        return self.reclaimable(context, candidates)

    def _victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Iterable[Task]:
        if self.tree_error:
            return ()
        full = self._full_ancestor(context, self.tree.path(context.job.queue))
        if full:
            jobs, path = self.snapshot.jobs, self.tree.path
            candidates = [
                task for task in candidates if task.job in jobs and full in path(jobs[task.job].queue)
            ]
        return super()._victims(context, candidates)

    def _full_ancestor(self, context: EvictionContext, path: Sequence[str]) -> str:
        """Returns the preemptor's nearest ancestor without capacity for its task: victims must be below it."""
        parts = self.usage.items(context.task)
        for name in path[1:]:
            if count_within(parts, self.usage.allocated[name], self.capability[name]) < 1:
                return name
        return ""

    def _exceeds(self, context: EvictionContext, task: Task, held: Held) -> bool:
        """Reports whether the queue and the considered ancestors exceed what they deserve of the request."""
        if not self.usage.common(task, context.task):
            return False
        preemptor = self.tree.path(context.job.queue)
        queue = self.snapshot.jobs[task.job].queue
        path = [name for name in self.tree.path(queue)[: self.level + 1] if name not in preemptor]
        borrowed = not self.deserved[queue].covers(self.usage.request(task))
        if borrowed and self._related_and_not_deserving(context, queue):
            return False
        return all(self._over(name, held(name), task) for name in path)

    def _over(self, name: str, held: Vector, task: Task) -> bool:
        deserved = self.deserved[name]
        request = self.usage.request(task)
        if not deserved.covers(request):
            return True  # all it holds is borrowed
        relevant = deserved.relevant_columns(request)
        parts = tuple(part for part in self.usage.items(task) if relevant[part[0]])
        return over_share(held, parts, deserved.amount, self.tolerance.get(name, 0.0))

    def _related_and_not_deserving(self, context: EvictionContext, queue: str) -> bool:
        """Reports whether the queues share a considered ancestor and the preemptor's deserves no such resource."""
        if not self.level:
            return False
        theirs, ours = (
            self.tree.path(queue)[1 : self.level + 1],
            self.tree.path(context.job.queue)[1 : self.level + 1],
        )
        return bool(set(theirs) & set(ours)) and not self.deserved[context.job.queue].covers(
            self.usage.request(context.task)
        )
