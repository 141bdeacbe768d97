"""Usage per queue, and arithmetic on limits, for the queue plugins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from volcano.kube.api.names import OVERUSE_TOLERANCE, ROOT_QUEUE
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import PODS, STEP, Mask, ResourceIndex, Vector, positive, shown
from volcano.model.shares.tree import QueueTree
from volcano.model.snapshot import Snapshot
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.diagnosis import Amount, Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.ledger_view import LedgerView

# Shares are quotients of sums: an amount may exceed a limit that it meets exactly by a rounding error.
EPSILON = 1e-9
UNLIMITED = 10**9
QUOTA_INSUFFICIENT = "queue resource quota insufficient"

# A request as (column, amount): plain numbers are faster than arrays for so few.
RequestItems = tuple[tuple[int, float], ...]

Name = TypeVar("Name", str, int)


class DeviceAccounts(Protocol):
    """Amounts that the claims of tasks count for in queues."""

    def applies_to(self, task: Task) -> bool: ...

    def held(self) -> dict[str, Vector]: ...

    def request(self, task: Task) -> Vector: ...

    def added(self, task: Task, name: str) -> Vector: ...

    def take(self, task: Task) -> dict[str, Vector]: ...

    def give(self, task: Task) -> dict[str, Vector]: ...


class QueueUsage:
    """Allocated, requested and admitted resources of each queue, its subqueues included; updated during the cycle."""

    def __init__(
        self, snapshot: Snapshot, ledger: LedgerView, tree: QueueTree, devices: DeviceAccounts | None = None
    ) -> None:
        """`devices` adds those of the tasks' claims, where queues have quotas of devices."""
        self.snapshot = snapshot
        self._ledger = ledger
        self._devices = devices or None
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
        for name, amount in self._devices.held().items() if self._devices else ():
            add(allocated, name, amount)
        self.allocated = ledger.totals(allocated)
        self._parts: dict[Shape, RequestItems] = {}
        self._common: dict[tuple[Shape, Shape], RequestItems] = {}
        self._ranks: dict[str, dict[int, Vector]] | None = None

    def allocate(self, tasks: Sequence[Task]) -> None:
        """Accounts for placed tasks of one job and shape."""
        amount = tasks[0].request if len(tasks) == 1 else tasks[0].request * len(tasks)
        for name in self.path_of(tasks[0]):
            self.allocated.add(name, amount)
        for devices, task in self._claiming(tasks):
            for name, added in devices.take(task).items():
                self.allocated.add(name, added)
            self._ledger.record_undo(partial(_call, devices.give, task))

    def deallocate(self, tasks: Sequence[Task]) -> None:
        """Accounts for tasks of one job and shape that were marked for eviction."""
        amount = tasks[0].request if len(tasks) == 1 else tasks[0].request * len(tasks)
        for name in self.path_of(tasks[0]):
            self.allocated.subtract(name, amount)
        for devices, task in self._claiming(tasks):
            for name, freed in devices.give(task).items():
                self.allocated.subtract(name, freed)
            self._ledger.record_undo(partial(_call, devices.take, task))

    def _claiming(self, tasks: Sequence[Task]) -> "Iterator[tuple[DeviceAccounts, Task]]":
        """The tasks with claims that count."""
        if self._devices is not None and self._devices.applies_to(tasks[0]):
            for task in tasks:
                yield self._devices, task

    def request(self, task: Task) -> Vector:
        """Returns the request of a task, with the devices of its claims where they count."""
        return task.request if self._devices is None else self._devices.request(task)

    def added(self, task: Task, name: str) -> Vector:
        """Returns what a task would add to what a queue holds."""
        return task.request if self._devices is None else self._devices.added(task, name)

    def items(self, task: Task) -> RequestItems:
        """Returns the request of a task by resource, without the pod count."""
        if self._devices is None or not self._devices.applies_to(task):
            return self.request_items(task.shape)
        return vector_items(self._devices.request(task))

    def common(self, task: Task, other: Task) -> RequestItems:
        """Returns the request of a task in the resources that the other task requests as well."""
        if self._devices is None or not self._devices.applies_to(task):
            return self.common_items(task.shape, other.shape)
        columns = {column for column, _ in self.items(other)}
        return tuple(part for part in self.items(task) if part[0] in columns)

    def enqueue(self, job: Job) -> None:
        """Accounts for the minimum of an admitted job."""
        guaranteed = positive(job.min_resources - job.gated)
        for name in (*self.tree.path(job.queue), ROOT_QUEUE):
            add(self.inqueue, name, guaranteed)

    def promise(self, job: Job, amount: Vector) -> None:
        """Accounts for more that an admitted job will hold."""
        for name in (*self.tree.path(job.queue), ROOT_QUEUE):
            add(self.inqueue, name, amount)

    def request_items(self, shape: Shape) -> RequestItems:
        """Returns the request of a shape by resource, without the pod count."""
        found = self._parts.get(shape)
        if found is None:
            found = self._parts[shape] = vector_items(shape.request)
        return found

    def common_items(self, shape: Shape, other: Shape) -> RequestItems:
        """Returns the request of a shape in the resources that the other shape requests as well."""
        found = self._common.get((shape, other))
        if found is None:
            columns = {column for column, _ in self.request_items(other)}
            found = tuple(part for part in self.request_items(shape) if part[0] in columns)
            self._common[shape, other] = found
        return found

    def path_of(self, task: Task) -> tuple[str, ...]:
        """Returns the queue of a task and its ancestors; empty for pods without a job."""
        job = self.snapshot.jobs.get(task.job)
        return () if job is None else self.tree.path(job.queue)

    def committed(self, name: str) -> Vector:
        """Returns the allocated and admitted resources of a queue, less what its jobs hold beyond their minimum."""
        zero = self.snapshot.resources.zeros()
        committed: Vector = self.allocated[name] + self.inqueue.get(name, zero) - self.elastic.get(name, zero)
        return committed

    def preemptable_by(self, job: Job) -> Vector:
        """Returns the minimums of lower-priority jobs in the same queue, which preemption can free."""
        if self._ranks is None:
            self._ranks = {}
            for other in self.snapshot.jobs.values():
                if other.allocated.any():
                    held = other.allocated - positive(other.allocated - other.min_resources)
                    add(self._ranks.setdefault(other.queue, {}), other.priority, held)
        ranks = self._ranks.get(job.queue, {})
        below = (held for priority, held in ranks.items() if priority < job.priority)
        return sum(below, start=self.snapshot.resources.zeros())


