"""What queue plugins keep per queue, and the arithmetic of limits: how many more fit, what lacks, who is over."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from volcano.kube.names import OVERUSE_TOLERANCE, ROOT_QUEUE
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import PODS, STEP, Mask, ResourceIndex, Vector, positive
from volcano.model.snapshot import Snapshot
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.ledger import Ledger
from volcano.scheduler.engine.plugin import Hunt, Rejection
from volcano.scheduler.plugins.proportion.tree import QueueTree

# Shares are quotients of sums, so that an amount may miss a limit it exactly meets by a hair.
HAIR = 1e-9
UNLIMITED = 10**9
ENDED = "queue resource quota insufficient"

# A request as (column, amount), for arithmetic that is too small for arrays to pay.
Parts = tuple[tuple[int, float], ...]

Name = TypeVar("Name", str, int)


class Holdings:
    """What each queue, and each of its ancestors, holds and was promised; kept up while the cycle places and evicts."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, tree: QueueTree) -> None:
        self.snapshot = snapshot
        self.tree = tree
        self.requested: dict[str, Vector] = {}
        self.inqueue: dict[str, Vector] = {}
        self.elastic: dict[str, Vector] = {}
        allocated: dict[str, Vector] = {}
        for name, totals in snapshot.totals.items():
            for above in (*tree.path(name), ROOT_QUEUE):
                add(allocated, above, totals.allocated)
                add(self.requested, above, totals.requested)
                add(self.inqueue, above, totals.inqueue)
                add(self.elastic, above, totals.elastic)
        self.allocated = ledger.totals(allocated)
        self._parts: dict[Shape, Parts] = {}
        self._common: dict[tuple[Shape, Shape], Parts] = {}
        self._ranks: dict[str, dict[int, Vector]] | None = None

    def place(self, tasks: Sequence[Task]) -> None:
        """Tasks of one job and shape were placed."""
        amount = tasks[0].request if len(tasks) == 1 else tasks[0].request * len(tasks)
        for name in self.lineage(tasks[0]):
            self.allocated.add(name, amount)

    def take(self, tasks: Sequence[Task]) -> None:
        """Tasks of one job and shape were marked for eviction."""
        amount = tasks[0].request if len(tasks) == 1 else tasks[0].request * len(tasks)
        for name in self.lineage(tasks[0]):
            self.allocated.subtract(name, amount)

    def admit(self, job: Job) -> None:
        """A job was let in: what it asks for is promised to it."""
        promised = positive(job.min_resources - job.gated)
        for name in (*self.tree.path(job.queue), ROOT_QUEUE):
            add(self.inqueue, name, promised)

    def parts(self, shape: Shape) -> Parts:
        """What tasks of a shape ask for, dimension by dimension; the pod itself is none."""
        found = self._parts.get(shape)
        if found is None:
            columns = np.flatnonzero(asked(shape.request)).tolist()
            found = self._parts[shape] = tuple((column, shape.request.item(column)) for column in columns)
        return found

    def common(self, shape: Shape, other: Shape) -> Parts:
        """What tasks of a shape ask for in dimensions the other shape asks for as well."""
        found = self._common.get((shape, other))
        if found is None:
            columns = {column for column, _ in self.parts(other)}
            found = tuple(part for part in self.parts(shape) if part[0] in columns)
            self._common[shape, other] = found
        return found

    def lineage(self, task: Task) -> tuple[str, ...]:
        """The queue of a task and its ancestors; nothing for pods that belong to no job of ours."""
        job = self.snapshot.jobs.get(task.job)
        return () if job is None else self.tree.path(job.queue)

    def committed(self, name: str) -> Vector:
        """What a queue holds or was promised, less what its jobs hold beyond their minimum."""
        zero = self.snapshot.resources.zeros()
        committed: Vector = self.allocated[name] + self.inqueue.get(name, zero) - self.elastic.get(name, zero)
        return committed

    def outranked(self, job: Job) -> Vector:
        """What jobs of lower priority hold of their minimum in the same queue: preemption can take it for this one."""
        if self._ranks is None:
            self._ranks = {}
            for other in self.snapshot.jobs.values():
                if other.allocated.any():
                    held = other.allocated - positive(other.allocated - other.min_resources)
                    add(self._ranks.setdefault(other.queue, {}), other.priority, held)
        ranks = self._ranks.get(job.queue, {})
        below = (held for priority, held in ranks.items() if priority < job.priority)
        return sum(below, start=self.snapshot.resources.zeros())


def room_for(
    holdings: Holdings, job: Job, limits: Mapping[str, Vector], preempting: bool
) -> Rejection | None:
    """Why a job's minimum does not go into its queue, or into an ancestor of it, beside what is committed there.

    Where preemption is at work, what it could take for the job is no obstacle: a job that is never let in could never
    ask for it.
    """
    for name in holdings.tree.path(job.queue):
        need = job.min_resources + holdings.committed(name)
        columns, resources = asked(job.min_resources), holdings.snapshot.resources
        refusal = lacking(need, limits[name], columns, resources, ENDED)
        if refusal is not None and preempting:
            refusal = lacking(need - holdings.outranked(job), limits[name], columns, resources, ENDED)
        if refusal is not None:
            return refusal
    return None


