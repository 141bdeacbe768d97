"""Base of the controllers of CronJobs, Kubernetes' and Volcano's."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import ClassVar, NamedTuple

from volcano.base.clock import Instant, parse_timestamp, timestamp
from volcano.controllers.expiry import is_ahead
from volcano.controllers.schedule import LATEST, MANY_MISSED, Due, find_due, in_zone, read_schedule
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    controller_of,
    is_deleting,
    key_of,
    owner_reference,
    uid_of,
)
from volcano.kube.client.operations import Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Options
from volcano.kube.controllers.controller import ObjectReconciler, Plan, WorkResult
from volcano.kube.controllers.events import OnceRecorder
from volcano.kube.patches.patch import merge_diff

SOURCE = "cronjob-controller"
MARGIN = 0.1  # seconds after the due time, so that it has certainly passed
FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"


class EventText(NamedTuple):
    """Reason, text and severity of an event about a CronJob."""

    reason: str
    text: str
    warning: bool = True


class CronJobEvents(NamedTuple):
    """Events by occasion; None for occasions without an event."""

    rejected: EventText
    job_gone: EventText
    job_ended: EventText
    invalid_time_zone: EventText
    invalid_schedule: EventText
    zone_in_schedule: EventText
    never_due: EventText
    missed_many: EventText
    run_forbidden: EventText
    foreign_job: EventText
    namespace_terminating: EventText | None = None
    job_replaced: EventText | None = None
    jobs_replaced: EventText | None = None


_CREATED = EventText("SuccessfulCreate", "Created job {name}", warning=False)
_TIME_AHEAD = EventText(
    "TimeAhead",
    "the last run, at {time}, is ahead of the clock, which was set back: the schedule goes on from now",
)
_DELETED = EventText("SuccessfulDelete", "Deleted job {name}", warning=False)


class ScheduledJobs(ObjectReconciler):
    """Creates a Job at every due time of a schedule: only the most recent due run is started, and finished Jobs are
    kept within the limits of the history. Subclasses define how Jobs end, and the texts of events."""

    job_kind: ClassVar[Kind]
    # The annotation of Jobs with their due time.
    scheduled: ClassVar[str]
    # Final states of Jobs whose number is limited, with the field that has the limit and its default (None: no limit).
    # The first is that of a successful Job.
    history: ClassVar[tuple[tuple[str, str, int | None], ...]]
    events: ClassVar[CronJobEvents]

    def __init__(self) -> None:
        super().__init__()
        self._recorder = OnceRecorder(SOURCE)
        self._rejections: dict[Key, str] = {}

    @abstractmethod
    def ending(self, job: Manifest) -> str | None:
        """The final state of a Job; None while it is not finished."""

    @abstractmethod
    def completion_time(self, job: Manifest) -> str:
        """The time at which a Job was completed successfully."""

    @abstractmethod
    def age(self, job: Manifest) -> tuple[str, str]:
        """The order of Jobs, the oldest first."""

    def is_active(self, job: Manifest) -> bool:
        return self.ending(job) is None

    def annotations(self, cron_job: Manifest) -> Mapping[str, str]:
        """Annotations of Jobs beside those of the template."""
        return {}

    def on_gone(self, key: Key) -> None:
        self._rejections.pop(key, None)

    def reconcile_object(self, cron_job: Manifest, now: Instant) -> Plan:
        jobs = self.indexer.owned(self.job_kind, cron_job)
        active = [job for job in jobs if self.is_active(job)]
        operations: list[Operation] = []
        if message := self._rejections.pop(key_of(cron_job), ""):
            is_terminating = "being terminated" in message
            event = self.events.namespace_terminating if is_terminating else self.events.rejected
            operations += self._record(cron_job, event, now, message=message)
        operations += self._departures(cron_job, jobs, active, now)
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        stored, base = cron_job, last or cron_job["metadata"].get("creationTimestamp")
        if base and is_ahead(min(parse_timestamp(base), LATEST), now):
            last = now.timestamp()
            cron_job = {**stored, "status": {**(stored.get("status") or {}), "lastScheduleTime": last}}
            operations += self._record(stored, _TIME_AHEAD, now, time=base)
        wait: float | None = None
        if not cron_job["spec"].get("suspend"):
            started, last, wait = self._start(cron_job, active, last, now)
            operations += started
        operations += self._report(stored, jobs, active, last)
        # Deleted last: the outcome of a job is written to the status first.
        operations += self._prune(cron_job, jobs, now)
        return Plan(operations, wait)

    def on_done(self, key: Key, done: WorkResult, now: Instant) -> None:
        failed = done.failed
        if done.error is not None and isinstance(failed, Create) and failed.kind == self.job_kind:
            self._rejections[key] = done.error.message
            cron_job = self.indexer.get(self.kind, key)
            if cron_job is not None:
                text = _CREATED.text.format(name=failed.key.name)
                self._recorder.forget(cron_job, _CREATED.reason, text)

    def _departures(
        self, cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], now: Instant
    ) -> Iterable[Operation]:
        by_uid = {uid_of(job): job for job in jobs}
        still = {uid_of(job) for job in active}
        for reference in (cron_job.get("status") or {}).get("active") or ():
            uid, name = reference.get("uid", ""), reference.get("name", "")
            job = by_uid.get(uid)
            if job is None:
                yield from self._record(cron_job, self.events.job_gone, now, name=name)
            elif uid not in still and (ending := self.ending(job)) is not None:
                yield from self._record(cron_job, self.events.job_ended, now, name=name, ending=ending)

    def _start(
        self, cron_job: Manifest, active: list[Manifest], last: str | None, now: Instant
    ) -> tuple[list[Operation], str | None, float | None]:
        """The writes that start a due run, the new lastScheduleTime, and the seconds until the next run."""
        try:
            schedule, zone = read_schedule(cron_job)
        except ValueError as error:
            is_zone, schedule = "timeZone" in str(error), cron_job["spec"].get("schedule")
            event = self.events.invalid_time_zone if is_zone else self.events.invalid_schedule
            return [*self._record(cron_job, event, now, schedule=schedule, error=error)], last, None
        due = find_due(cron_job, schedule, zone, now)
        wait = max(due.next.timestamp() + MARGIN - now.wall, MARGIN) if due.next else None
        events = [*self._questions(cron_job, due, now)]
        if due.at is None:
            return events, last, wait
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        job, at = self._job(cron_job, due.at, zone), timestamp(due.at.timestamp())
        others = [other for other in active if key_of(other) != key_of(job)]
        if policy == "Forbid" and others and len(others) == len(active):
            # Named by its time, so that each skipped run is recorded once; it is tried again when the other has ended.
            text = f"{FORBIDDEN} ({at})"
            return [*events, *self._record(cron_job, self.events.run_forbidden, now, text=text)], last, wait
        operations: list[Operation] = []
        if policy == "Replace" and others:
            operations += self._replace(cron_job, others, now)
        operations += self._create(cron_job, job, now)
        return [*operations, *events], at, wait

    def _questions(self, cron_job: Manifest, due: Due, now: Instant) -> Iterable[Operation]:
        """Warnings about a schedule that is valid nevertheless."""
        schedule = cron_job["spec"]["schedule"]
        if "TZ" in schedule:
            yield from self._record(cron_job, self.events.zone_in_schedule, now, schedule=schedule)
        if due.at is None and due.next is None:
            yield from self._record(cron_job, self.events.never_due, now, schedule=schedule)
        if due.at is not None and due.missed > MANY_MISSED:
            yield from self._record(cron_job, self.events.missed_many, now)

    def _replace(self, cron_job: Manifest, others: list[Manifest], now: Instant) -> Iterable[Operation]:
        """Deletes active Jobs because a new run is due."""
        for other in others:
            if not is_deleting(other):
                yield self._removal(other)
                yield from self._record(cron_job, self.events.job_replaced, now, name=key_of(other).name)
        names = ", ".join(key_of(other).name for other in others)
        yield from self._record(cron_job, self.events.jobs_replaced, now, names=names)

    def _create(self, cron_job: Manifest, job: Manifest, now: Instant) -> Iterable[Operation]:
        """Creates the job of a run unless it exists: created before a restart, or by another owner."""
        existing, name = self.indexer.get(self.job_kind, key_of(job)), key_of(job).name
        owner = controller_of(existing) if existing else None
        if existing is None:
            yield Create(self.job_kind, job)
            yield from self._record(cron_job, _CREATED, now, name=name)
        elif owner is None or owner["uid"] != uid_of(cron_job):
            yield from self._record(cron_job, self.events.foreign_job, now, name=name)

    def _job(self, cron_job: Manifest, at: datetime, zone: tzinfo) -> Manifest:
        template, key = cron_job["spec"]["jobTemplate"], key_of(cron_job)
        given = template.get("metadata") or {}
        annotations = {**self.annotations(cron_job), **(given.get("annotations") or {})}
        return {
            "apiVersion": self.job_kind.api_version,
            "kind": self.job_kind.kind,
            "metadata": {
                "name": f"{key.name}-{int(at.timestamp()) // 60}",
                "namespace": key.namespace,
                "labels": dict(given.get("labels") or {}),
                "annotations": {**annotations, self.scheduled: in_zone(at, zone)},
                "ownerReferences": [owner_reference(cron_job)],
            },
            "spec": template.get("spec") or {},
        }

    def _prune(self, cron_job: Manifest, jobs: list[Manifest], now: Instant) -> Iterable[Operation]:
        """Deletes the oldest finished jobs beyond the history limits."""
        for ending, field, default in self.history:
            given = cron_job["spec"].get(field)
            limit = default if given is None else int(given)
            if limit is None:
                continue
            ended = [job for job in jobs if self.ending(job) == ending and not is_deleting(job)]
            for job in sorted(ended, key=self.age)[: max(len(ended) - limit, 0)]:
                yield self._removal(job)
                yield from self._record(cron_job, _DELETED, now, name=key_of(job).name)

    def _report(
        self, cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], last: str | None
    ) -> Iterable[Operation]:
        known = cron_job.get("status") or {}
        successful = [job for job in jobs if self.ending(job) == self.history[0][0]]
        newest = max([*map(self.completion_time, successful), known.get("lastSuccessfulTime") or ""])
        status = {
            "active": [self._reference(job) for job in sorted(active, key=self.age)],
            "lastScheduleTime": last,
            "lastSuccessfulTime": newest,
        }
        change = merge_diff(known, {name: value for name, value in status.items() if value})
        if change:
            yield Patch(self.kind, key_of(cron_job), {"status": change}, "status")

    def _reference(self, job: Manifest) -> Manifest:
        sort = {"apiVersion": self.job_kind.api_version, "kind": self.job_kind.kind}
        return {**sort, **key_of(job)._asdict(), "uid": uid_of(job)}

    def _removal(self, job: Manifest) -> Delete:
        options = Options(propagation="Background", uid=uid_of(job))
        return Delete(self.job_kind, key_of(job), options, if_present=True)

    def _record(
        self, cron_job: Manifest, event: EventText | None, now: Instant, **values: object
    ) -> Sequence[Operation]:
        if event is None:
            return ()
        text = event.text.format(**values)
        return self._recorder.once(cron_job, self.kind, event.reason, text, now, warning=event.warning)
