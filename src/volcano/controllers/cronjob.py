"""CronJob controller (batch.volcano.sh): a Job at every due moment of a schedule, as Kubernetes' CronJobs do."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volcano.clock import Instant, parse_timestamp, timestamp
from volcano.controllers.notes import Notebook
from volcano.kube import cron
from volcano.kube.client import Event, Options
from volcano.kube.kinds import CRON_JOB, JOB
from volcano.kube.manifest import Key, Manifest, controller_of, is_deleting, key_of, owner_reference, uid_of
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.kube.reconciler import NOTHING, Plan, Reconciler, Watch

SCHEDULED = "volcano.sh/cronjob-scheduled-timestamp"
FINISHED = ("Completed", "Failed", "Terminated")
MANY_MISSED = 100
MARGIN = 0.1  # seconds past the moment, so that it surely has come
SOURCE = "cronjob-controller"


@dataclass(frozen=True, slots=True)
class Due:
    """The run that is due, if any, how many were missed, and when the next one is."""

    at: datetime | None
    missed: int
    next: datetime | None


class CronJobController(Reconciler):
    """Starts the most recent due run, never several, and keeps the history within its limits."""

    name = SOURCE
    watches = (Watch(CRON_JOB), Watch(JOB))

    def __init__(self) -> None:
        super().__init__()
        self._notes = Notebook(SOURCE)
        self.index.by_controller(JOB)

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
        cron_job = self.index.get(CRON_JOB, key)
        if cron_job is None or is_deleting(cron_job):
            return NOTHING
        jobs = self.index.owned(JOB, cron_job)
        active = [job for job in jobs if _phase(job) not in FINISHED and not is_deleting(job)]
        operations: list[Operation] = [*_prune(cron_job, jobs, self._notes, now)]
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        again: float | None = None
        if not cron_job["spec"].get("suspend"):
            started, last, again = self._start(cron_job, active, last, now)
            operations += started
        operations += _report(cron_job, jobs, active, last)
        return Plan(operations, again)

    def _start(
        self, cron_job: Manifest, active: list[Manifest], last: str | None, now: Instant
    ) -> tuple[list[Operation], str | None, float | None]:
        """The writes that start what is due, the new lastScheduleTime, and seconds until the next look."""
        try:
            zone = _zone(cron_job)
            schedule = cron.parse(cron_job["spec"]["schedule"])
        except ValueError as error:
            reason = "UnParseableCronJobSchedule" if "timeZone" not in str(error) else "InvalidTimeZone"
            return (
                [*self._notes.once(cron_job, CRON_JOB, reason, str(error), now, warning=True)],
                last,
                None,
            )
        due = find_due(cron_job, schedule, zone, now)
        wait = due.next.timestamp() + MARGIN - now.wall if due.next else None
        wait = max(wait, MARGIN) if wait is not None else None
        if due.at is None:
            return [], last, wait
        notes: list[Operation] = []
        if due.missed > MANY_MISSED:
            text = "too many missed start times, only the most recent one is run; set startingDeadlineSeconds"
            notes += self._notes.once(cron_job, CRON_JOB, "TooManyMissedTimes", text, now, warning=True)
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            # Named by its moment, so that each skipped run is said once.
            text += f" ({timestamp(due.at.timestamp())})"
            notes += self._notes.once(cron_job, CRON_JOB, "ForbidConcurrent", text, now, warning=True)
            return notes, last, wait
        operations: list[Operation] = []
        if policy == "Replace":
            for job in active:
                options = Options(propagation="Background", uid=uid_of(job))
                operations.append(Delete(JOB, key_of(job), options, if_present=True))
        job = _job(cron_job, due.at, zone)
        existing = self.index.get(JOB, key_of(job))
        owner = controller_of(existing) if existing else None
        if existing is not None and (owner is None or owner["uid"] != uid_of(cron_job)):
            text = f"Job {key_of(job).name} exists and is not ours; this run is skipped"
            notes += self._notes.once(cron_job, CRON_JOB, "ForeignJob", text, now, warning=True)
        elif existing is None:
            operations.append(Create(JOB, job))
            text = f"Created job {key_of(job).name}"
            notes += self._notes.once(cron_job, CRON_JOB, "SuccessfulCreate", text, now)
        return [*operations, *notes], timestamp(due.at.timestamp()), wait


def find_due(cron_job: Manifest, schedule: cron.Schedule, zone: tzinfo, now: Instant) -> Due:
    """The most recent moment of the schedule that has come and has not been handled."""
    status, spec = cron_job.get("status") or {}, cron_job["spec"]
    start = parse_timestamp(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
    if spec.get("startingDeadlineSeconds") is not None:
        start = max(start, now.wall - float(spec["startingDeadlineSeconds"]))
    present = datetime.fromtimestamp(now.wall, zone)
    first = schedule.next_after(datetime.fromtimestamp(start, zone))
    if first is None or present < first:
        return Due(None, 0, first)
    second = schedule.next_after(first)
    if second is None or present < second:
        return Due(first, 0, second)
    gap = max((second - first).total_seconds(), 1.0)
    missed = int((present - first).total_seconds() // gap) + 1
    # Jump close to the present, then walk: irregular schedules need the walk, long gaps the jump.
    moment = datetime.fromtimestamp(max(first.timestamp(), now.wall - 3 * gap), zone)
    latest, candidate = first, schedule.next_after(moment)
    while candidate is not None and candidate <= present:
        latest, candidate = candidate, schedule.next_after(candidate)
    return Due(latest, missed, candidate)


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
            "annotations": {**(given.get("annotations") or {}), SCHEDULED: at.astimezone(zone).isoformat()},
            "ownerReferences": [owner_reference(cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def _prune(cron_job: Manifest, jobs: list[Manifest], notes: Notebook, now: Instant) -> Iterable[Operation]:
    """Deletes the oldest finished jobs beyond the history limits."""
    limits = (("Completed", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1))
    for phase, field, default in limits:
        limit = cron_job["spec"].get(field, default)
        done = sorted((job for job in jobs if _phase(job) == phase and not is_deleting(job)), key=_age)
        for job in done[: max(len(done) - int(limit), 0)]:
            yield Delete(
                JOB, key_of(job), Options(propagation="Background", uid=uid_of(job)), if_present=True
            )
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


def _zone(cron_job: Manifest) -> tzinfo:
    name = cron_job["spec"].get("timeZone")
    if not name or "TZ" in cron_job["spec"].get("schedule", ""):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"invalid timeZone {name!r}: no such zone is known here") from None


def _phase(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))


def _transition(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("lastTransitionTime") or "")


def _age(job: Manifest) -> tuple[str, str]:
    return job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"]
