"""CronJob controller (batch.volcano.sh): creates a Job at every due time of a schedule, as Kubernetes'
CronJobs do."""

from collections.abc import Mapping

from volcano.controllers.scheduled_jobs import SOURCE, CronJobEvents, EventText, ScheduledJobs
from volcano.kube.controller import Watch
from volcano.kube.kinds import CRON_JOB, JOB
from volcano.kube.manifest import Manifest, is_deleting, user_annotation

FINISHED = ("Completed", "Failed", "Terminated")
EVENTS = CronJobEvents(
    rejected=EventText("FailedCreate", "Error creating job: {message}"),
    namespace_terminating=EventText("NamespaceTerminating", "Error creating job: {message}"),
    job_gone=EventText("StaleReference", "Active job {name} is gone"),
    job_ended=EventText("SawCompletedJob", "Saw completed job: {name}, status: {ending}", warning=False),
    invalid_time_zone=EventText("InvalidTimeZone", "{error}"),
    invalid_schedule=EventText("UnParseableCronJobSchedule", "{error}"),
    zone_in_schedule=EventText(
        "UnsupportedSchedule",
        "a time zone within the schedule is not supported officially; use spec.timeZone",
    ),
    never_due=EventText("InvalidSchedule", "schedule {schedule!r} is never due"),
    missed_many=EventText(
        "TooManyMissedTimes",
        "too many missed start times, only the most recent one is run; set startingDeadlineSeconds",
    ),
    run_forbidden=EventText("ForbidConcurrent", "{text}"),
    jobs_replaced=EventText("ReplaceConcurrent", "Replacing {names}: a new run is due"),
    foreign_job=EventText("ForeignJob", "Job {name} exists and is not ours; this run is skipped"),
)


class CronJobController(ScheduledJobs):
    """CronJobs of Volcano."""

    name = SOURCE
    watches = (Watch(CRON_JOB), Watch(JOB))
    kind, job_kind, owns = CRON_JOB, JOB, (JOB,)
    scheduled = "volcano.sh/cronjob-scheduled-timestamp"
    history = (("Completed", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1))
    events = EVENTS

    def ending(self, job: Manifest) -> str | None:
        phase = str(_state(job).get("phase", ""))
        return phase if phase in FINISHED else None

    def completion_time(self, job: Manifest) -> str:
        return str(_state(job).get("lastTransitionTime") or "")

    def is_active(self, job: Manifest) -> bool:
        return super().is_active(job) and not is_deleting(job)

    def age(self, job: Manifest) -> tuple[str, str]:
        return job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"]

    def annotations(self, cron_job: Manifest) -> Mapping[str, str]:
        return user_annotation(cron_job)


def _state(job: Manifest) -> Mapping[str, str]:
    return (job.get("status") or {}).get("state") or {}
