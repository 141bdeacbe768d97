"""Recorder of pod runs without I/O: events in, batches of rows out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from volcano.accounting.api import Batch, JobRecord, Progress, Run
from volcano.accounting.recorder.gap import Missed
from volcano.accounting.recorder.gpus import GpuInventory
from volcano.accounting.recorder.meter import Meter
from volcano.accounting.recorder.outcomes import ended_at, last_end, started_at
from volcano.accounting.recorder.runs import FINISHED, Group, RunBuilder, ended_run, group_of, job_record
from volcano.base.clock import Instant
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import TERMINAL_PHASES, Key, Manifest, has_ended, key_of, uid_of
from volcano.kube.api.names import JOB_NAME, SCHEDULER_NAME
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.controllers.controller import SteppedWhenDue, WorkItem, WorkResult

MOST_PENDING: Final = 200_000  # rows that wait for the database; beyond, the oldest are dropped
CLAIM_SECONDS: Final = 30.0  # for which a run waits until its claims are known
STEP_SECONDS: Final = 1.0  # between steps; a pod that changes several times meanwhile is looked at once
DELETED, BOOKMARK = (
    EventType.DELETED,
    EventType.BOOKMARK,
)  # looking up members of an enum takes long in comparison
NO_STATUS: Final[Manifest] = {}
OF_CLAIMS: Final = (Watch(RESOURCE_CLAIM), Watch(RESOURCE_SLICE))


class Recorder(SteppedWhenDue):
    """A controller that writes nothing to the API: `take` returns what belongs in the database, `confirm` forgets it.

    A run is open from the time at which its kubelet accepted the pod until the pod finished or was deleted. A row is
    taken again until it is confirmed, so that one that could not be written is written later.
    """

    name = "accounting"

    def __init__(
        self,
        scheduler_names: Sequence[str] = (SCHEDULER_NAME,),
        *,
        origin: float = 0.0,
        versions: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`versions` returns the resource version of each resource up to which events were received."""
        self.versions = versions
        # As those of the other controllers, which share the informers.
        self.watches: Sequence[Watch] = (
            Watch(POD, labels=JOB_NAME),
            *(
                Watch(POD, labels=f"!{JOB_NAME}", fields=f"spec.schedulerName={name}")
                for name in dict.fromkeys(scheduler_names)
            ),
            Watch(POD_GROUP),
            Watch(JOB),
            Watch(NODE),
        )
        self.meter = Meter(origin)
        self.pods: set[str] = set()  # uids of all pods that exist
        self.jobs: set[str] = set()
        self.dropped = 0  # rows that could not be written in time
        self._groups: dict[Key, Group] = {}
        self._gpus = GpuInventory()
        self._builder = RunBuilder(self._gpus, self._groups.get)
        self._open: dict[str, Run] = {}  # by uid of the pod
        self._ended: set[str] = set()  # pods that exist and whose runs have ended
        self._changed: dict[str, tuple[Manifest, bool]] = {}  # pods to look at, and whether they are deleted
        self._awaited: dict[
            str, tuple[Manifest, float]
        ] = {}  # pods whose claims are not known, and since when
        self._next_step = float("-inf")  # monotonic
        self._is_synced = (
            False  # queues and nodes are known: the first step follows the first lists of all kinds
        )
        self._phases: dict[str, str] = {}  # of jobs, as recorded
        self._jobs_changed: dict[str, tuple[Manifest, bool]] = {}
        self._runs: dict[str, Run] = {}  # rows to write
        self._records: dict[str, JobRecord] = {}

    # -- events ------------------------------------------------------------------------------------

    def on_events(self, batch: Sequence[Event]) -> None:
        """As `on_event` for each; most are of pods, and few of those start or end a run."""
        pods, opened, ended = self.pods, self._open, self._ended
        failed: Exception | None = None
        for event in batch:
            try:
                if event.kind is POD and event.type is not DELETED:
                    pod = event.object
                    uid, status = pod["metadata"]["uid"], pod.get("status") or NO_STATUS
                    if uid in opened:
                        if status.get("phase") not in TERMINAL_PHASES:
                            continue
                    elif "startTime" not in status:
                        pods.add(uid)
                        continue
                    elif uid in ended:
                        continue
                self._handle(event)
            except Exception as error:  # one malformed object must not hide the others
                failed = error
        if failed is not None:
            raise failed

    def on_event(self, event: Event) -> None:
        self.on_events((event,))

    def _handle(self, event: Event) -> None:
        deleted, manifest = event.type is DELETED, event.object
        if event.type is BOOKMARK:
            return
        if event.kind == POD:
            self._on_pod(manifest, deleted)
        elif event.kind == POD_GROUP:
            key = key_of(manifest)
            if deleted:
                self._groups.pop(key, None)
            else:
                self._groups[key] = group_of(manifest)
        elif event.kind == JOB:
            self._on_job(manifest, deleted)
        else:
            self._gpus.on_event(event)

    def _on_pod(self, pod: Manifest, deleted: bool) -> None:
        """A pod whose run starts or ends, or that is deleted."""
        uid = pod["metadata"]["uid"]
        if deleted:
            if uid in self._ended:
                self._ended.discard(uid)
                self.pods.discard(uid)
            else:
                self._changed[uid] = (pod, True)
            return
        self.pods.add(uid)
        if not (self._is_synced and self._start_now(uid, pod)):
            self._changed[uid] = (pod, False)

    def _start_now(self, uid: str, pod: Manifest) -> bool:
        """Starts a run at once, if that needs neither the time nor claims: its manifest is not kept any longer."""
        if uid in self._open or has_ended(pod) or pod["spec"].get("resourceClaims"):
            return False
        started = started_at(pod)
        if started is None:
            return False
        self._start(uid, pod, started)
        return True

    def _on_job(self, job: Manifest, deleted: bool) -> None:
        uid = uid_of(job)
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or ""
        if not deleted:
            self.jobs.add(uid)
            known = self._phases.get(uid)
            if known is not None and (known == phase or phase not in FINISHED):
                return
        self._phases[uid] = phase
        self._jobs_changed[uid] = (job, deleted)

    # -- controller --------------------------------------------------------------------------------

    def step(self, now: Instant) -> list[WorkItem]:
        if now.monotonic >= self._next_step:
            self._look_at_changes(now)
        return []

    def _look_at_changes(self, now: Instant) -> None:
        self._next_step = now.monotonic + STEP_SECONDS
        self._is_synced = True
        changed, self._changed = self._changed, {}
        for uid, (pod, deleted) in changed.items():
            self._look_at(uid, pod, now.wall, deleted=deleted)
        jobs, self._jobs_changed = self._jobs_changed, {}
        for uid, (job, deleted) in jobs.items():
            self._records[uid] = job_record(job, now.wall if deleted else None)
            if deleted:
                self._phases.pop(uid, None)
                self.jobs.discard(uid)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        """There are no results: nothing is written to the API."""

    def next_due(self) -> float | None:
        return self._next_step if self._changed or self._jobs_changed else None

    def _look_at(self, uid: str, pod: Manifest, now: float, *, deleted: bool) -> None:
        run = self._open.get(uid)
        started = started_at(pod) if run is None else run.started
        over = deleted or has_ended(pod)
        if started is not None and uid not in self._ended:
            if run is None and not over and not self._claims_are_known(uid, pod, now):
                return
            run = run or self._start(uid, pod, started)
            if over:
                self._end(run, pod, now)
        if deleted:
            self._awaited.pop(uid, None)
            self._ended.discard(uid)
            self.pods.discard(uid)

    def _claims_are_known(self, uid: str, pod: Manifest, now: float) -> bool:
        """Whether the GPUs of a pod can be told; claims are watched once the first pod has one."""
        if not pod["spec"].get("resourceClaims"):
            return True
        if OF_CLAIMS[0] not in self.watches:
            self.watches = (*self.watches, *OF_CLAIMS)
        _, since = self._awaited.setdefault(uid, (pod, now))
        if not self._gpus.knows_claims(pod) and now < since + CLAIM_SECONDS:
            return False
        del self._awaited[uid]
        return True

    def _start(self, uid: str, pod: Manifest, started: float) -> Run:
        run = self._builder.run(pod, started)
        self._awaited.pop(uid, None)
        self._open[uid] = run
        self._put(run)
        self.meter.add(run)
        return run

    def _end(self, run: Run, pod: Manifest, now: float) -> None:
        ended = ended_at(pod, run.started, now)
        self._open.pop(run.uid, None)
        self._ended.add(run.uid)
        self.meter.end(run, ended)
        self._put(ended_run(run, pod, ended))

    def _put(self, run: Run) -> None:
        self._runs[run.uid] = run
        if len(self._runs) > MOST_PENDING:
            del self._runs[next(iter(self._runs))]
            self.dropped += 1

    # -- rows --------------------------------------------------------------------------------------

    def take(self, now: Instant, limit: int = 5000) -> Batch:
        """The oldest rows that are not written yet. Only a batch with all of them says until when runs were seen."""
        self._look_at_changes(now)
        for uid, (pod, _) in list(self._awaited.items()):
            self._look_at(uid, pod, now.wall, deleted=False)
        runs = [run for run, _ in zip(self._runs.values(), range(limit), strict=False)]
        jobs = [record for record, _ in zip(self._records.values(), range(limit), strict=False)]
        is_all = len(runs) == len(self._runs) and len(jobs) == len(self._records)
        return Batch(runs, jobs, Progress(now.wall, self.versions()) if is_all else None)

    def missed(self, missed: Missed, now: Instant) -> Batch:
        """Rows of pods and jobs that were deleted while nothing was recorded."""
        deleted = missed.deleted
        groups = {key_of(each.object): group_of(each.object) for each in deleted if each.kind == POD_GROUP}
        gpus = self._gpus.with_devices(missed.devices)
        builder = RunBuilder(gpus, lambda key: self._groups.get(key) or groups.get(key))
        runs: list[Run] = []
        jobs: list[JobRecord] = []
        for kind, manifest, at, is_exact in deleted:
            uid = uid_of(manifest)
            if uid in self.pods or uid in self.jobs:
                continue  # it exists: only its labels have changed
            if kind == JOB:
                jobs.append(job_record(manifest, at))
            elif kind == POD and (started := started_at(manifest)) is not None:
                run = builder.run(manifest, started)
                if last_end(manifest) is None:
                    runs.append(ended_run(run, manifest, max(started, at), estimated=not is_exact))
                else:
                    runs.append(ended_run(run, manifest, ended_at(manifest, started, now.wall)))
        return Batch(runs, jobs)

    def confirm(self, batch: Batch) -> None:
        """Forgets rows that are written, unless they have changed since."""
        for run in batch.runs:
            if self._runs.get(run.uid) is run:
                del self._runs[run.uid]
        for record in batch.jobs:
            if self._records.get(record.uid) is record:
                del self._records[record.uid]

    @property
    def has_rows(self) -> bool:
        """Whether `take` returns rows."""
        return bool(self._runs or self._records or self._changed or self._jobs_changed)

    @property
    def pending(self) -> int:
        """Rows that are not written yet."""
        return len(self._runs) + len(self._records)
