"""Which notifications a job needs, and their content as CloudEvents 1.0."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from volcano.clock import parse_timestamp, timestamp
from volcano.kube import names
from volcano.kube.manifest import Key, Manifest, annotations_of, key_of, uid_of
from volcano.model.annotations.notify import NotificationType, Subscription

TYPE_PREFIX = "sh.volcano.job."
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
# Transitions longer ago are not notified of: a queue that gets a default target has many finished jobs.
OLDEST = 86400.0
MOST_PODS = 20  # that are named
PHASES = {
    "Running": NotificationType.RUNNING,
    "Completed": NotificationType.COMPLETED,
    "Failed": NotificationType.FAILED,
}


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification. Its `id` is the same whenever it is sent for the same transition."""

    job: Key
    job_uid: str
    type: NotificationType
    transition: str  # time of the transition, as it is recorded in the annotation
    subscription: Subscription
    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        return f"{self.job_uid}.{self.type.lower()}.{self.transition}"

    def body(self, source: str) -> bytes:
        """The CloudEvent in the structured JSON format."""
        event = {
            "specversion": "1.0",
            "id": self.id,
            "source": f"{source}/namespaces/{self.job.namespace}/jobs/{self.job.name}",
            "type": f"{TYPE_PREFIX}{self.type.lower()}",
            "subject": f"{self.job.namespace}/{self.job.name}",
            "time": self.transition,
            "datacontenttype": "application/json",
            "data": self.data,
        }
        return orjson.dumps(event)


def last_transition(job: Manifest) -> str:
    """When the job's phase changed last; its creation at first."""
    state = (job.get("status") or {}).get("state") or {}
    return str(state.get("lastTransitionTime") or job["metadata"].get("creationTimestamp", ""))


def _is_pending(job: Manifest) -> bool:
    return (((job.get("status") or {}).get("state") or {}).get("phase") or "Pending") == "Pending"


def transitions(
    job: Manifest, evictions: Iterable[str], wanted: Subscription, now: float
) -> list[tuple[NotificationType, str]]:
    """Types of notifications that the job's state asks for, with the times of their transitions, in order of time."""
    candidates = [
        (PHASES[condition["status"]], str(condition.get("lastTransitionTime") or ""))
        for condition in (job.get("status") or {}).get("conditions") or ()
        if condition.get("status") in PHASES
    ]
    candidates += [(NotificationType.EVICTED, transition) for transition in evictions]
    since = last_transition(job)
    if _is_pending(job) and since and now - parse_timestamp(since) >= wanted.pending_after:
        candidates.append(
            (NotificationType.PENDING, timestamp(parse_timestamp(since) + wanted.pending_after))
        )
    wished = [candidate for candidate in candidates if candidate[0] in wanted.types and candidate[1]]
    return sorted(wished, key=lambda candidate: parse_timestamp(candidate[1]))


def pending_due(job: Manifest, wanted: Subscription, now: float) -> float | None:
    """Seconds until a job has waited so long that a notification is due; None if it does not wait."""
    since = last_transition(job)
    if not _is_pending(job) or not since:
        return None
    left = parse_timestamp(since) + wanted.pending_after - now
    return left if left > 0 else None


def new_notifications(
    job: Manifest, evictions: Mapping[str, tuple[str, ...]], wanted: Subscription, now: float
) -> list[Notification]:
    """Notifications that were not handled yet, in order of time. `evictions` are names of pods by transition."""
    handled = notified(job)
    return [
        Notification(
            key_of(job),
            uid_of(job),
            kind,
            transition,
            wanted,
            _data(job, kind, evictions.get(transition, ())),
        )
        for kind, transition in transitions(job, evictions, wanted, now)
        if handled.get(kind, "") != transition and now - parse_timestamp(transition) < OLDEST
    ]


def notified(job: Manifest) -> dict[str, str]:
    """Transitions that were handled, by type; none if the annotation is malformed."""
    try:
        handled = json.loads(annotations_of(job).get(names.NOTIFIED, "{}"))
    except ValueError:
        return {}
    return {str(kind): str(value) for kind, value in handled.items()} if isinstance(handled, dict) else {}


def _data(job: Manifest, kind: NotificationType, evicted: tuple[str, ...]) -> dict[str, Any]:
    metadata, status, spec = job["metadata"], job.get("status") or {}, job.get("spec") or {}
    state = status.get("state") or {}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": uid_of(job),
        "queue": spec.get("queue") or names.DEFAULT_QUEUE,
        "user": annotations_of(job).get(names.USER, ""),
        "phase": state.get("phase") or "Pending",
        "reason": state.get("reason", ""),
        "message": state.get("message", ""),
        "retryCount": status.get("retryCount", 0),
        "minAvailable": spec.get("minAvailable", 0),
        "pods": {
            name: status.get(name, 0) for name in ("pending", "running", "succeeded", "failed", "terminating")
        },
        **(
            {"evictedPods": list(evicted[:MOST_PODS]), "evictedPodCount": len(evicted)}
            if kind is NotificationType.EVICTED
            else {}
        ),
    }
