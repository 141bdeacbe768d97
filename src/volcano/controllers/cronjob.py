"""CronJob controller (batch.volcano.sh): creates a Job at every due time of a schedule, as Kubernetes'
CronJobs do."""

from collections.abc import Hashable, Iterable
from datetime import datetime, tzinfo

from volcano.clock import Instant, timestamp
from volcano.controllers.events import OnceRecorder
from volcano.controllers.schedule import MANY_MISSED, Due, find_due, in_zone, read_schedule
from volcano.kube.client import Event, Options
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch, WorkResult
from volcano.kube.kinds import CRON_JOB, JOB
from volcano.kube.manifest import (
    Key,
    Manifest,
    controller_of,
    is_deleting,
    key_of,
    owner_reference,
    uid_of,
    user_annotation,
)
from volcano.kube.operations import Create, Delete, Operation, Patch

SCHEDULED = "volcano.sh/cronjob-scheduled-timestamp"
FINISHED = ("Completed", "Failed", "Terminated")
MARGIN = 0.1  # seconds after the due time, so that it has certainly passed
SOURCE = "cronjob-controller"


class CronJobController(Reconciler):
    """Starts only the most recent due run, and keeps the history within its limits."""

    name = SOURCE
    watches = (Watch(CRON_JOB), Watch(JOB))

    def __init__(self) -> None:
        super().__init__()
        self._recorder = OnceRecorder(SOURCE)
        self._rejections: dict[Key, str] = {}
        self.indexer.add_controller_index(JOB)

    def keys(self, event: Event) -> Iterable[Hashable]:
        if event.kind == CRON_JOB:
            return (key_of(event.object),)
        owner = controller_of(event.object)
        if (
            owner is None
            or owner["kind"] != CRON_JOB.kind
            or not owner["apiVersion"].startswith(CRON_JOB.group)
        ):
            return ()
        return (Key(event.object["metadata"]["namespace"], owner["name"]),)

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        cron_job = self.indexer.get(CRON_JOB, key)
        if cron_job is None or is_deleting(cron_job):
            self._rejections.pop(key, None)
            return NOTHING
        jobs = self.indexer.owned(JOB, cron_job)
        active = [job for job in jobs if _phase(job) not in FINISHED and not is_deleting(job)]
        operations: list[Operation] = [
            *self._rejection_event(cron_job, now),
            *self._departure_events(cron_job, active, now),
        ]
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        again: float | None = None
        if not cron_job["spec"].get("suspend"):
            started, last, again = self._start(cron_job, active, last, now)
            operations += started
        operations += _report(cron_job, jobs, active, last)
        # Deleted last: the outcome of a job is written to the status first.
        operations += _prune(cron_job, jobs, self._recorder, now)
        return Plan(operations, again)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        if done.error is not None and isinstance(done.work.key, Key):
            rejected = done.work.operations[len(done.results)]
            if isinstance(rejected, Create) and rejected.kind == JOB:
                self._rejections[done.work.key] = done.error.message
                cron_job = self.indexer.get(CRON_JOB, done.work.key)
                if cron_job is not None:
                    self._recorder.forget(cron_job, "SuccessfulCreate", _created(rejected.key.name))
        super().on_result(done, now)

    def _rejection_event(self, cron_job: Manifest, now: Instant) -> Iterable[Operation]:
        """The event about a rejected job."""
        text = self._rejections.pop(key_of(cron_job), "")
        if text:
            reason = "NamespaceTerminating" if "being terminated" in text else "FailedCreate"
            text = f"Error creating job: {text}"
            yield from self._recorder.once(cron_job, CRON_JOB, reason, text, now, warning=True)

    def _departure_events(
        self, cron_job: Manifest, active: list[Manifest], now: Instant
    ) -> Iterable[Operation]:
        """Events about jobs that are no longer active."""
        still = {uid_of(job) for job in active}
        for reference in (cron_job.get("status") or {}).get("active") or ():
            if reference.get("uid") in still:
                continue
            name = reference.get("name", "")
            job = self.indexer.get(JOB, Key(key_of(cron_job).namespace, name))
            if job is not None and uid_of(job) == reference.get("uid"):
                if _phase(job) in FINISHED:
                    text = f"Saw completed job: {name}, status: {_phase(job)}"
                    yield from self._recorder.once(cron_job, CRON_JOB, "SawCompletedJob", text, now)
            else:
                text = f"Active job {name} is gone"
                yield from self._recorder.once(cron_job, CRON_JOB, "StaleReference", text, now, warning=True)

    def _start(
        self, cron_job: Manifest, active: list[Manifest], last: str | None, now: Instant
    ) -> tuple[list[Operation], str | None, float | None]:
        """The writes that start a due run, the new lastScheduleTime, and the seconds until the next run."""
        try:
            schedule, zone = read_schedule(cron_job)
        except ValueError as error:
            reason = "UnParseableCronJobSchedule" if "timeZone" not in str(error) else "InvalidTimeZone"
            return self._record_event(cron_job, reason, str(error), now), last, None
        due = find_due(cron_job, schedule, zone, now)
        wait = max(due.next.timestamp() + MARGIN - now.wall, MARGIN) if due.next else None
        notes = self._schedule_warnings(cron_job, due, now)
        if due.at is None:
            return notes, last, wait
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        job = _job(cron_job, due.at, zone)
        others = [other for other in active if key_of(other) != key_of(job)]
        if policy == "Forbid" and others and len(others) == len(active):
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            # Named by its time, so that each skipped run is recorded once.
            text += f" ({timestamp(due.at.timestamp())})"
            return [*notes, *self._record_event(cron_job, "ForbidConcurrent", text, now)], last, wait
        operations: list[Operation] = []
        if policy == "Replace" and others:
            text = f"Replacing {', '.join(key_of(other).name for other in others)}: a new run is due"
            notes += self._record_event(cron_job, "ReplaceConcurrent", text, now)
            operations += [_removal(other) for other in others]
        operations += self._make(cron_job, job, now)
        return [*operations, *notes], timestamp(due.at.timestamp()), wait

    def _make(self, cron_job: Manifest, job: Manifest, now: Instant) -> Iterable[Operation]:
        """Creates the job of a run unless it exists: created before a restart, or by another owner."""
        existing, name = self.indexer.get(JOB, key_of(job)), key_of(job).name
        owner = controller_of(existing) if existing else None
        if existing is None:
            yield Create(JOB, job)
            yield from self._recorder.once(cron_job, CRON_JOB, "SuccessfulCreate", _created(name), now)
        elif owner is None or owner["uid"] != uid_of(cron_job):
            text = f"Job {name} exists and is not ours; this run is skipped"
            yield from self._record_event(cron_job, "ForeignJob", text, now)

    def _schedule_warnings(self, cron_job: Manifest, due: Due, now: Instant) -> list[Operation]:
        """Warnings about a schedule that is valid nevertheless."""
        events: list[Operation] = []
        if "TZ" in cron_job["spec"]["schedule"]:
            text = "a time zone within the schedule is not supported officially; use spec.timeZone"
            events += self._record_event(cron_job, "UnsupportedSchedule", text, now)
        if due.at is None and due.next is None:
            text = f"schedule {cron_job['spec']['schedule']!r} is never due"
            events += self._record_event(cron_job, "InvalidSchedule", text, now)
        if due.at is not None and due.missed > MANY_MISSED:
            text = "too many missed start times, only the most recent one is run; set startingDeadlineSeconds"
            events += self._record_event(cron_job, "TooManyMissedTimes", text, now)
        return events

    def _record_event(self, cron_job: Manifest, reason: str, text: str, now: Instant) -> list[Operation]:
        return [*self._recorder.once(cron_job, CRON_JOB, reason, text, now, warning=True)]


