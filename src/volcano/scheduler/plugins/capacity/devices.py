"""Devices in queues: what the claims of tasks count for; a claim that several tasks of a queue share counts once."""

from collections.abc import Iterable, Sequence

import numpy as np

from volcano.model.device_demand import (
    DEVICE_CLASS,
    ClaimKey,
    claims_of,
    demand,
    holding_tasks,
    is_device_resource,
)
from volcano.model.devices import ClaimSpec, DeviceRequest
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.shares.tree import QueueTree
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates.devices.index import device_index

EXCEEDED = "dra-resource-exceeded"
UNLIMITED = 1e15


class DeviceQuota:
    """The claims that each queue holds, with its subqueues; only used while queues have quotas of devices."""

    def __init__(self, session: Session, tree: QueueTree, *, enabled: bool = True) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._tree = tree
        self._resources = session.resources
        names = self._resources.names if enabled else ()
        self.names = [name for name in names if is_device_resource(name)]
        self._requests: dict[tuple[Shape, tuple[ClaimSpec, ...]], Vector] = {}
        self._users: dict[tuple[str, ClaimKey], int] = {}  # tasks that hold a claim, by queue

    def __bool__(self) -> bool:
        return bool(self.names)

    def applies_to(self, task: Task) -> bool:
        return bool(self.names) and bool(task.device_claims)

    def total(self) -> Vector:
        """The devices of the cluster: number and capacities by class."""
        total = self._snapshot.total.copy()
        if not self.names:
            return total
        index = device_index(self._snapshot)
        for name in self.names:
            dimension, _, device_class = name.rpartition(DEVICE_CLASS)
            matching = np.flatnonzero(index.matching(DeviceRequest("", device_class))).tolist()
            column = self._resources.column[name]
            if not dimension:
                # Claims may share a device, so that their number is not limited by that of the devices.
                shared = any(index.devices[at].shared for at in matching)
                total[column] = UNLIMITED if shared else 1000.0 * len(matching)
                continue
            capacities = (index.devices[at].capacity.get(dimension.rstrip(".")) for at in matching)
            total[column] = 1000.0 * float(sum(each.value for each in capacities if each is not None))
        return total

    # -- demand ----------------------------------------------------------------------------------------------

    def request(self, task: Task) -> Vector:
        """The request of a task with the devices of its claims."""
        if not self.applies_to(task):
            return task.request
        key = (task.shape, tuple(spec for _, spec in claims_of(self._snapshot, task)))
        known = self._requests.get(key)
        if known is None:
            known = self._requests[key] = task.request + self._vector(key[1])
        return known

    def _vector(self, specs: Iterable[ClaimSpec]) -> Vector:
        total = self._resources.zeros()
        for spec in specs:
            total += self._resources.vector(demand(spec))
        return total

    def minimum(self, job: Job) -> Vector:
        """The devices without which a job cannot start: those of its first pods, shared claims once."""
        tasks = [task for task in job.tasks.values() if task.status is Status.PENDING]
        return self._vector(dict(self._first_claims(job, tasks)).values())

    def _first_claims(self, job: Job, tasks: Sequence[Task]) -> Iterable[tuple[ClaimKey, ClaimSpec]]:
        left, roles = job.min_available, dict(job.group.min_task_member)
        for task in sorted(tasks, key=lambda each: (each.namespace, each.name)):
            if roles:
                if roles.get(task.role, 0) <= 0:
                    continue
                roles[task.role] -= 1
            elif left <= 0:
                return
            left -= 1
            yield from claims_of(self._snapshot, task)

    def unlisted(self, queue: Queue, task: Task) -> str:
        """A capacity of a class that the queue limits, without a limit for this capacity; "" if there is none."""
        for _, spec in claims_of(self._snapshot, task) if self.applies_to(task) else ():
            for name in demand(spec):
                dimension, _, device_class = name.rpartition(DEVICE_CLASS)
                limited = any(each.endswith(f"{DEVICE_CLASS}{device_class}") for each in queue.capability)
                if dimension and limited and name not in queue.capability:
                    return name
        return ""

    # -- what queues hold ------------------------------------------------------------------------------------

    def held(self) -> dict[str, Vector]:
        """The devices that queues hold at the start of the cycle."""
        found: dict[str, Vector] = {}
        for task in holding_tasks(self._snapshot) if self.names else ():
            for name, amount in self.take(task).items():
                found[name] = found[name] + amount if name in found else amount
        return found

    def take(self, task: Task) -> dict[str, Vector]:
        """Adds a task to the users of its claims; returns what this adds to its queue and the queues above."""
        return self._move(task, 1)

    def give(self, task: Task) -> dict[str, Vector]:
        """Removes a task from the users of its claims; returns what this frees."""
        return self._move(task, -1)

    def _move(self, task: Task, sign: int) -> dict[str, Vector]:
        job = self._snapshot.jobs.get(task.job)
        if job is None:
            return {}
        found = {}
        for name in self._tree.path(job.queue):
            specs = []
            for key, spec in claims_of(self._snapshot, task):
                before = self._users.get((name, key), 0)
                self._users[name, key] = before + sign
                if min(before, before + sign) == 0:
                    specs.append(spec)
            found[name] = self._vector(specs)
        return found

    def added(self, task: Task, name: str) -> Vector:
        """Amounts that a task would add to a queue: its request, and the claims that the queue does not hold yet."""
        if not self.applies_to(task):
            return task.request
        new = [spec for key, spec in claims_of(self._snapshot, task) if not self._users.get((name, key))]
        return task.request + self._vector(new)
