"""capacity: queues say what they deserve, may borrow up to their capability, and give back what others deserve."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from volcano.kube.names import ROOT_QUEUE
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.plugin import Hunt, Plugin, Purpose, Rejection, Vote
from volcano.scheduler.engine.plugin_metrics import Reading, amounts
from volcano.scheduler.plugins.capacity.entitlement import Entitlement, flat, in_tree
from volcano.scheduler.plugins.proportion.shares import (
    HAIR,
    Holdings,
    asked,
    how_many,
    keeps_guarantees,
    lacking,
    over_share,
    room_for,
    tolerances,
    within,
)
from volcano.scheduler.plugins.proportion.tree import (
    QueueTree,
    capability,
    guarantees,
    plant,
    real_capabilities,
)


class Capacity(Plugin):
    """Borrowing is limited by capability, reclaiming by what is deserved; `enableHierarchy` makes a tree of it."""

    arguments: ClassVar = (
        Argument("ancestorReclaimLevel"),
        Argument("capacity.*", Type.BOOLEAN),  # about resource claims; accepted and without effect yet
    )

    def open(self, arguments: Arguments) -> None:
        self.hierarchical = arguments.hierarchy
        self.level = max(arguments.integer("ancestorReclaimLevel", 0), 0) if self.hierarchical else 0
        self._kept: Sequence[Task] = ()
        self._hunt: Hunt | None = None

    # -- what belongs to whom --------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> QueueTree:
        return plant(self.snapshot.queues, flat=not self.hierarchical)

    @cached_property
    def broken(self) -> str:
        """What is wrong with the tree; nothing is scheduled then."""
        if not self.hierarchical:
            return ""
        missing = () if ROOT_QUEUE in self.snapshot.queues else ("there is no queue root",)
        return "; ".join((*missing, *self.tree.problems))

    @cached_property
    def holdings(self) -> Holdings:
        """Made when first asked for, which is before the first placement is booked."""
        return Holdings(self.snapshot, self.ledger, self.tree)

    @cached_property
    def guarantee(self) -> dict[str, Vector]:
        return guarantees(self.tree, self.resources)

    @cached_property
    def capability(self) -> dict[str, Vector]:
        return real_capabilities(self.tree, self.resources, self.snapshot.total, self.guarantee)

    @cached_property
    def deserved(self) -> dict[str, Entitlement]:
        if not self.hierarchical:
            return flat(self.snapshot.queues, self.resources, self.capability, self.guarantee)
        requested = {name: totals.requested for name, totals in self.snapshot.totals.items()}
        return in_tree(
            self.tree, self.resources, self.capability, self.guarantee, requested, self.snapshot.total
        )

    @cached_property
    def tolerance(self) -> dict[str, float | None]:
        return tolerances(self.snapshot.queues.values())

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.holdings.place(tasks)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.holdings.take(tasks)

    def _share(self, queue: str) -> float:
        """The largest part of what a queue deserves that it holds; 1 for a queue that deserves nothing."""
        entitlement = self.deserved.get(queue)
        return 1.0 if entitlement is None else entitlement.share(self.holdings.allocated[queue])

    # -- order -----------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[object, ...]:
        """Important queues first; then, level by level, the smaller share; then who deserves something."""
        path = reversed(self.tree.path(queue.name))
        levels = tuple((self._share(name), self.deserved[name].empty) for name in path)
        return (-queue.priority, not self.tree.leaf(queue.name), levels)

    def victim_queue_order(self, queue: Queue, evictor: Queue) -> int:
        """In a tree, closest relatives give first."""
        if not self.hierarchical:
            return 0
        theirs, ours = self.tree.path(queue.name), self.tree.path(evictor.name)
        return -len(set(theirs) & set(ours))

    # -- how much a queue may take ---------------------------------------------------------------------------

    def _closed(self, queue: Queue) -> Rejection | None:
        """What keeps the queue from taking anything at all."""
        if self.broken:
            return Rejection(f"the tree of queues is broken: {self.broken}", reason="QueueTreeBroken")
        if not self.tree.leaf(queue.name):
            return Rejection(f"queue {queue.name} has children; submit to one of them", reason="QueueNotLeaf")
        if not queue.open:
            return Rejection(f"queue {queue.name} is {queue.state.lower()}", reason="QueueClosed")
        return None

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        if self._closed(queue) is not None:
            return 0
        parts = self.holdings.parts(task.shape)
        for name in self.tree.path(queue.name):
            count = min(count, how_many(parts, self.holdings.allocated[name], self.capability[name]))
        return count

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        refusal = self._closed(queue)
        for name in self.tree.path(queue.name):
            refusal = refusal or lacking(
                self.holdings.allocated[name] + task.request,
                self.capability[name],
                asked(task.request),
                self.resources,
                f"queue {name} has what it may have",
            )
        return refusal

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        queue = self.snapshot.queues[job.queue]
        refusal = self._closed(queue)
        if refusal is not None:
            return refusal
        if job.group.min_resources is None:
            return Vote.PERMIT
        return room_for(self.holdings, job, self.capability, self.session.preempts) or Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        self.holdings.admit(job)

    def measure(self) -> Iterator[Reading]:
        """What each queue deserves and may have, and how far it is; nothing in a cycle that could not change it."""
        if "deserved" not in self.__dict__ and not self.snapshot.changed:
            return
        for name in self.tree.parent:
            queue, share = self.snapshot.queues[name], self._share(name)
            yield Reading("queue_share", (name,), share)
            yield Reading("queue_overused", (name,), float(share > 1))
            yield from amounts("deserved", name, self.deserved[name].amount, self.resources)
            yield from amounts("capacity", name, capability(queue, self.resources), self.resources)
            yield from amounts("real_capacity", name, self.capability[name], self.resources)

    # -- who may reclaim, and from whom ----------------------------------------------------------------------

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Some resource it asks for stays within what the queue, or an ancestor that counts, deserves."""
        if self._closed(queue) is not None:
            return False
        request: Vector = np.sum([task.request for task in tasks], axis=0)
        columns = asked(request)
        path = self.tree.path(queue.name)
        if not within(self.holdings.allocated[queue.name] + request, self.capability[queue.name], columns):
            return False
        # An ancestor that already holds more than it may would not let the tasks in, whoever made room for them.
        if not all(
            within(self.holdings.allocated[name], self.capability[name], columns) for name in path[1:]
        ):
            return False
        return any(self._deserves(name, request, columns) for name in path[: self.level + 1])

    def _deserves(self, name: str, request: Vector, columns: Mask) -> bool:
        need, amount = self.holdings.allocated[name] + request, self.deserved[name].amount
        counted = columns & ((need >= STEP) & (amount >= STEP))
        return bool((need[counted] <= amount[counted] + STEP).any())

    def filter_victims(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        if not hunt.purpose.across_queues:
            return candidates
        self._kept, self._hunt = list(self._victims(hunt, candidates)), hunt
        return self._kept

    def reclaimable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        known = candidates is self._kept and hunt is self._hunt
        return candidates if known else list(self._victims(hunt, candidates))

    def unified_evictable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        if hunt.purpose is Purpose.GANG_PREEMPT:
            return candidates
        return self.reclaimable(hunt, candidates)

    def _victims(self, hunt: Hunt, candidates: Sequence[Task]) -> Iterator[Task]:
        """Walks the candidates in the order they would go, and keeps those that their queues can spare."""
        if self.broken:
            return
        running: dict[str, Vector] = {}
        taker = self.tree.path(hunt.job.queue)
        full = self._full(hunt, taker)
        for task in candidates:
            job = self.snapshot.jobs.get(task.job)
            if job is None or not self.snapshot.queues[job.queue].reclaimable or job.queue in taker:
                continue
            if not self.holdings.common(task.shape, hunt.task.shape):
                continue
            if full and full not in self.tree.path(job.queue):
                continue
            path = [name for name in self.tree.path(job.queue) if name not in taker]
            held = {name: running.get(name, self.holdings.allocated[name]) for name in path}
            if not self._eligible(hunt, task, path, held):
                continue
            left = {name: amount - task.request for name, amount in held.items()}
            if keeps_guarantees(task.request, left, self.guarantee):
                running.update(left)
                yield task

    def _full(self, hunt: Hunt, path: Sequence[str]) -> str:
        """The nearest ancestor of the taker without room for its task: only who is below it can make that room."""
        parts = self.holdings.parts(hunt.task.shape)
        for name in path[1:]:
            if how_many(parts, self.holdings.allocated[name], self.capability[name]) < 1:
                return name
        return ""

    def _eligible(self, hunt: Hunt, task: Task, path: Sequence[str], held: dict[str, Vector]) -> bool:
        """Whether the queue, and the ancestors that count, hold more than they deserve, or deserve none of it."""
        queue = path[0]
        if not self.deserved[queue].common(task.request) and self._related_and_undeserving(hunt, queue):
            return False
        if not all(self._over(name, held[name], task) for name in path[: self.level + 1]):
            return False
        return self._evens_out(hunt, task, queue, held[queue])

    def _evens_out(self, hunt: Hunt, task: Task, queue: str, held: Vector) -> bool:
        """Whether the taker, with its task, would hold a smaller part of its share than the giver does now.

        Otherwise the giver could come back for it, and the taker again, for ever.
        """
        given, taken = self.deserved[queue].amount, self.deserved[hunt.job.queue].amount
        common = self.holdings.common(task.shape, hunt.task.shape)
        gives = [held.item(column) / given.item(column) for column, _ in common if given.item(column) >= STEP]
        if not gives:
            return True
        has = self.holdings.allocated[hunt.job.queue]
        takes = [
            (has.item(column) + amount) / taken.item(column)
            for column, amount in self.holdings.parts(hunt.task.shape)
            if taken.item(column) >= STEP
        ]
        return max(takes, default=0.0) < max(gives) - HAIR

    def _over(self, name: str, held: Vector, task: Task) -> bool:
        entitlement = self.deserved[name]
        if not entitlement.common(task.request):
            return True  # it lives on what others leave
        relevant = entitlement.relevant(task.request)
        parts = tuple(part for part in self.holdings.parts(task.shape) if relevant[part[0]])
        return over_share(held, parts, entitlement.amount, self.tolerance.get(name))

    def _related_and_undeserving(self, hunt: Hunt, queue: str) -> bool:
        """Whether the queues share an ancestor that counts, and the taker's deserves nothing of what it asks for."""
        if not self.level:
            return False
        theirs, ours = (
            self.tree.path(queue)[1 : self.level + 1],
            self.tree.path(hunt.job.queue)[1 : self.level + 1],
        )
        return bool(set(theirs) & set(ours)) and not self.deserved[hunt.job.queue].common(hunt.task.request)
