"""Pods: the row of one, its owner, and the resources that pods occupy."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import orjson

from volcano.kube.api.fields import at, items, number, wall_time
from volcano.kube.api.manifest import Key, Manifest, annotations_of, key_of, labels_of
from volcano.kube.api.names import GROUP_NAME, JOB_NAME, TASK_INDEX, TASK_SPEC
from volcano.kube.resources.pod_status import pod_status
from volcano.views.amounts import Amounts, amounts

ENDED = ("Succeeded", "Failed")
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
    placed = (pod.get("spec") or {}).get("nodeName")
    return bool(placed) and (pod.get("status") or {}).get("phase") not in ENDED


def held_by(pods: Iterable[Manifest]) -> dict[str, float]:
    return summed(pod_requests(pod) for pod in pods if occupies(pod))


def summed(parts: Iterable[Amounts]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)


def pod_requests(pod: Manifest) -> Amounts:
    """Resource requests of a pod: sum of its containers, or the largest init container if that is more."""
    spec = pod.get("spec") or {}
    return _requests(orjson.dumps((spec.get("containers"), spec.get("initContainers"))))


@lru_cache(maxsize=4096)
def _requests(containers: bytes) -> Amounts:
    """Requests of containers and init containers in JSON: most pods of a cluster have one of a few shapes."""
    together: dict[str, float] = defaultdict(float)
    always, first = orjson.loads(containers)
    for container in items({"": always}, ""):
        for name, amount in _asked(container).items():
            together[name] += amount
    for container in items({"": first}, ""):
        for name, amount in _asked(container).items():
            together[name] = max(together[name], amount)
    return dict(together)


def _asked(container: Mapping[str, object]) -> dict[str, float]:
    limits, requests = at(container, "resources", "limits"), at(container, "resources", "requests")
    return {**amounts(limits), **amounts(requests)}


def job_of(pod: Manifest) -> str:
    """Namespace and name of a pod's job; of its PodGroup when it has no job, and empty when it has neither."""
    name = labels_of(pod).get(JOB_NAME) or annotations_of(pod).get(GROUP_NAME) or ""
    return f"{key_of(pod).namespace}/{name}" if name else ""
