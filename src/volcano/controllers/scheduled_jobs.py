"""What the controllers of CronJobs, Kubernetes' and Volcano's, have in common."""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime, tzinfo

from volcano.base.clock import Instant, timestamp
from volcano.controllers.schedule import MANY_MISSED, Due, find_due, in_zone, read_schedule
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
from volcano.kube.client.operations import Create, Delete, Operation
from volcano.kube.client.protocol import Event, Options
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler, WorkResult
from volcano.kube.controllers.events import OnceRecorder

SOURCE = "cronjob-controller"
MARGIN = 0.1  # seconds after the due time, so that it has certainly passed
FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"


class ScheduledJobs(Reconciler):
    """Creates a Job at every due time of a schedule: only the most recent due run is started, and finished Jobs are
    kept within the limits of the history. Subclasses say how Jobs end, and what is reported."""

    kind: Kind  # of the CronJobs
    job_kind: Kind
    scheduled: str  # annotation of Jobs with their due time
    # Final states of Jobs whose number is limited, with the field that has the limit and its default (None: no limit).
    history: tuple[tuple[str, str, int | None], ...]

    def __init__(self) -> None:
        super().__init__()
        self._recorder = OnceRecorder(SOURCE)
        self._rejections: dict[Key, str] = {}
        self.indexer.add_controller_index(self.job_kind)

    # -- what differs ------------------------------------------------------------------------------------

    @abstractmethod
    def ending(self, job: Manifest) -> str | None:
        """The final state of a Job; None while it is not finished."""

    @abstractmethod
    def age(self, job: Manifest) -> tuple[str, str]:
        """What Jobs are sorted by, the oldest first."""

    @abstractmethod
    def report(
        self, cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], last: str | None
    ) -> Iterable[Operation]:
        """Writes the status."""

    @abstractmethod
    def departed(
        self, cron_job: Manifest, name: str, job: Manifest | None, now: Instant
    ) -> Iterable[Operation]:
        """Events about a Job that is not active any more, or has gone."""

    @abstractmethod
    def rejected(self, cron_job: Manifest, message: str, now: Instant) -> Iterable[Operation]:
        """Events about a Job that the API server has rejected."""

    @abstractmethod
    def unreadable(self, cron_job: Manifest, error: ValueError, now: Instant) -> Iterable[Operation]:
        """Events about a schedule or time zone that is invalid."""

    @abstractmethod
    def questionable(self, cron_job: Manifest, due: Due, now: Instant) -> Iterable[Operation]:
        """Warnings about a schedule that is valid nevertheless."""

    @abstractmethod
    def forbidden(self, cron_job: Manifest, text: str, now: Instant) -> Iterable[Operation]:
        """Events about a run that is not started while another one is active."""

    @abstractmethod
    def replaced(self, cron_job: Manifest, others: list[Manifest], now: Instant) -> Iterable[Operation]:
        """Deletes active Jobs because a new run is due."""

    @abstractmethod
    def foreign(self, cron_job: Manifest, name: str, now: Instant) -> Iterable[Operation]:
        """Events about a Job of another owner that has the name of a run."""

    def is_active(self, job: Manifest) -> bool:
        return self.ending(job) is None

    def annotations(self, cron_job: Manifest) -> Mapping[str, str]:
        """Annotations of Jobs beside those of the template."""
        return {}

    # -- what is the same --------------------------------------------------------------------------------

    def keys(self, event: Event) -> Iterable[Hashable]:
        if event.kind == self.kind:
            return (key_of(event.object),)
        owner = controller_of(event.object)
        if owner is None or owner["kind"] != self.kind.kind:
            return ()
        if owner["apiVersion"].partition("/")[0] != self.kind.group:
            return ()
        return (Key(event.object["metadata"]["namespace"], owner["name"]),)

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        cron_job = self.indexer.get(self.kind, key)
        if cron_job is None or is_deleting(cron_job):
            self._rejections.pop(key, None)
            return NOTHING
        jobs = self.indexer.owned(self.job_kind, cron_job)
        active = [job for job in jobs if self.is_active(job)]
        operations: list[Operation] = []
        if message := self._rejections.pop(key, ""):
            operations += self.rejected(cron_job, message, now)
        operations += self._departures(cron_job, jobs, active, now)
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        wait: float | None = None
        if not cron_job["spec"].get("suspend"):
            started, last, wait = self._start(cron_job, active, last, now)
            operations += started
        operations += self.report(cron_job, jobs, active, last)
        # Deleted last: the outcome of a job is written to the status first.
        operations += self._prune(cron_job, jobs, now)
        return Plan(operations, wait)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        if done.error is not None and isinstance(done.work.key, Key):
            rejected = done.work.operations[len(done.results)]
            if isinstance(rejected, Create) and rejected.kind == self.job_kind:
                self._rejections[done.work.key] = done.error.message
                cron_job = self.indexer.get(self.kind, done.work.key)
                if cron_job is not None:
                    self._recorder.forget(cron_job, "SuccessfulCreate", _created(rejected.key.name))
        super().on_result(done, now)

    def _departures(
        self, cron_job: Manifest, jobs: list[Manifest], active: list[Manifest], now: Instant
    ) -> Iterable[Operation]:
        by_uid = {uid_of(job): job for job in jobs}
        still = {uid_of(job) for job in active}
        for reference in (cron_job.get("status") or {}).get("active") or ():
            uid = reference.get("uid", "")
            if uid not in still:
                yield from self.departed(cron_job, reference.get("name", ""), by_uid.get(uid), now)

    def _start(
        self, cron_job: Manifest, active: list[Manifest], last: str | None, now: Instant
    ) -> tuple[list[Operation], str | None, float | None]:
        """The writes that start a due run, the new lastScheduleTime, and the seconds until the next run."""
        try:
            schedule, zone = read_schedule(cron_job)
        except ValueError as error:
            return [*self.unreadable(cron_job, error, now)], last, None
        due = find_due(cron_job, schedule, zone, now)
        wait = max(due.next.timestamp() + MARGIN - now.wall, MARGIN) if due.next else None
        events = [*self.questionable(cron_job, due, now)]
        if due.at is None:
            return events, last, wait
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        job, at = self._job(cron_job, due.at, zone), timestamp(due.at.timestamp())
        others = [other for other in active if key_of(other) != key_of(job)]
        if policy == "Forbid" and others and len(others) == len(active):
            # Named by its time, so that each skipped run is recorded once; it is tried again when the other has ended.
            return [*events, *self.forbidden(cron_job, f"{FORBIDDEN} ({at})", now)], last, wait
        operations: list[Operation] = []
        if policy == "Replace" and others:
            operations += self.replaced(cron_job, others, now)
        operations += self._create(cron_job, job, now)
        return [*operations, *events], at, wait

    def _create(self, cron_job: Manifest, job: Manifest, now: Instant) -> Iterable[Operation]:
        """Creates the job of a run unless it exists: created before a restart, or by another owner."""
        existing, name = self.indexer.get(self.job_kind, key_of(job)), key_of(job).name
        owner = controller_of(existing) if existing else None
        if existing is None:
            yield Create(self.job_kind, job)
            yield from self._normal(cron_job, "SuccessfulCreate", _created(name), now)
        elif owner is None or owner["uid"] != uid_of(cron_job):
            yield from self.foreign(cron_job, name, now)

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
                yield from self._deleted(cron_job, job, now)

    def _references(self, active: list[Manifest]) -> list[Manifest]:
        return [
            {
                "apiVersion": self.job_kind.api_version,
                "kind": self.job_kind.kind,
                "namespace": key_of(job).namespace,
                "name": key_of(job).name,
                "uid": uid_of(job),
            }
            for job in sorted(active, key=self.age)
        ]

    def _removal(self, job: Manifest) -> Delete:
        options = Options(propagation="Background", uid=uid_of(job))
        return Delete(self.job_kind, key_of(job), options, if_present=True)

    def _deleted(self, cron_job: Manifest, job: Manifest, now: Instant) -> list[Operation]:
        return self._normal(cron_job, "SuccessfulDelete", f"Deleted job {key_of(job).name}", now)

    def _normal(self, cron_job: Manifest, reason: str, text: str, now: Instant) -> list[Operation]:
        return [*self._recorder.once(cron_job, self.kind, reason, text, now)]

    def _warning(self, cron_job: Manifest, reason: str, text: str, now: Instant) -> list[Operation]:
        return [*self._recorder.once(cron_job, self.kind, reason, text, now, warning=True)]


def is_never_due(due: Due) -> bool:
    return due.at is None and due.next is None


def has_missed_many(due: Due) -> bool:
    return due.at is not None and due.missed > MANY_MISSED


def _created(job: str) -> str:
    return f"Created job {job}"
