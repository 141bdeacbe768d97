"""The controller: counts pods, ends jobs, creates missing pods and releases those of deleted jobs."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

from volcano.base.clock import Instant, parse_timestamp
from volcano.base.workqueue import Backoff
from volcano.controllers.expiry import TimesToLive, is_ahead
from volcano.controllers.indexes import first_missing
from volcano.controllers.kubernetes.job.ending import deadline_left, find_ending
from volcano.controllers.kubernetes.job.observe import Observed, observe
from volcano.controllers.kubernetes.job.pods import create, delete, release, surplus
from volcano.controllers.kubernetes.job.spec import (
    all_index_failures,
    completions_of,
    finished_at,
    has_limit_per_index,
    index_of,
    is_failed,
    is_finished,
    is_held,
    is_indexed,
    is_ours,
    is_suspended,
    is_terminating,
    is_true,
    replaces_only_failed,
)
from volcano.controllers.kubernetes.job.status import Counted, count
from volcano.controllers.kubernetes.pods import phase
from volcano.kube.api.kinds import BATCH_JOB, POD
from volcano.kube.api.manifest import Key, Manifest, condition_of, controller_of, is_deleting, key_of, uid_of
from volcano.kube.client.operations import Concurrent, Create, Delete, Operation, Patch, is_rejected
from volcano.kube.client.protocol import Event, Options, Watch
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler, WorkResult, owner_keys
from volcano.kube.controllers.events import OnceRecorder
from volcano.kube.patches.patch import merge_diff

SOURCE = "job-controller"
BURST = 500  # pods created or deleted at once
# Delays before pods are created again.
BACKOFF = Backoff(first=10.0, longest=600.0)
# Seconds for which changes of counters alone are collected into one write, as in Kubernetes.
COUNTERS_DELAY = 1.0
_COUNTERS = frozenset({"active", "ready", "terminating"})

Operations = list[Operation | Concurrent]


class OrphanPod(NamedTuple):
    """The work queue's key of a pod that has the tracking finalizer but no job as its controller."""

    key: Key


