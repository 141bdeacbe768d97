"""Builds a Job from a PodGroup and its tasks: counts, sums and sub-groups."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from volcano.kube.api import names
from volcano.kube.api.manifest import whole_number
from volcano.model.job import Job, PodGroup, SubGroupPolicy, SubJob
from volcano.model.resources import ResourceIndex, Vector, positive
from volcano.model.status import HOLDING, Status
from volcano.model.task import Shape, Task

LONGEST_NAME = 128


def build_job(
    uid: str, group: PodGroup, tasks: Mapping[str, Task], priority: int, index: ResourceIndex
) -> Job:
    """Builds the job. `tasks` is not copied."""
    by_status: dict[Status, list[Task]] = {}
    roles: dict[str, dict[Status, int]] = {}
    best_effort: dict[str, int] = {}
    shapes: dict[tuple[Shape, Status], int] = {}
    gated = nothing = _nothing(index.width)
    for task in tasks.values():
        status, role = task.status, task.role
        by_status.setdefault(status, []).append(task)
        counts = roles.setdefault(role, {})
        counts[status] = counts.get(status, 0) + 1
        shapes[task.shape, status] = shapes.get((task.shape, status), 0) + 1
        if status is Status.PENDING:
            if task.best_effort:
                best_effort[role] = best_effort.get(role, 0) + 1
            if task.gates and task.gates != (names.QUEUE_GATE,):
                gated = gated + task.request
    allocated, requested, total = _sums(shapes, nothing)
    minimum = index.vector(group.min_resources) if group.min_resources else nothing
    holding = sum(len(by_status.get(status, ())) for status in HOLDING)
    frozen = {status: tuple(found) for status, found in by_status.items()}
    sub_jobs, sub_job_of = _sub_jobs(uid, group, tasks)
    return Job(
        uid=uid,
        group=group,
        priority=priority,
        tasks=tasks,
        by_status=frozen,
        roles=roles,
        best_effort_pending=best_effort,
        allocated=allocated,
        requested=requested,
        total=total,
        gated=gated,
        min_resources=minimum,
        inqueue=_inqueue(group, minimum, allocated, gated, holding),
        elastic=allocated if minimum is nothing else positive(allocated - minimum),
        sub_jobs=sub_jobs,
        sub_job_of=sub_job_of,
    )


@lru_cache(maxsize=64)
def _nothing(width: int) -> Vector:
    """Shared read-only zeros."""
    zeros = np.zeros(width)
    zeros.setflags(write=False)
    return zeros


def _sums(shapes: Mapping[tuple[Shape, Status], int], nothing: Vector) -> tuple[Vector, Vector, Vector]:
    """Requests of tasks that hold resources, of those and pending ones, and of all tasks."""
    allocated = requested = total = nothing
    for (shape, status), count in shapes.items():
        amount = shape.request * count
        if status in HOLDING:
            allocated = amount if allocated is nothing else allocated + amount
        if status in HOLDING or status is Status.PENDING:
            requested = amount if requested is nothing else requested + amount
        total = amount if total is nothing else total + amount
    return allocated, requested, total


def _inqueue(group: PodGroup, minimum: Vector, allocated: Vector, gated: Vector, holding: int) -> Vector:
    """Resources an admitted job was promised and does not hold yet, in the dimensions of its min_resources."""
    admitted = group.phase == "Inqueue" or (group.phase == "Running" and holding >= group.min_member)
    if group.min_resources is None or not admitted:
        return _nothing(len(minimum))
    named = minimum > 0
    return positive(positive(np.where(named, minimum - allocated, 0.0)) - gated)


def _sub_jobs(
    uid: str, group: PodGroup, tasks: Mapping[str, Task]
) -> tuple[dict[str, SubJob], dict[str, str]]:
    """Sub-groups by uid, and the sub-group of each task; empty without sub-group policies."""
    if not group.sub_groups:
        return {}, {}
    members: dict[str, dict[str, Task]] = {}
    policies: dict[str, SubGroupPolicy | None] = {}
    indices: dict[str, int] = {}
    sub_job_of: dict[str, str] = {}
    for task in tasks.values():
        policy, values = _match(group, task)
        name = f"{uid}/{policy.name}-{_joined(values)}" if policy else uid
        members.setdefault(name, {})[task.uid] = task
        policies[name] = policy
        index = whole_number(values[0]) if values else None
        indices[name] = -1 if index is None else index
        sub_job_of[task.uid] = name
    return {
        name: _sub_job(name, uid, policies[name], found, indices[name], group)
        for name, found in members.items()
    }, sub_job_of


def _sub_job(
    name: str, job: str, policy: SubGroupPolicy | None, tasks: Mapping[str, Task], index: int, group: PodGroup
) -> SubJob:
    by_status: dict[Status, list[Task]] = {}
    for task in tasks.values():
        by_status.setdefault(task.status, []).append(task)
    return SubJob(
        uid=name,
        job=job,
        policy=policy.name if policy else "",
        min_available=policy.size if policy else 1,
        tasks=tasks,
        by_status={status: tuple(found) for status, found in by_status.items()},
        priority=max(task.priority for task in tasks.values()),
        index=index,
        topology=policy.topology if policy else group.topology,
    )


def _match(group: PodGroup, task: Task) -> tuple[SubGroupPolicy | None, tuple[str, ...]]:
    """First policy that matches a task, and the label values that select the sub-group."""
    for policy in group.sub_groups:
        if policy.selector is not None and not policy.selector.matches(task.labels):
            continue
        values = tuple(task.labels.get(key) or task.annotations.get(key, "") for key in policy.match_keys)
        if values and all(values):
            return policy, values
    return None, ()


def _joined(values: tuple[str, ...]) -> str:
    joined = "-".join(values)
    return joined if len(joined) <= LONGEST_NAME else f"{_fnv(joined):08x}"


def _fnv(text: str) -> int:
    """FNV-1a hash, 32 bits, to shorten a long name."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
