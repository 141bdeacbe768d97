"""CronJob controller (batch.volcano.sh): creates a Job at every due time of a schedule, as Kubernetes'
CronJobs do."""

from collections.abc import Iterable, Mapping

from volcano.base.clock import Instant
from volcano.controllers.schedule import Due
from volcano.controllers.scheduled_jobs import SOURCE, ScheduledJobs, has_missed_many, is_never_due
from volcano.kube.api.kinds import CRON_JOB, JOB
from volcano.kube.api.manifest import Manifest, is_deleting, key_of, user_annotation
from volcano.kube.client.operations import Operation, Patch
from volcano.kube.client.protocol import Watch

FINISHED = ("Completed", "Failed", "Terminated")


class CronJobController(ScheduledJobs):
    """CronJobs of Volcano."""

    name = SOURCE
    watches = (Watch(CRON_JOB), Watch(JOB))
    kind, job_kind = CRON_JOB, JOB
    scheduled = "volcano.sh/cronjob-scheduled-timestamp"
    history = (("Completed", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1))

    def ending(self, job: Manifest) -> str | None:
        phase = str(_state(job).get("phase", ""))
        return phase if phase in FINISHED else None

    def is_active(self, job: Manifest) -> bool:
        return super().is_active(job) and not is_deleting(job)

    def age(self, job: Manifest) -> tuple[str, str]:
        return job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"]

    def annotations(self, cron_job: Manifest) -> Mapping[str, str]:
        return user_annotation(cron_job)

    def rejected(self, cron_job: Manifest, message: str, now: Instant) -> Iterable[Operation]:
        text = f"Error creating job: {message}"
        if "being terminated" in message:
            return self._warning(cron_job, "NamespaceTerminating", text, now)
        return self._warning(cron_job, "FailedCreate", text, now)

    def departed(
        self, cron_job: Manifest, name: str, job: Manifest | None, now: Instant
    ) -> Iterable[Operation]:
        if job is None:
            return self._warning(cron_job, "StaleReference", f"Active job {name} is gone", now)
        ending = self.ending(job)
        if ending is None:  # it is being deleted
            return ()
        text = f"Saw completed job: {name}, status: {ending}"
        return self._normal(cron_job, "SawCompletedJob", text, now)

    def unreadable(self, cron_job: Manifest, error: ValueError, now: Instant) -> Iterable[Operation]:
        if "timeZone" in str(error):
            return self._warning(cron_job, "InvalidTimeZone", str(error), now)
        return self._warning(cron_job, "UnParseableCronJobSchedule", str(error), now)

    def questionable(self, cron_job: Manifest, due: Due, now: Instant) -> Iterable[Operation]:
        schedule = cron_job["spec"]["schedule"]
        if "TZ" in schedule:
            text = "a time zone within the schedule is not supported officially; use spec.timeZone"
            yield from self._warning(cron_job, "UnsupportedSchedule", text, now)
        if is_never_due(due):
            text = f"schedule {schedule!r} is never due"
            yield from self._warning(cron_job, "InvalidSchedule", text, now)
        if has_missed_many(due):
            text = "too many missed start times, only the most recent one is run; set startingDeadlineSeconds"
            yield from self._warning(cron_job, "TooManyMissedTimes", text, now)

    def forbidden(self, cron_job: Manifest, text: str, now: Instant) -> Iterable[Operation]:
        return self._warning(cron_job, "ForbidConcurrent", text, now)

    def replaced(self, cron_job: Manifest, others: list[Manifest], now: Instant) -> Iterable[Operation]:
        text = f"Replacing {', '.join(key_of(other).name for other in others)}: a new run is due"
        yield from map(self._removal, others)
        yield from self._warning(cron_job, "ReplaceConcurrent", text, now)

    def foreign(self, cron_job: Manifest, name: str, now: Instant) -> Iterable[Operation]:
        text = f"Job {name} exists and is not ours; this run is skipped"
        return self._warning(cron_job, "ForeignJob", text, now)

    def report(
        self, cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], last: str | None
    ) -> Iterable[Operation]:
        known = cron_job.get("status") or {}
        status: Manifest = {"active": self._references(active)}
        if last:
            status["lastScheduleTime"] = last
        ended = [str(_state(job).get("lastTransitionTime") or "") for job in jobs if _is_completed(job)]
        newest = max([*ended, known.get("lastSuccessfulTime") or ""])
        if newest:
            status["lastSuccessfulTime"] = newest
        if any(
            (known.get(part) or []) != value if part == "active" else known.get(part) != value
            for part, value in status.items()
        ):
            yield Patch(CRON_JOB, key_of(cron_job), {"status": status}, "status")


def _state(job: Manifest) -> Mapping[str, str]:
    return (job.get("status") or {}).get("state") or {}


def _is_completed(job: Manifest) -> bool:
    return _state(job).get("phase") == "Completed"