def enqueue_rejection(
    usage: QueueUsage, job: Job, limits: Mapping[str, Vector], preempting: bool
) -> Rejection | None:
    """Rejects a job whose minimum exceeds a limit of its queue or of an ancestor, beside the committed resources.

    With preemption configured, resources that the job could preempt do not count: a job that is never
    admitted could never preempt.
    """
    for name in usage.tree.path(job.queue):
        need = job.min_resources + usage.committed(name)
        columns, resources = requested_columns(job.min_resources), usage.snapshot.resources
        for freed in (0.0, usage.preemptable_by(job)) if preempting else (0.0,):
            rejection = insufficient(
                need - freed,
                limits[name],
                columns,
                resources,
                QUOTA_INSUFFICIENT,
                request=job.min_resources,
                code=Code.QUEUE_CAPABILITY,
                queue=name,
            )
            if rejection is None:
                break
            if rejection.have >= usage.snapshot.total.item(resources.column[rejection.resource]) - STEP:
                # The queue may have the whole cluster: not its limit is the reason.
                rejection = replace(rejection, code=Code.CLUSTER_OVERCOMMITTED, queue="")
        if rejection is not None:
            return rejection
    return None


def _call(change: Callable[[Task], object], task: Task) -> None:
    change(task)


def add(totals: dict[Name, Vector], name: Name, amount: Vector) -> None:
    totals[name] = totals[name] + amount if name in totals else amount


def vector_items(request: Vector) -> RequestItems:
    """Returns a request by resource, without the pod count."""
    columns = np.flatnonzero(requested_columns(request)).tolist()
    return tuple((column, request.item(column)) for column in columns)


def requested_columns(request: Vector) -> Mask:
    """Returns the columns of a request, without the pod count."""
    columns = request > 0
    columns[PODS] = False
    return columns


def count_within(parts: RequestItems, held: Vector, limit: Vector) -> int:
    """Returns how many tasks that request `parts` fit between the held amount and the limit."""
    times = float(UNLIMITED)
    for column, amount in parts:
        most = limit.item(column)
        times = min(times, (most + most * EPSILON + EPSILON - held.item(column)) / amount)
    return max(0, int(times))


def is_within(need: Vector, limit: Vector, columns: Mask) -> bool:
    """Reports whether a need is within a limit in these columns."""
    return bool((need[columns] <= limit[columns] * (1 + EPSILON) + EPSILON).all())


def insufficient(
    need: Vector,
    limit: Vector,
    columns: Mask,
    resources: ResourceIndex,
    message: str,
    word: str = "insufficient",
    *,
    request: Vector,
    code: Code,
    queue: str = "",
) -> Rejection | None:
    """Returns a rejection that names the resources above the limit; None when all are within it."""
    over = columns & (need > limit * (1 + EPSILON) + EPSILON)
    if not over.any():
        return None
    names = [resources.names[column] for column in np.flatnonzero(over)]
    first = int(np.flatnonzero(over)[0])
    text = f"{message}: {', '.join(f'{word} {name}' for name in names)}"
    found = tuple(
        Amount(
            resources.names[column],
            request.item(column),
            max(limit.item(column) - need.item(column) + request.item(column), 0.0),
            limit.item(column),
        )
        for column in np.flatnonzero(over).tolist()
    )
    return Rejection(
        text,
        code,
        resource=names[0],
        need=float(need[first]),
        have=float(limit[first]),
        queue=queue,
        amounts=found,
    )


def over_limit(
    held: Vector,
    request: Vector,
    limit: Vector,
    resources: ResourceIndex,
    what: str,
    *,
    code: Code,
    queue: str,
) -> Rejection | None:
    """Rejects a task that would bring its queue above a limit; names the first resource, the limit and the request.

    The amount in use is not part of the message: it changes all the time, and each change would be written to the
    server for every waiting job.
    """
    columns = requested_columns(request)
    found = insufficient(
        held + request, limit, columns, resources, what, request=request, code=code, queue=queue
    )
    if found is None:
        return None
    name, most = found.resource, found.have
    wanted = request.item(resources.column[name])
    text = f"{what}: {name} {shown(name, most)} in all, the pod requests {shown(name, wanted)}"
    return replace(found, message=text)


def overuse_tolerances(queues: Iterable[Queue]) -> dict[str, float]:
    """Parses the queues' tolerated excess over their share; invalid values are ignored."""
    found: dict[str, float] = {}
    for queue in queues:
        try:
            tolerance = float(queue.annotations[OVERUSE_TOLERANCE])
        except (KeyError, ValueError):
            continue
        if tolerance >= 0:
            found[queue.name] = tolerance
    return found


def over_share(held: Vector, parts: RequestItems, deserved: Vector, tolerance: float) -> bool:
    """Reports whether a queue holds, in one of these resources, more than it deserves and may exceed it by."""
    for column, _ in parts:
        share = deserved.item(column)
        if held.item(column) - share > share * tolerance + STEP:
            return True
    return False
