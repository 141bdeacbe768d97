"""proportion: queues share the cluster by weight, borrow what others leave, and give it back."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from volcano.kube.names import ROOT_QUEUE
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import PODS, STEP, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.plugin import Hunt, Plugin, Rejection, Vote
from volcano.scheduler.engine.plugin_metrics import Reading, amounts
from volcano.scheduler.plugins.proportion.division import Claim, divide, gather
from volcano.scheduler.plugins.proportion.shares import (
    Holdings,
    Limits,
    Protection,
    asked,
    how_many,
    lacking,
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
from volcano.scheduler.plugins.proportion.whole import WholeGangs

OWN = "/own"  # the jobs of a queue that also has children stand beside the children under this name


class Proportion(Plugin):
    """A queue deserves its weight's part of the cluster, or of its parent's part, as far as it asks for it.

    What it does not ask for is divided among the others in turn, brothers and sisters first. It may hold what it
    deserves; who comes to hold more, because others came back for their part, can be reclaimed from.
    """

    depends_on_preemptor = False

    # -- what belongs to whom --------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> QueueTree:
        return plant(self.snapshot.queues)

    @cached_property
    def holdings(self) -> Holdings:
        """Made when first asked for, which is before the first placement is booked."""
        return Holdings(self.snapshot, self.ledger, self.tree)

    @cached_property
    def guarantee(self) -> dict[str, Vector]:
        return guarantees(self.tree, self.resources)

    @cached_property
    def capability(self) -> dict[str, Vector]:
        """The most each queue may have: what is left of the cluster after the others' guarantees, and its own limit."""
        return real_capabilities(self.tree, self.resources, self.snapshot.total, self.guarantee)

    @cached_property
    def deserved(self) -> dict[str, Vector]:
        """Each queue's share of the cluster, as it stood when the cycle began."""
        tree, zero = self.tree, self.resources.zeros()
        own: dict[str, Claim] = {}
        children = {name: list(below) for name, below in tree.children.items()}
        for name in tree.parent:
            queue, limit, promised = tree.queues[name], self.capability[name], self.guarantee[name]
            requested = self.snapshot.totals[name].requested if name in self.snapshot.totals else zero
            if tree.leaf(name):
                own[name] = Claim(queue.weight, promised, np.minimum(requested, limit))
                continue
            own[name] = Claim(queue.weight, promised, limit)
            if requested.any():
                own[name + OWN] = Claim(1, zero, np.minimum(requested, limit))
                children[name].append(name + OWN)
        shares = divide(self.snapshot.total, gather(own, children, ROOT_QUEUE), children, ROOT_QUEUE)
        shares.update({name.removesuffix(OWN): part for name, part in shares.items() if name.endswith(OWN)})
        return shares

    @cached_property
    def whole(self) -> WholeGangs:
        return WholeGangs(self)

    @cached_property
    def protection(self) -> Protection:
        limits = Limits(self.guarantee, self.deserved, tolerances(self.snapshot.queues.values()))
        return Protection(self.holdings, limits)

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.holdings.place(tasks)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.holdings.take(tasks)

    # -- order and admission ---------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[int, float]:
        """Important queues first, then those that hold the smallest part of what they deserve."""
        return (-queue.priority, self._share(queue.name))

    def _share(self, queue: str) -> float:
        """The largest part of what a queue deserves, over all resources, that it holds."""
        worth = self._worth.get(queue)
        return 0.0 if worth is None else float((self.holdings.allocated[queue] * worth).max())

    @cached_property
    def _worth(self) -> dict[str, Vector]:
        """What one unit of each resource is of what a queue deserves; nothing where it deserves nothing."""
        return {
            name: np.divide(1.0, amount, out=np.zeros_like(amount), where=amount >= STEP)
            for name, amount in self.deserved.items()
        }

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        queue = self.snapshot.queues[job.queue]
        if not queue.open:
            return Rejection(f"queue {queue.name} is {queue.state.lower()}", reason="QueueClosed")
        if job.group.min_resources is None:
            return Vote.PERMIT
        return room_for(self.holdings, job, self.capability, self.session.preempts) or Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        self.holdings.admit(job)

    # -- how much a queue may take ---------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Whether there is nothing left, in any resource, that the queue deserves and does not hold."""
        deserved, held = self._share_of(queue), self.holdings.allocated[queue.name]
        for column in range(len(deserved)):
            if column != PODS and deserved.item(column) - held.item(column) >= STEP:
                return False
        return not self.whole.unfinished(queue)

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        if not queue.open:
            return 0
        parts = self.holdings.parts(task.shape)
        found = min(count, how_many(parts, self.holdings.allocated[queue.name], self._share_of(queue)))
        if found < count and (lacking := self.whole.lacks(queue, self.snapshot.jobs[task.job])) > found:
            path = self.tree.path(queue.name)
            room = min(how_many(parts, self.holdings.allocated[name], self.capability[name]) for name in path)
            found = max(found, min(count, lacking, room))
        return found

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        if not queue.open:
            return Rejection(f"queue {queue.name} is {queue.state.lower()}", reason="QueueClosed")
        return lacking(
            self.holdings.allocated[queue.name] + task.request,
            self._share_of(queue),
            asked(task.request),
            self.resources,
            f"queue {queue.name} has what it deserves",
        )

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if not queue.open:
            return False
        if len(tasks) == 1:
            parts = self.holdings.parts(tasks[0].shape)
            return how_many(parts, self.holdings.allocated[queue.name], self._share_of(queue)) > 0
        request: Vector = np.sum([task.request for task in tasks], axis=0)
        return within(self.holdings.allocated[queue.name] + request, self._share_of(queue), asked(request))

    def _share_of(self, queue: Queue) -> Vector:
        deserved = self.deserved.get(queue.name)
        return self.resources.zeros() if deserved is None else deserved

    def measure(self) -> Iterator[Reading]:
        """What each queue deserves and may have, and how far it is; nothing in a cycle that could not change it."""
        if "deserved" not in self.__dict__ and not self.snapshot.changed:
            return
        for name, queue in self.snapshot.queues.items():
            if name not in self.deserved or not self.tree.parent.get(name):
                continue
            yield Reading("queue_share", (name,), self._share(name))
            idle = not self.holdings.allocated[name].any()  # it has all that it deserves: nothing
            yield Reading("queue_overused", (name,), float(not idle and self.overused(queue)))
            yield from amounts("deserved", name, self.deserved[name], self.resources)
            yield from amounts("capacity", name, capability(queue, self.resources), self.resources)
            yield from amounts("real_capacity", name, self.capability[name], self.resources)

    # -- who gives back --------------------------------------------------------------------------------------

    def filter_victims(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        """Nobody takes from a queue its guarantee or its share, whichever tier this plugin stands in."""
        if not hunt.purpose.across_queues:
            return candidates
        return self.protection.filter_victims(hunt, candidates)

    def reclaimable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        return self.protection.filter_victims(hunt, candidates)
