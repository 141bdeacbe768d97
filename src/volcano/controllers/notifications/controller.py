"""Notification controller: queues notifications for the transitions of jobs that were not notified of yet.

It writes nothing and sends nothing itself: `Outbox` does, in tasks of its own, and records what was handled in the
annotation `volcano.sh/notified` of the Job. A notification is sent again after a restart if that was not recorded.
"""

from collections.abc import Iterable
from typing import Protocol

from volcano.clock import Instant
from volcano.controllers.notifications.messages import (
    Notification,
    last_transition,
    new_notifications,
    pending_due,
)
from volcano.kube import names
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import JOB, POD, QUEUE
from volcano.kube.manifest import Key, Manifest, annotations_of, is_deleting, key_of, labels_of, uid_of
from volcano.model.annotations.notify import Subscription, subscription

RETRY_WHEN_FULL = 30.0  # seconds
MOST_SEEN = 10_000  # evicted pods that are remembered
MARGIN = 0.1  # seconds after a due time, so that it has certainly passed


class Outbox(Protocol):
    """Takes notifications to send."""

    def offer(self, notifications: Iterable[Notification]) -> bool:
        """Queues those that are not queued yet; false if there is no room for all."""
        ...


class NotificationController(Reconciler[Key]):
    """Follows Jobs, the pods of theirs that were evicted, and the default targets of queues."""

    name = "notification-controller"
    watches = (Watch(JOB), Watch(QUEUE), Watch(POD, labels=names.JOB_NAME))

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox
        self._seen: dict[str, None] = {}  # uids of evicted pods, oldest first
        self._fresh: dict[Key, list[str]] = {}  # names of pods evicted since their job was reconciled
        self._evictions: dict[Key, dict[str, tuple[str, ...]]] = {}  # by job and its last transition
        self.indexer.add_index(JOB, "queue", lambda job: (_queue_of(job),))

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or is_evicted(event.object)

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind == JOB:
            return (key_of(event.object),)
        if event.kind == POD:
            return self._record_eviction(event.object)
        jobs = self.indexer.by_index(JOB, "queue", key_of(event.object).name)
        return [key_of(job) for job in jobs if names.NOTIFY not in annotations_of(job)]

    def _record_eviction(self, pod: Manifest) -> Iterable[Key]:
        """Remembers a pod, which may be gone when its job is reconciled; each one counts once."""
        name = labels_of(pod).get(names.JOB_NAME)
        if not name or uid_of(pod) in self._seen:
            return ()
        if len(self._seen) >= MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[uid_of(pod)] = None
        job = Key(pod["metadata"]["namespace"], name)
        self._fresh.setdefault(job, []).append(key_of(pod).name)
        return (job,)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        job = self.indexer.get(JOB, key)
        fresh = self._fresh.pop(key, [])
        wanted = None if job is None else self._subscription(job)
        if job is None or wanted is None or is_deleting(job):
            self._evictions.pop(key, None)
            return NOTHING
        transition = last_transition(job)
        evictions = self._evictions.get(key, {})
        if fresh:
            evictions = {**evictions, transition: (*evictions.get(transition, ()), *sorted(fresh))}
        fresh_ones = new_notifications(job, evictions, wanted, now.wall)
        if fresh_ones and not self._outbox.offer(fresh_ones):
            self._evictions[key] = evictions
            return Plan(requeue_after=RETRY_WHEN_FULL)
        # Further evictions after the same transition are part of the same notification.
        self._evictions.pop(key, None)
        if transition in evictions:
            self._evictions[key] = {transition: evictions[transition]}
        due = pending_due(job, wanted, now.wall)
        return Plan(requeue_after=None if due is None else due + MARGIN)

    def _subscription(self, job: Manifest) -> Subscription | None:
        """The job's own subscription; that of its queue if it has no annotation. An empty annotation means none."""
        annotations = annotations_of(job)
        if names.NOTIFY in annotations:
            return subscription(annotations, key_of(job).namespace)
        queue = self.indexer.get(QUEUE, Key("", _queue_of(job)))
        return None if queue is None else subscription(annotations_of(queue), "")


def _queue_of(job: Manifest) -> str:
    return str((job.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE)


def is_evicted(pod: Manifest) -> bool:
    """Whether a pod was preempted or evicted, by the scheduler, the API or its kubelet."""
    status = pod.get("status") or {}
    return status.get("reason") == "Evicted" or any(
        condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
