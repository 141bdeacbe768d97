"""batch/v1 CronJob controller: creates a Job at every due time of a schedule and keeps the last ones."""

from collections.abc import Iterable

from volcano.base.clock import Instant
from volcano.controllers.schedule import Due
from volcano.controllers.scheduled_jobs import ScheduledJobs, has_missed_many, is_never_due
from volcano.kube.api.kinds import BATCH_CRON_JOB, BATCH_JOB
from volcano.kube.api.manifest import Manifest, condition_of, is_deleting, key_of
from volcano.kube.client.operations import Operation, Patch
from volcano.kube.client.protocol import Watch
from volcano.kube.patches.patch import merge_diff


class BatchCronJobController(ScheduledJobs):
    """CronJobs of Kubernetes, with the reasons and texts of its events."""

    name = "cronjob"
    watches = (Watch(BATCH_CRON_JOB), Watch(BATCH_JOB))
    kind, job_kind = BATCH_CRON_JOB, BATCH_JOB
    scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    # The API server sets the limits.
    history = (("Complete", "successfulJobsHistoryLimit", None), ("Failed", "failedJobsHistoryLimit", None))

    def ending(self, job: Manifest) -> str | None:
        for kind in ("Complete", "Failed"):
            if (condition_of(job, kind) or {}).get("status") == "True":
                return kind
        return None

    def age(self, job: Manifest) -> tuple[str, str]:
        return (job.get("status") or {}).get("startTime") or "", job["metadata"]["name"]

    def rejected(self, cron_job: Manifest, message: str, now: Instant) -> Iterable[Operation]:
        if "being terminated" in message:
            return ()
        return self._warning(cron_job, "FailedCreate", f"Error creating job: {message}", now)

    def departed(
        self, cron_job: Manifest, name: str, job: Manifest | None, now: Instant
    ) -> Iterable[Operation]:
        if job is None:
            return self._normal(cron_job, "MissingJob", f"Active job went missing: {name}", now)
        text = f"Saw completed job: {name}, condition: {self.ending(job)}"
        return self._normal(cron_job, "SawCompletedJob", text, now)

    def unreadable(self, cron_job: Manifest, error: ValueError, now: Instant) -> Iterable[Operation]:
        if "timeZone" in str(error):
            return self._warning(cron_job, "UnknownTimeZone", str(error), now)
        text = f"unparseable schedule: {cron_job['spec'].get('schedule')!r} : {error}"
        return self._warning(cron_job, "UnparseableSchedule", text, now)

    def questionable(self, cron_job: Manifest, due: Due, now: Instant) -> Iterable[Operation]:
        schedule = cron_job["spec"]["schedule"]
        if "TZ" in schedule:
            text = (
                f"CRON_TZ or TZ used in schedule {schedule!r} is not officially supported, see spec.timeZone"
            )
            yield from self._warning(cron_job, "UnsupportedSchedule", text, now)
        if is_never_due(due):
            text = f"invalid schedule: {schedule} : it is never due"
            yield from self._warning(cron_job, "InvalidSchedule", text, now)
        if has_missed_many(due):
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            yield from self._warning(cron_job, "TooManyMissedTimes", text, now)

    def forbidden(self, cron_job: Manifest, text: str, now: Instant) -> Iterable[Operation]:
        return self._normal(cron_job, "JobAlreadyActive", text, now)

    def replaced(self, cron_job: Manifest, others: list[Manifest], now: Instant) -> Iterable[Operation]:
        for other in others:
            if not is_deleting(other):
                yield self._removal(other)
                yield from self._deleted(cron_job, other, now)

    def foreign(self, cron_job: Manifest, name: str, now: Instant) -> Iterable[Operation]:
        text = f"Error creating job: job {name} exists and has another owner"
        return self._warning(cron_job, "FailedCreate", text, now)

    def report(
        self, cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], last: str | None
    ) -> Iterable[Operation]:
        known = cron_job.get("status") or {}
        status: Manifest = {}
        if active:
            status["active"] = self._references(active)
        if last:
            status["lastScheduleTime"] = last
        ended = [
            str(job["status"].get("completionTime") or "") for job in jobs if self.ending(job) == "Complete"
        ]
        newest = max([*ended, known.get("lastSuccessfulTime") or ""])
        if newest:
            status["lastSuccessfulTime"] = newest
        change = merge_diff(known, status)
        if change:
            yield Patch(BATCH_CRON_JOB, key_of(cron_job), {"status": change}, "status")
