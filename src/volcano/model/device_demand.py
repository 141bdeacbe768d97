"""Device demand: what claims count for in queues, by the names of queue quotas."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from volcano.model.devices import EXACT_COUNT, ClaimSpec
from volcano.model.resources import amount
from volcano.model.snapshot import Snapshot
from volcano.model.status import HOLDING
from volcano.model.task import Task

DEVICE_CLASS = "deviceclass/"
ClaimKey = tuple[str, str]


def is_device_resource(name: str) -> bool:
    """Whether a resource of a quota is a number of devices, or a capacity of devices."""
    return name.startswith(DEVICE_CLASS) or f".{DEVICE_CLASS}" in name


@lru_cache(maxsize=1024)
def demand(spec: ClaimSpec) -> Mapping[str, float]:
    """Devices and capacities that a claim asks for, by `deviceclass/<class>` and `<capacity>.deviceclass/<class>`.

    Requests with alternatives, for all devices of a node, or for admin access are not counted.
    """
    found: dict[str, float] = {}
    for alternatives in spec.requests:
        request = alternatives[0]
        if "/" in request.name or request.mode != EXACT_COUNT or request.admin:
            continue
        name = f"{DEVICE_CLASS}{request.device_class}"
        found[name] = found.get(name, 0.0) + amount(name, request.count)
        for dimension, requested in request.capacity:
            each = f"{dimension}.{name}"
            found[each] = found.get(each, 0.0) + amount(each, float(requested)) * request.count
    return found


def claims_of(snapshot: Snapshot, task: Task) -> Iterator[tuple[ClaimKey, ClaimSpec]]:
    """The claims of a task that exist."""
    for name in task.device_claims:
        claim = snapshot.devices.claims.get((task.namespace, name))
        if claim is not None:
            yield claim.key, claim.spec


def holding_tasks(snapshot: Snapshot) -> Iterator[Task]:
    """Tasks with claims that hold their devices, as of the start of the cycle."""
    if not snapshot.devices.claims:
        return
    for tasks in snapshot.tasks_on:
        for task in tasks.values():
            if task.device_claims and task.status in HOLDING:
                yield task


def held_by_queue(snapshot: Snapshot) -> dict[str, dict[ClaimKey, ClaimSpec]]:
    """The claims that the jobs of each queue hold; one that several pods share is there once."""
    found: dict[str, dict[ClaimKey, ClaimSpec]] = {}
    for task in holding_tasks(snapshot):
        job = snapshot.jobs.get(task.job)
        if job is not None:
            found.setdefault(job.queue, {}).update(claims_of(snapshot, task))
    return found
