"""batch/v1 CronJob controller: creates a Job at every due time of a schedule and keeps the last ones."""

from collections.abc import Hashable, Iterable
from datetime import datetime, tzinfo

from volcano.clock import Instant, timestamp
from volcano.controllers.events import OnceRecorder
from volcano.controllers.schedule import MANY_MISSED, Due, find_due, in_zone, read_schedule
from volcano.kube.client import Event, Options
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch, WorkResult
from volcano.kube.kinds import BATCH_CRON_JOB, BATCH_JOB
from volcano.kube.manifest import (
    Key,
    Manifest,
    condition_of,
    controller_of,
    is_deleting,
    key_of,
    owner_reference,
    uid_of,
)
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.kube.patches.patch import merge_diff

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
SOURCE = "cronjob-controller"
MARGIN = 0.1  # seconds after the due time, so that it has certainly passed


class BatchCronJobController(Reconciler):
    """Starts only the most recent due run, and keeps the finished Jobs within the history limits."""

    name = "cronjob"
    watches = (Watch(BATCH_CRON_JOB), Watch(BATCH_JOB))

    def __init__(self) -> None:
        super().__init__()
        self._recorder = OnceRecorder(SOURCE)
        self._rejections: dict[Key, str] = {}
        self.indexer.add_controller_index(BATCH_JOB)

    def keys(self, event: Event) -> Iterable[Hashable]:
        if event.kind == BATCH_CRON_JOB:
            return (key_of(event.object),)
        owner = controller_of(event.object)
        if owner is None or (owner["apiVersion"], owner["kind"]) != (
            BATCH_CRON_JOB.api_version,
            BATCH_CRON_JOB.kind,
        ):
            return ()
        return (Key(event.object["metadata"]["namespace"], owner["name"]),)

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        cron_job = self.indexer.get(BATCH_CRON_JOB, key)
        if cron_job is None or is_deleting(cron_job):
            self._rejections.pop(key, None)
            return NOTHING
        jobs = self.indexer.owned(BATCH_JOB, cron_job)
        active = [job for job in jobs if _ending(job) is None]
        operations = [*self._rejection_event(cron_job, now), *self._active_events(cron_job, jobs, now)]
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        wait: float | None = None
        if not cron_job["spec"].get("suspend"):
            started, last, wait = self._start(cron_job, active, last, now)
            operations += started
        operations += _status(cron_job, jobs, active, last)
        # Deleted last: the outcome of a job is written to the status first.
        operations += self._prune(cron_job, jobs, now)
        return Plan(operations, wait)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        if done.error is not None and isinstance(done.work.key, Key):
            rejected = done.work.operations[len(done.results)]
            if isinstance(rejected, Create) and rejected.kind == BATCH_JOB:
                self._rejections[done.work.key] = done.error.message
        super().on_result(done, now)

    def _start(
        self, cron_job: Manifest, active: list[Manifest], last: str | None, now: Instant
    ) -> tuple[list[Operation], str | None, float | None]:
        """The writes that start a due run, the new lastScheduleTime, and the seconds until the next run."""
        try:
            schedule, zone = read_schedule(cron_job)
        except ValueError as error:
            if "timeZone" in str(error):
                return self._warn(cron_job, "UnknownTimeZone", str(error), now), last, None
            text = f"unparseable schedule: {cron_job['spec'].get('schedule')!r} : {error}"
            return self._warn(cron_job, "UnparseableSchedule", text, now), last, None
        due = find_due(cron_job, schedule, zone, now)
        wait = max(due.next.timestamp() + MARGIN - now.wall, MARGIN) if due.next else None
        events = self._schedule_warnings(cron_job, due, now)
        if due.at is None:
            return events, last, wait
        job = _job(cron_job, due.at, zone)
        others = [other for other in active if key_of(other) != key_of(job)]
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and others:
            # The occasion distinguishes skipped runs; the run is tried again when the active one has ended.
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            events += self._record(
                cron_job, "JobAlreadyActive", f"{text} ({timestamp(due.at.timestamp())})", now
            )
            return events, last, wait
        operations: list[Operation] = []
        if policy == "Replace":
            for other in others:
                if not is_deleting(other):
                    operations += [_removal(other), *self._deleted(cron_job, other, now)]
        operations += self._create(cron_job, job, now)
        return [*operations, *events], timestamp(due.at.timestamp()), wait

    def _create(self, cron_job: Manifest, job: Manifest, now: Instant) -> Iterable[Operation]:
        """Creates the job of a run; one that exists was created before a restart, or belongs to another owner."""
        existing, name = self.indexer.get(BATCH_JOB, key_of(job)), key_of(job).name
        owner = controller_of(existing) if existing else None
        if existing is None:
            yield Create(BATCH_JOB, job)
            yield from self._record(cron_job, "SuccessfulCreate", f"Created job {name}", now)
        elif owner is None or owner["uid"] != uid_of(cron_job):
            text = f"Error creating job: job {name} exists and has another owner"
            yield from self._warn(cron_job, "FailedCreate", text, now)

    def _prune(self, cron_job: Manifest, jobs: list[Manifest], now: Instant) -> Iterable[Operation]:
        """Deletes the oldest finished jobs beyond the history limits."""
        for ending, limit in (
            ("Complete", cron_job["spec"].get("successfulJobsHistoryLimit")),
            ("Failed", cron_job["spec"].get("failedJobsHistoryLimit")),
        ):
            if limit is None:
                continue
            ended = sorted((job for job in jobs if _ending(job) == ending and not is_deleting(job)), key=_age)
            for job in ended[: max(len(ended) - int(limit), 0)]:
                yield _removal(job)
                yield from self._deleted(cron_job, job, now)

    def _active_events(self, cron_job: Manifest, jobs: list[Manifest], now: Instant) -> list[Operation]:
        """Events about jobs that are no longer active."""
        by_uid = {uid_of(job): job for job in jobs}
        events: list[Operation] = []
        for reference in (cron_job.get("status") or {}).get("active") or ():
            job, name = by_uid.get(reference.get("uid", "")), reference.get("name", "")
            if job is None:
                events += self._record(cron_job, "MissingJob", f"Active job went missing: {name}", now)
            elif (ending := _ending(job)) is not None:
                text = f"Saw completed job: {name}, condition: {ending}"
                events += self._record(cron_job, "SawCompletedJob", text, now)
        return events

    def _rejection_event(self, cron_job: Manifest, now: Instant) -> list[Operation]:
        """The event about a rejected job; in a namespace that is being deleted, none."""
        text = self._rejections.pop(key_of(cron_job), "")
        if not text or "being terminated" in text:
            return []
        return self._warn(cron_job, "FailedCreate", f"Error creating job: {text}", now)

    def _schedule_warnings(self, cron_job: Manifest, due: Due, now: Instant) -> list[Operation]:
        events: list[Operation] = []
        schedule = cron_job["spec"]["schedule"]
        if "TZ" in schedule:
            text = (
                f"CRON_TZ or TZ used in schedule {schedule!r} is not officially supported, see spec.timeZone"
            )
            events += self._warn(cron_job, "UnsupportedSchedule", text, now)
        if due.at is None and due.next is None:
            text = f"invalid schedule: {schedule} : it is never due"
            events += self._warn(cron_job, "InvalidSchedule", text, now)
        if due.at is not None and due.missed > MANY_MISSED:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            events += self._warn(cron_job, "TooManyMissedTimes", text, now)
        return events

    def _deleted(self, cron_job: Manifest, job: Manifest, now: Instant) -> list[Operation]:
        return self._record(cron_job, "SuccessfulDelete", f"Deleted job {key_of(job).name}", now)

    def _warn(self, cron_job: Manifest, reason: str, text: str, now: Instant) -> list[Operation]:
        return [*self._recorder.once(cron_job, BATCH_CRON_JOB, reason, text, now, warning=True)]

    def _record(self, cron_job: Manifest, reason: str, text: str, now: Instant) -> list[Operation]:
        return [*self._recorder.once(cron_job, BATCH_CRON_JOB, reason, text, now)]


