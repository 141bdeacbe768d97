"""Pods: the row of one, its owner, and the resources that pods occupy."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import orjson

from volcano.kube.api.fields import at, items, number, wall_time
from volcano.kube.api.manifest import Key, Manifest, annotations_of, has_ended, is_deleting, key_of, labels_of
from volcano.kube.api.names import GROUP_NAME, JOB_NAME, TASK_INDEX, TASK_SPEC
from volcano.kube.devices import vgpu
from volcano.kube.resources.pod_requests import scheduled_requests
from volcano.kube.resources.pod_status import pod_status
from volcano.views.amounts import Amounts, amounts

# Owner of a pod: a job, a PodGroup or none, with the owner's key.
Home = tuple[str, Key]

OF_JOB, OF_GROUP, OF_NOBODY = "job", "group", ""


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod of a job."""

    key: Key
    task: str
    index: int
    status: str
    node: str
    restarts: int
    created: float
    requests: Amounts


def pod_row(pod: Manifest) -> PodRow:
    index = labels_of(pod).get(TASK_INDEX) or annotations_of(pod).get(TASK_INDEX) or ""
    return PodRow(
        key=key_of(pod),
        task=labels_of(pod).get(TASK_SPEC) or annotations_of(pod).get(TASK_SPEC) or "",
        index=int(index) if index.isdecimal() else 0,
        status=pod_status(pod) or "Pending",
        node=str(at(pod, "spec", "nodeName", default="")),
        restarts=sum(number(status, "restartCount") for status in items(pod, "status", "containerStatuses")),
        created=wall_time(at(pod, "metadata", "creationTimestamp")) or 0.0,
        requests=pod_requests(pod),
    )


def pods_by_owner(pods: Iterable[Manifest]) -> dict[Home, list[Manifest]]:
    found: dict[Home, list[Manifest]] = defaultdict(list)
    for pod in pods:
        namespace = key_of(pod).namespace
        if name := labels_of(pod).get(JOB_NAME):
            found[OF_JOB, Key(namespace, name)].append(pod)
        elif name := annotations_of(pod).get(GROUP_NAME):
            found[OF_GROUP, Key(namespace, name)].append(pod)
        else:
            found[OF_NOBODY, Key(namespace, "")].append(pod)
    return dict(found)


def occupies(pod: Manifest) -> bool:
    """Whether a pod occupies resources on a node."""
    return bool((pod.get("spec") or {}).get("nodeName")) and not has_ended(pod)


def is_requesting(pod: Manifest) -> bool:
    """Whether a pod counts towards what its queue requests: it waits or runs, and is not being deleted."""
    return (pod.get("status") or {}).get("phase", "Pending") in ("Pending", "Running") and not is_deleting(
        pod
    )


def add(total: dict[str, float], more: Amounts, sign: float = 1.0) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + sign * amount


def held_by(pods: Iterable[Manifest]) -> dict[str, float]:
    return summed(pod_requests(pod) for pod in pods if occupies(pod))


def summed(parts: Iterable[Amounts]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        add(total, part)
    return total


def pod_requests(pod: Manifest) -> Amounts:
    """Resource requests of a pod, as the scheduler counts them."""
    spec = pod.get("spec") or {}
    shape = [spec.get(part) for part in ("containers", "initContainers", "resources", "overhead")]
    given = [
        {part: status.get(part) for part in ("name", "allocatedResources", "resources")}
        for status in items(pod, "status", "containerStatuses")
    ]
    found = _requests(orjson.dumps((shape, given)))
    memory, cores = vgpu.assigned_amounts(annotations_of(pod).get(vgpu.ASSIGNED, ""))
    return {**found, vgpu.MEMORY: memory, vgpu.CORES: cores} if memory or cores else found


@lru_cache(maxsize=4096)
def _requests(shape: bytes) -> Amounts:
    """Requests of the resources of a pod in JSON: most pods of a cluster have one of a few shapes."""
    (containers, init_containers, whole, overhead), statuses = orjson.loads(shape)
    spec = {
        "containers": containers,
        "initContainers": init_containers,
        "resources": whole,
        "overhead": overhead,
    }
    return scheduled_requests(spec, statuses, amounts)


def job_of(pod: Manifest) -> str:
    """Namespace and name of a pod's job; of its PodGroup when it has no job, and empty when it has neither."""
    name = labels_of(pod).get(JOB_NAME) or annotations_of(pod).get(GROUP_NAME) or ""
    return f"{key_of(pod).namespace}/{name}" if name else ""