class BatchJobController(Reconciler[Key | OrphanPod]):
    """Runs the pods of jobs. A finalizer on each pod makes the counters exact across restarts."""

    name = "job"
    watches = (Watch(BATCH_JOB), Watch(POD))
    owner_kinds = MappingProxyType({POD: (BATCH_JOB, None)})

    def __init__(self) -> None:
        super().__init__()
        self._recorder = OnceRecorder(SOURCE)
        self._times_to_live = TimesToLive()
        self._events: dict[Key, list[tuple[str, str, bool]]] = {}  # to be recorded: reason, message, warning
        self._reported: dict[Key, float] = {}  # when the status of a job was last written
        self.indexer.add_index(POD, "job", _job_of)

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or bool(_job_of(event.object)) or is_held(event.object)

    def keys(self, event: Event) -> Iterable[Key | OrphanPod]:
        if event.kind == BATCH_JOB:
            return (key_of(event.object),)
        return _job_of(event.object) or (OrphanPod(key_of(event.object)),)

    def reconcile(self, key: Key | OrphanPod, now: Instant) -> Plan:
        if isinstance(key, OrphanPod):
            pod = self.indexer.get(POD, key.key)
            return Plan([release(pod)]) if pod is not None and is_held(pod) and not _job_of(pod) else NOTHING
        job = self.indexer.get(BATCH_JOB, key)
        pods = self.indexer.by_index(POD, "job", key)
        uid = uid_of(job) if job is not None else ""
        orphans = _release_all(pod for pod in pods if _owner_uid(pod) != uid)
        if job is None:
            self._events.pop(key, None)
            self._reported.pop(key, None)
            return Plan(orphans)
        if not is_ours(job):
            return Plan(orphans)
        own = [pod for pod in pods if _owner_uid(pod) == uid]
        if is_deleting(job):
            return Plan([*orphans, *_release_all(own)])
        plan = self._sync(job, own, now)
        return Plan([*orphans, *self._pending_events(job, now), *plan.operations], plan.requeue_after)

    def _sync(self, job: Manifest, pods: list[Manifest], now: Instant) -> Plan:
        if is_finished(job):
            return self._expire(job, now)
        seen = observe(job, pods)
        ending = find_ending(seen, now)
        counted = count(seen, ending, now)
        if ending is None:
            operations, wait = _manage(seen, now)
            waits = [left for left in (wait, deadline_left(job, now)) if left is not None]
        else:  # the rest of its pods is deleted; they are counted by their finalizers
            operations = [Concurrent(tuple(map(delete, seen.active)))] if seen.active else []
            waits = []
        status = self._status(job, counted, now)
        if not operations and not counted.released and (left := self._delay(job, status, now)) is not None:
            return Plan((), left)
        return Plan([*status, *_release_all(counted.released), *operations], min(waits, default=None))

    def _expire(self, job: Manifest, now: Instant) -> Plan:
        """Deletes a finished job when its time to live has passed."""
        limit = job["spec"].get("ttlSecondsAfterFinished")
        endings = [condition_of(job, kind) or {} for kind in ("Complete", "Failed") if is_true(job, kind)]
        finished = endings[0].get("lastTransitionTime") if endings else None
        if limit is None or not finished:
            return NOTHING
        ended = parse_timestamp(finished)
        left = self._times_to_live.left(uid_of(job), ended, float(limit), now)
        if left <= 0:
            options = Options(propagation="Foreground", uid=uid_of(job))
            return Plan([Delete(BATCH_JOB, key_of(job), options, if_present=True)])
        if not is_ahead(ended, now):
            return Plan((), left)
        text = f"the job ended at {finished}, ahead of the clock, which was set back: its time to live starts now"
        return Plan([*self._recorder.once(job, BATCH_JOB, "TimeAhead", text, now, warning=True)], left)

    def _status(self, job: Manifest, counted: Counted, now: Instant) -> list[Operation]:
        """The patch of the status, with the events about its new conditions."""
        change = merge_diff(job.get("status") or {}, counted.status)
        if not change:
            return []
        metadata = {"resourceVersion": job["metadata"]["resourceVersion"]}
        patch = Patch(BATCH_JOB, key_of(job), {"metadata": metadata, "status": change}, "status")
        return [patch, *self._condition_events(job, counted, now)]

    def _condition_events(self, job: Manifest, counted: Counted, now: Instant) -> list[Operation]:
        final = counted.final
        if final is not None and final["type"] == "Complete":
            return [*self._recorder.once(job, BATCH_JOB, "Completed", "Job completed", now)]
        if final is not None:
            return [
                *self._recorder.once(job, BATCH_JOB, final["reason"], final["message"], now, warning=True)
            ]
        before = _suspension(job.get("status") or {})
        after = _suspension(counted.status)
        if after is None or before == after:
            return []
        reason, text = ("Suspended", "Job suspended") if after else ("Resumed", "Job resumed")
        self._recorder.forget(job, reason, text)  # a job may be suspended again
        return [*self._recorder.once(job, BATCH_JOB, reason, text, now)]

    def _delay(self, job: Manifest, status: list[Operation], now: Instant) -> float | None:
        """Seconds for which a status that only changes counters is delayed; None when it is written now."""
        if not status:
            return None
        assert isinstance(status[0], Patch)
        last = self._reported.get(key_of(job))
        left = 0.0 if last is None else last + COUNTERS_DELAY - now.monotonic
        if left > 0 and status[0].patch["status"].keys() <= _COUNTERS:
            return left
        self._reported[key_of(job)] = now.monotonic
        return None

    def _pending_events(self, job: Manifest, now: Instant) -> Operations:
        """Events about pods that were created, deleted or rejected."""
        events = self._events.pop(key_of(job), [])
        recorded = [
            event
            for reason, text, warning in events
            for event in self._recorder.once(job, BATCH_JOB, reason, text, now, warning=warning)
        ]
        return [Concurrent(tuple(recorded))] if recorded else []

    def on_done(self, key: Key | OrphanPod, done: WorkResult, now: Instant) -> None:
        if isinstance(key, OrphanPod):
            return
        events = self._events.setdefault(key, [])
        for operation, result in zip(done.work.operations, done.results, strict=False):
            if operation.kind != POD:
                continue
            if is_rejected(result):
                if isinstance(operation, Create):
                    events.append(("FailedCreate", f"Error creating: {result.get('message', '')}", True))
            elif isinstance(operation, Create):
                events.append(("SuccessfulCreate", f"Created pod: {key_of(result).name}", False))
            elif isinstance(operation, Delete):
                events.append(("SuccessfulDelete", f"Deleted pod: {operation.key.name}", False))
        if not events:
            del self._events[key]