def _job(cron_job: Manifest, at: datetime, zone: tzinfo) -> Manifest:
    template = cron_job["spec"]["jobTemplate"]
    given, key = template.get("metadata") or {}, key_of(cron_job)
    return {
        "apiVersion": BATCH_JOB.api_version,
        "kind": BATCH_JOB.kind,
        "metadata": {
            "name": f"{key.name}-{int(at.timestamp()) // 60}",
            "namespace": key.namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), SCHEDULED: in_zone(at, zone)},
            "ownerReferences": [owner_reference(cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def _status(
    cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], last: str | None
) -> Iterable[Operation]:
    known = cron_job.get("status") or {}
    status: Manifest = {}
    if active:
        status["active"] = [_reference(job) for job in sorted(active, key=_age)]
    if last:
        status["lastScheduleTime"] = last
    done = [str(job["status"].get("completionTime") or "") for job in jobs if _ending(job) == "Complete"]
    newest = max([*done, known.get("lastSuccessfulTime") or ""])
    if newest:
        status["lastSuccessfulTime"] = newest
    change = merge_diff(known, status)
    if change:
        yield Patch(BATCH_CRON_JOB, key_of(cron_job), {"status": change}, "status")


def _reference(job: Manifest) -> Manifest:
    metadata = job["metadata"]
    return {
        "apiVersion": BATCH_JOB.api_version,
        "kind": BATCH_JOB.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _ending(job: Manifest) -> str | None:
    """The final condition of a job; None while it is not finished."""
    for kind in ("Complete", "Failed"):
        if (condition_of(job, kind) or {}).get("status") == "True":
            return kind
    return None


def _removal(job: Manifest) -> Delete:
    options = Options(propagation="Background", uid=uid_of(job))
    return Delete(BATCH_JOB, key_of(job), options, if_present=True)


def _age(job: Manifest) -> tuple[str, str]:
    return (job.get("status") or {}).get("startTime") or "", job["metadata"]["name"]