def _job(cron_job: Manifest, at: datetime, zone: tzinfo) -> Manifest:
    template = cron_job["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    key = key_of(cron_job)
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": f"{key.name}-{int(at.timestamp()) // 60}",
            "namespace": key.namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {
                **user_annotation(cron_job),
                **(given.get("annotations") or {}),
                SCHEDULED: in_zone(at, zone),
            },
            "ownerReferences": [owner_reference(cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def _created(job: str) -> str:
    return f"Created job {job}"


def _removal(job: Manifest) -> Delete:
    return Delete(JOB, key_of(job), Options(propagation="Background", uid=uid_of(job)), if_present=True)


def _prune(
    cron_job: Manifest, jobs: list[Manifest], notes: OnceRecorder, now: Instant
) -> Iterable[Operation]:
    """Deletes the oldest finished jobs beyond the history limits."""
    limits = (("Completed", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1))
    for phase, field, default in limits:
        given = cron_job["spec"].get(field)
        limit = default if given is None else given
        done = sorted((job for job in jobs if _phase(job) == phase and not is_deleting(job)), key=_age)
        for job in done[: max(len(done) - int(limit), 0)]:
            yield _removal(job)
            text = f"Deleted job {key_of(job).name}"
            yield from notes.once(cron_job, CRON_JOB, "SuccessfulDelete", text, now)


def _report(
    cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], last: str | None
) -> Iterable[Operation]:
    references = [
        {
            "apiVersion": JOB.api_version,
            "kind": JOB.kind,
            "namespace": key_of(job).namespace,
            "name": key_of(job).name,
            "uid": uid_of(job),
        }
        for job in sorted(active, key=_age)
    ]
    known = cron_job.get("status") or {}
    status: Manifest = {"active": references}
    if last:
        status["lastScheduleTime"] = last
    successes = [_transition(job) for job in jobs if _phase(job) == "Completed"]
    newest = max([*filter(None, successes), known.get("lastSuccessfulTime") or ""])
    if newest:
        status["lastSuccessfulTime"] = newest
    if any(
        (known.get(part) or []) != value if part == "active" else known.get(part) != value
        for part, value in status.items()
    ):
        yield Patch(CRON_JOB, key_of(cron_job), {"status": status}, "status")


def _phase(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))


def _transition(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("lastTransitionTime") or "")


def _age(job: Manifest) -> tuple[str, str]:
    return job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"]
