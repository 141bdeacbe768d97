"""Pods created from templates, and their readiness, availability and ownership."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from volcano.base.clock import Instant, parse_timestamp
from volcano.kube.api.kinds import POD, Kind
from volcano.kube.api.manifest import (
    Manifest,
    condition_of,
    controller_of,
    has_ended,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
)
from volcano.kube.api.selectors import LabelSelector, from_object
from volcano.kube.client.operations import Operation, Patch

SAFE = "bcdfghjklmnpqrstvwxz2456789"


def pod_from_template(template: Mapping[str, Any], owner: Manifest, *, name: str = "") -> Manifest:
    """A pod of `owner`; without a name, the server generates one from the owner's."""
    given = template.get("metadata") or {}
    metadata: Manifest = {
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [owner_reference(owner)],
    }
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    for part in ("labels", "annotations"):
        if given.get(part):
            metadata[part] = dict(given[part])
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    spec = orjson.loads(orjson.dumps(template.get("spec") or {}))
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec}


def selector_of(owner: Manifest) -> LabelSelector:
    """The pods a workload claims."""
    return from_object(owner["spec"].get("selector"))


def phase(pod: Manifest) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_active(pod: Manifest) -> bool:
    """Whether the pod still counts as one of its owner's replicas."""
    return not has_ended(pod) and not is_deleting(pod)


def is_ready(pod: Manifest) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def available_at(pod: Manifest, min_ready_seconds: int) -> float:
    """The wall time from which a ready pod counts as available; infinity while it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return float("inf")
    since = condition.get("lastTransitionTime")
    return (parse_timestamp(since) if since else 0.0) + min_ready_seconds


def min_ready(owner: Manifest) -> int:
    return int(owner["spec"].get("minReadySeconds", 0))


def is_available(owner: Manifest, pod: Manifest, now: Instant) -> bool:
    return available_at(pod, min_ready(owner)) <= now.wall


def count_available(
    pods: Iterable[Manifest], min_ready_seconds: int, now: Instant
) -> tuple[int, float | None]:
    """How many pods are available now, and in how many seconds the next ready one will be."""
    available, soonest = 0, float("inf")
    for pod in pods:
        moment = available_at(pod, min_ready_seconds)
        if moment <= now.wall:
            available += 1
        else:
            soonest = min(soonest, moment)
    return available, None if soonest == float("inf") else max(soonest - now.wall, 0.01)


def by_dispensability(pods: Iterable[Manifest]) -> list[Manifest]:
    """Sorts pods to delete first: unbound, not running, not ready, most restarts, youngest."""
    return sorted(pods, key=_worth)


def _worth(pod: Manifest) -> tuple[Any, ...]:
    restarts = sum(c.get("restartCount", 0) for c in (pod.get("status") or {}).get("containerStatuses") or ())
    created = pod["metadata"].get("creationTimestamp")
    age = -parse_timestamp(created) if created else 0.0
    running = {"Pending": 0, "Unknown": 1}.get(phase(pod), 2)
    return (
        bool(pod["spec"].get("nodeName")),
        running,
        is_ready(pod),
        -restarts,
        age,
        pod["metadata"].get("name", ""),
    )


def is_orphan(manifest: Manifest) -> bool:
    """Whether an object has no controller, so that a matching owner may adopt it."""
    return controller_of(manifest) is None and not is_deleting(manifest)


def claims(owner: Manifest, pod: Manifest) -> bool:
    """Whether the owner's selector matches the pod."""
    return selector_of(owner).matches(labels_of(pod))


def fingerprint(value: Any) -> str:
    """A short stable hash of a value, of letters that spell no words."""
    digest = int.from_bytes(
        hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()[:8], "big"
    )
    letters = []
    for _ in range(10):
        digest, place = divmod(digest, len(SAFE))
        letters.append(SAFE[place])
    return "".join(letters)


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """An int-or-percent such as `maxSurge` against a number of replicas."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(str(value).rstrip("%"))
    return -(-total * percent // 100) if round_up else total * percent // 100


def with_condition(
    conditions: Iterable[Mapping[str, Any]], kind: str, status: str, reason: str, message: str, now: Instant
) -> list[Manifest]:
    """Conditions with one of them set; its transition time changes only with its status."""
    kept = [dict(condition) for condition in conditions if condition.get("type") != kind]
    before = next((condition for condition in conditions if condition.get("type") == kind), None)
    same = before is not None and before.get("status") == status
    since = before.get("lastTransitionTime") if before is not None and same else None
    transition = since or now.timestamp()
    unchanged = (
        before is not None and same and before.get("reason") == reason and before.get("message") == message
    )
    update = (
        before.get("lastUpdateTime", now.timestamp()) if before is not None and unchanged else now.timestamp()
    )
    entry = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": transition,
        "lastUpdateTime": update,
    }
    return [*kept, entry]


def present_counts(owner: Manifest, counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of a status that are not zero, or were written before."""
    before = owner.get("status") or {}
    return {name: count for name, count in counts.items() if count or before.get(name) is not None}


def status_patch(kind: Kind, owner: Manifest, status: Manifest) -> list[Operation]:
    """The patch that writes a status, if it changes anything."""
    if not _would_change(owner.get("status") or {}, status):
        return []
    return [Patch(kind, key_of(owner), {"status": status}, "status")]


def _would_change(current: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Whether a merge patch would change anything."""
    for name, value in patch.items():
        before = current.get(name)
        if isinstance(value, dict):
            if (before is None and value) or _would_change(before if isinstance(before, dict) else {}, value):
                return True
        elif value != before:
            return True
    return False