def _manage(seen: Observed, now: Instant) -> tuple[Operations, float | None]:
    """The writes that bring the number of active pods to the wanted one, and the seconds until the next."""
    job = seen.job
    if is_suspended(job):
        return _remove(seen.active), None
    wanted = _wanted(seen)
    if removed := surplus(job, seen.active, max(len(seen.active) - wanted, 0)):
        return _remove(removed), None
    missing = wanted - len(seen.active) - (seen.terminating if replaces_only_failed(job) else 0)
    if missing <= 0:
        return [], None
    if not has_limit_per_index(job):
        delay = _backoff(job, seen.pods, now)
        if delay > 0:
            return [], delay
    missing = min(missing, BURST)
    if not is_indexed(job):
        return [Concurrent(tuple(create(job) for _ in range(missing)))], None
    return _create_indexes(seen, _pending_indexes(seen, missing), now)


def _create_indexes(seen: Observed, indexes: list[int], now: Instant) -> tuple[Operations, float | None]:
    """Creates the pods of indexes, each after the back-off of its own failures."""
    creations: list[Operation] = []
    waits: list[float] = []
    for index in indexes:
        failed = (seen.to_replace or {}).get(index)
        delay = _index_backoff(failed, now) if failed is not None else 0.0
        if delay > 0:
            waits.append(delay)
        else:
            creations.append(create(seen.job, index, failed))
    return [Concurrent(tuple(creations))] if creations else [], min(waits, default=None)


def _backoff(job: Manifest, pods: Iterable[Manifest], now: Instant) -> float:
    """Seconds until another pod may be created: grows with the failures since the last success."""
    failures, last = 0, 0.0
    ended = [pod for pod in pods if phase(pod) == "Succeeded" or is_failed(pod, job)]
    for pod in sorted(ended, key=finished_at):
        if phase(pod) == "Succeeded":
            failures = 0
        else:
            failures, last = failures + 1, finished_at(pod)
    return last + BACKOFF.delay(failures - 1) - now.wall if failures else 0.0


def _index_backoff(failed: Manifest, now: Instant) -> float:
    """Seconds until the index of a failed pod may be tried again."""
    return finished_at(failed) + BACKOFF.delay(all_index_failures(failed)) - now.wall


def _wanted(seen: Observed) -> int:
    spec = seen.job["spec"]
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        return len(seen.active) if seen.succeeded else parallelism
    return max(min(parallelism, int(completions) - seen.succeeded), 0)


def _pending_indexes(seen: Observed, count: int) -> list[int]:
    job = seen.job
    taken = {*seen.succeeded_indexes, *seen.failed_indexes}
    waits = [pod for pod in seen.pods if is_terminating(pod)] if replaces_only_failed(job) else []
    for pod in (*seen.active, *waits):
        index = index_of(pod, job)
        if index is not None:
            taken.add(index)
    return first_missing(taken, completions_of(job), count)


def _remove(pods: Iterable[Manifest]) -> Operations:
    """Deletes pods that are not needed; their finalizers first, so that they do not count as failed."""
    chosen = list(pods)[:BURST]
    return [*_release_all(chosen), Concurrent(tuple(map(delete, chosen)))] if chosen else []


def _release_all(pods: Iterable[Manifest]) -> Operations:
    releases = tuple(release(pod) for pod in pods if is_held(pod))
    return [Concurrent(releases)] if releases else []


def _suspension(status: Manifest) -> bool | None:
    known = condition_of({"status": status}, "Suspended")
    return None if known is None else known.get("status") == "True"


def _job_of(pod: Manifest) -> tuple[Key, ...]:
    return owner_keys(pod, BATCH_JOB)


def _owner_uid(pod: Manifest) -> str:
    owner = controller_of(pod)
    return str(owner["uid"]) if owner is not None else ""
