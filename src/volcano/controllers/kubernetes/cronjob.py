"""batch/v1 CronJob controller: creates a Job at every due time of a schedule and keeps the last ones."""

from volcano.controllers.scheduled_jobs import CronJobEvents, EventText, ScheduledJobs
from volcano.kube.controller import Watch
from volcano.kube.kinds import BATCH_CRON_JOB, BATCH_JOB
from volcano.kube.manifest import Manifest, condition_of

EVENTS = CronJobEvents(
    rejected=EventText("FailedCreate", "Error creating job: {message}"),
    job_gone=EventText("MissingJob", "Active job went missing: {name}", warning=False),
    job_ended=EventText("SawCompletedJob", "Saw completed job: {name}, condition: {ending}", warning=False),
    invalid_time_zone=EventText("UnknownTimeZone", "{error}"),
    invalid_schedule=EventText("UnparseableSchedule", "unparseable schedule: {schedule!r} : {error}"),
    zone_in_schedule=EventText(
        "UnsupportedSchedule",
        "CRON_TZ or TZ used in schedule {schedule!r} is not officially supported, see spec.timeZone",
    ),
    never_due=EventText("InvalidSchedule", "invalid schedule: {schedule} : it is never due"),
    missed_many=EventText(
        "TooManyMissedTimes",
        "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
    ),
    run_forbidden=EventText("JobAlreadyActive", "{text}", warning=False),
    job_replaced=EventText("SuccessfulDelete", "Deleted job {name}", warning=False),
    foreign_job=EventText("FailedCreate", "Error creating job: job {name} exists and has another owner"),
)


class BatchCronJobController(ScheduledJobs):
    """CronJobs of Kubernetes, with the reasons and texts of its events."""

    name = "cronjob"
    watches = (Watch(BATCH_CRON_JOB), Watch(BATCH_JOB))
    kind, job_kind, owns = BATCH_CRON_JOB, BATCH_JOB, (BATCH_JOB,)
    scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    # The API server sets the limits.
    history = (("Complete", "successfulJobsHistoryLimit", None), ("Failed", "failedJobsHistoryLimit", None))
    events = EVENTS

    def ending(self, job: Manifest) -> str | None:
        for kind in ("Complete", "Failed"):
            if (condition_of(job, kind) or {}).get("status") == "True":
                return kind
        return None

    def completion_time(self, job: Manifest) -> str:
        return str(job["status"].get("completionTime") or "")

    def age(self, job: Manifest) -> tuple[str, str]:
        return (job.get("status") or {}).get("startTime") or "", job["metadata"]["name"]
