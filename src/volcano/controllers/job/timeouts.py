"""Timeouts of policies, and the TTL of finished jobs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from volcano.base.clock import Instant, parse_timestamp
from volcano.controllers.expiry import TimesToLive, is_ahead
from volcano.controllers.job.objects import job_event
from volcano.controllers.job.policies import Trigger
from volcano.controllers.job.spec import Job
from volcano.controllers.job.status import Status
from volcano.controllers.job.types import FINISHED
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.operations import Concurrent, Delete, Operation
from volcano.kube.client.protocol import Options


@dataclass(frozen=True, slots=True)
class TriggersByTime:
    """Triggers that are due, triggers that have just started to wait, and the seconds until the next is due."""

    due: list[Trigger]
    new: list[Trigger]
    wait: float | None


@dataclass(slots=True)
class PolicyTimers:
    """When each occurrence was first seen. Occurrences that have ended are dropped with their timeouts."""

    started: dict[str, float] = field(default_factory=dict)

    def sort(self, triggers: Iterable[Trigger], now: Instant) -> TriggersByTime:
        due: list[Trigger] = []
        new: list[Trigger] = []
        waits: list[float] = []
        running: dict[str, float] = {}
        for trigger in triggers:
            if not trigger.delay:
                due.append(trigger)
                continue
            if trigger.subject not in self.started:
                new.append(trigger)
            seen = self.started.get(trigger.subject, now.wall)
            running[trigger.subject] = min(seen, trigger.stamp or seen)
            left = running[trigger.subject] + trigger.delay - now.wall
            if left <= 0:
                due.append(trigger)
            else:
                waits.append(left)
        self.started = running
        return TriggersByTime(due, new, min(waits, default=None))


def ttl_left(job: Job, status: Status, times: TimesToLive, now: Instant) -> float | None:
    """Seconds until a finished job expires; None when it is not finished or has no TTL."""
    if job.ttl is None or status.phase not in FINISHED or not status.since:
        return None
    return times.left(job.uid, parse_timestamp(status.since), job.ttl, now)


def time_ahead(job: Job, manifest: Manifest, status: Status, now: Instant) -> list[Operation | Concurrent]:
    """The event about the end of a job that is ahead of the clock, if it is."""
    if job.ttl is None or not status.since or not is_ahead(parse_timestamp(status.since), now):
        return []
    text = f"the job ended at {status.since}, ahead of the clock, which was set back: its time to live starts now"
    return [job_event(manifest, "TimeAhead", text, now, warning=True)]


def delete_expired(job: Job, manifest: Manifest) -> Delete:
    """Deletes an expired job with its objects, if it has not changed."""
    version = manifest["metadata"].get("resourceVersion", "")
    options = Options(uid=job.uid, resource_version=version, propagation="Foreground")
    return Delete(JOB, job.key, options, if_present=True)