def add(totals: dict[Name, Vector], name: Name, amount: Vector) -> None:
    totals[name] = totals[name] + amount if name in totals else amount


def asked(request: Vector) -> Mask:
    """The dimensions a request is about; the pod itself is none."""
    columns = request > 0
    columns[PODS] = False
    return columns


def how_many(parts: Parts, held: Vector, limit: Vector) -> int:
    """How many tasks that ask for `parts` still go between what is held and the limit."""
    times = float(UNLIMITED)
    for column, amount in parts:
        most = limit.item(column)
        times = min(times, (most + most * HAIR + HAIR - held.item(column)) / amount)
    return max(0, int(times))


def within(need: Vector, limit: Vector, columns: Mask) -> bool:
    """Whether a need stays within a limit in these dimensions."""
    return bool((need[columns] <= limit[columns] * (1 + HAIR) + HAIR).all())


def lacking(
    need: Vector,
    limit: Vector,
    columns: Mask,
    resources: ResourceIndex,
    message: str,
    word: str = "insufficient",
) -> Rejection | None:
    """The refusal that names what a limit lacks; None when it suffices."""
    over = columns & (need > limit * (1 + HAIR) + HAIR)
    if not over.any():
        return None
    names = [resources.names[column] for column in np.flatnonzero(over)]
    first = int(np.flatnonzero(over)[0])
    text = f"{message}: {', '.join(f'{word} {name}' for name in names)}"
    return Rejection(text, resource=names[0], need=float(need[first]), have=float(limit[first]))


@dataclass(frozen=True, slots=True)
class Limits:
    """What protects a queue from losing more: its promise and its share, and how far it may exceed the share."""

    guarantee: Mapping[str, Vector]
    deserved: Mapping[str, Vector]
    tolerance: Mapping[
        str, float | None
    ]  # None: leave a queue alone where taking more would bring it below its share


def tolerances(queues: Iterable[Queue]) -> dict[str, float | None]:
    """The queues' own word on how far over their share they may stay; anything but a number from 0 up is ignored."""
    said: dict[str, float | None] = {}
    for queue in queues:
        try:
            tolerance = float(queue.annotations[OVERUSE_TOLERANCE])
        except (KeyError, ValueError):
            continue
        if tolerance >= 0:
            said[queue.name] = tolerance
    return said


def over_share(held: Vector, parts: Parts, deserved: Vector, tolerance: float | None) -> bool:
    """Whether a queue that holds so much can lose a task that asks for `parts`.

    It can when, in one of these dimensions, it holds more than it deserves (by more than the tolerated fraction) and
    still holds what it deserves afterwards. With a tolerance of exactly 0 every excess will do.
    """
    for column, amount in parts:
        share = deserved.item(column)
        excess = held.item(column) - share
        if excess > share * (tolerance or 0.0) + STEP and (
            tolerance == 0 or excess >= amount - STEP - HAIR * share
        ):
            return True
    return False


class Protection:
    """Walks candidates in the order they would go, and keeps those whose queue can spare them."""

    def __init__(self, holdings: Holdings, limits: Limits) -> None:
        self.holdings = holdings
        self.limits = limits
        self._kept: list[Task] = []
        self._hunt: Hunt | None = None

    def filter_victims(self, hunt: Hunt, candidates: Sequence[Task]) -> list[Task]:
        """The candidates whose loss leaves their queue its guarantee and its share."""
        if candidates is not self._kept or hunt is not self._hunt:  # what was kept a moment ago is kept
            self._kept, self._hunt = list(self._walk(hunt, candidates)), hunt
        return self._kept

    def _walk(self, hunt: Hunt, candidates: Sequence[Task]) -> Iterator[Task]:
        holdings, limits = self.holdings, self.limits
        jobs, queues, allocated = holdings.snapshot.jobs, holdings.snapshot.queues, holdings.allocated
        running: dict[str, Vector] = {}
        path = holdings.tree.path
        shared = path(hunt.job.queue)
        for task in candidates:
            job = jobs.get(task.job)
            if job is None:
                continue
            queue = job.group.queue
            if queue in shared or not queues[queue].reclaimable:
                continue
            held = running.get(queue)
            held = allocated[queue] if held is None else held
            parts = holdings.common(task.shape, hunt.task.shape)
            if not over_share(held, parts, limits.deserved[queue], limits.tolerance.get(queue)):
                continue
            request = task.request
            left = {queue: held - request}
            for name in path(queue)[1:]:
                if name not in shared:
                    left[name] = running.get(name, allocated[name]) - request
            if keeps_guarantees(request, left, limits.guarantee):
                running.update(left)
                yield task


def keeps_guarantees(request: Vector, left: Mapping[str, Vector], guarantee: Mapping[str, Vector]) -> bool:
    """Whether every one of these queues, with what is left to it, still holds what it is promised of the request."""
    for name, amount in left.items():
        promised = guarantee.get(name)
        if promised is not None and any(promised.tolist()):  # a list, because arrays do not pay here
            relevant = (request > 0) & (promised > 0)
            if (amount[relevant] + STEP < promised[relevant]).any():
                return False
    return True
