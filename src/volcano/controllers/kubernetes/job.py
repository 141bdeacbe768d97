"""batch/v1 Job controller: runs pods until enough have succeeded or too many have failed."""

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

from volcano.clock import Instant, parse_timestamp
from volcano.controllers.kubernetes.pods import (
    is_active,
    is_pod_of,
    is_ready,
    phase,
    pod_from_template,
    would_change,
)
from volcano.kube.client import Event, Options
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import BATCH_JOB, POD
from volcano.kube.manifest import (
    Key,
    Manifest,
    annotations_of,
    condition_of,
    controller_of,
    is_deleting,
    key_of,
    uid_of,
    whole_number,
)
from volcano.kube.operations import Create, Delete, Operation, Patch

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACK_OFF = 10.0
LONGEST_BACK_OFF = 600.0
BURST = 500
MAX_INDEXES = 1_000_000  # of a job with completionMode Indexed: they are held in memory
_INDEXES = re.compile(r"(?P<first>[0-9]{1,10})(?:-(?P<last>[0-9]{1,10}))?")


@dataclass(frozen=True, slots=True)
class Tally:
    """The outcome of a job's pods, including pods that were counted earlier and deleted since."""

    active: list[Manifest]
    succeeded: int
    failed: int
    done_indexes: frozenset[int]
    uncounted: list[Manifest]  # finished, with the tracking finalizer


class BatchJobController(Reconciler):
    """Counts a pod before it is deleted: a finalizer on each pod makes the counters exact across restarts."""

    name = "job"
    watches = (Watch(BATCH_JOB), Watch(POD))
    owner_kinds = MappingProxyType({POD: (BATCH_JOB,)})

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_controller_index(POD)

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or is_pod_of(event.object, BATCH_JOB)

    def keys(self, event: Event) -> Iterable[Hashable]:
        if event.kind == BATCH_JOB:
            return (key_of(event.object),)
        owner = controller_of(event.object)
        if owner is None or owner["kind"] != BATCH_JOB.kind or owner["apiVersion"] != BATCH_JOB.api_version:
            return ()
        return (Key(event.object["metadata"]["namespace"], owner["name"]),)

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, Key)
        job = self.indexer.get(BATCH_JOB, key)
        if job is None:
            return NOTHING
        pods = self.indexer.owned(POD, job)
        if is_deleting(job):
            return Plan([_release(pod) for pod in pods if _held(pod)])
        tally = _count(job, pods)
        ending = _ending(job, tally, now)
        operations: list[Operation] = []
        again: float | None = None
        if ending is not None or job["spec"].get("suspend"):
            operations += [Delete(POD, key_of(pod), Options(uid=uid_of(pod))) for pod in tally.active]
        else:
            creations, again = _create_pods(job, tally, now)
            operations += creations
        status = _status(job, tally, ending, now)
        if would_change(job.get("status") or {}, status):
            operations.append(Patch(BATCH_JOB, key, {"status": status}, "status"))
        # Finalizers are removed only after the counters are written.
        operations += [_release(pod) for pod in [*tally.uncounted, *_lost(pods)]]
        expiry, removal = _expiry(job, now)
        if removal:
            operations.append(Delete(BATCH_JOB, key, Options(propagation="Background", uid=uid_of(job))))
        waits = [wait for wait in (again, expiry, _deadline(job, now)) if wait is not None]
        return Plan(operations, min(waits) if waits else None)


def _held(pod: Manifest) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def _release(pod: Manifest) -> Operation:
    kept = [name for name in pod["metadata"].get("finalizers") or () if name != FINALIZER]
    return Patch(POD, key_of(pod), {"metadata": {"uid": uid_of(pod), "finalizers": kept or None}})


def _lost(pods: Iterable[Manifest]) -> list[Manifest]:
    """Pods deleted before they finished: they are not counted and need no finalizer."""
    return [
        pod for pod in pods if is_deleting(pod) and _held(pod) and phase(pod) not in ("Succeeded", "Failed")
    ]


def _count(job: Manifest, pods: list[Manifest]) -> Tally:
    status = job.get("status") or {}
    counted = status.get("uncountedTerminatedPods") or {}
    seen = {*(counted.get("succeeded") or ()), *(counted.get("failed") or ())}
    fresh = [pod for pod in pods if phase(pod) in ("Succeeded", "Failed") and _held(pod)]
    uncounted = [pod for pod in fresh if uid_of(pod) not in seen]
    most = min(int(job["spec"].get("completions") or 0), MAX_INDEXES)
    done = _parse_indexes(status.get("completedIndexes", ""), most)
    fresh_indexes = {
        _index(pod) for pod in uncounted if phase(pod) == "Succeeded" and _index(pod) is not None
    }
    done |= {index for index in fresh_indexes if index is not None}
    succeeded = status.get("succeeded", 0) + sum(phase(pod) == "Succeeded" for pod in uncounted)
    if _indexed(job):
        succeeded = len(done)
    return Tally(
        active=[pod for pod in pods if is_active(pod)],
        succeeded=succeeded,
        failed=status.get("failed", 0) + sum(phase(pod) == "Failed" for pod in uncounted),
        done_indexes=frozenset(done),
        uncounted=fresh,
    )


def _ending(job: Manifest, tally: Tally, now: Instant) -> tuple[str, str, str] | None:
    """Why the job is finished, as (condition, reason, message); None while it is not."""
    for kind in ("Complete", "Failed"):
        known = condition_of(job, kind)
        if known is not None and known.get("status") == "True":
            return kind, known.get("reason", ""), known.get("message", "")
    spec = job["spec"]
    if tally.failed > int(spec.get("backoffLimit", 6)):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    restarts = sum(
        status.get("restartCount", 0)
        for pod in tally.active
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
    )
    never = ((spec["template"].get("spec") or {}).get("restartPolicy")) == "Never"
    if not never and restarts > int(spec.get("backoffLimit", 6)):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    wait = _deadline(job, now)
    if wait is not None and wait <= 0:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    completions = spec.get("completions")
    if completions is None:
        over = tally.succeeded > 0 and not tally.active
    else:
        over = tally.succeeded >= int(completions)
    return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods") if over else None


def _create_pods(job: Manifest, tally: Tally, now: Instant) -> tuple[list[Operation], float | None]:
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:
        wanted = len(tally.active) if tally.succeeded else parallelism
    else:
        wanted = min(parallelism, int(completions) - tally.succeeded)
    surplus = tally.active[max(wanted, 0) :]
    if surplus:
        return [Delete(POD, key_of(pod), Options(uid=uid_of(pod))) for pod in surplus], None
    missing = min(wanted - len(tally.active), BURST)
    if missing <= 0:
        return [], None
    pause = _back_off(tally, now)
    if pause > 0:
        return [], pause
    if not _indexed(job):
        return [Create(POD, _pod(job, None)) for _ in range(missing)], None
    taken = {_index(pod) for pod in tally.active} | tally.done_indexes
    free = list(
        islice((index for index in range(int(completions or 0)) if index not in taken), max(missing, 0))
    )
    return [Create(POD, _pod(job, index)) for index in free], None


def _back_off(tally: Tally, now: Instant) -> float:
    """Seconds of back-off before another pod is created."""
    if not tally.failed:
        return 0.0
    ends = []
    for pod in tally.uncounted:
        if phase(pod) == "Failed":
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                ended = (status.get("state") or {}).get("terminated") or {}
                if ended.get("finishedAt"):
                    ends.append(parse_timestamp(ended["finishedAt"]))
    pause = min(FIRST_BACK_OFF * 2 ** (tally.failed - 1), LONGEST_BACK_OFF)
    return max(ends) + pause - now.wall if ends else 0.0


def _pod(job: Manifest, index: int | None) -> Manifest:
    pod = pod_from_template(job["spec"]["template"], job)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    if index is not None:
        metadata.setdefault("annotations", {})[INDEX] = str(index)
        metadata.setdefault("labels", {})[INDEX] = str(index)
        metadata["generateName"] = f"{job['metadata']['name']}-{index}-"
        pod["spec"]["hostname"] = f"{job['metadata']['name']}-{index}"
        for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
            variables = [v for v in container.get("env") or () if v["name"] != "JOB_COMPLETION_INDEX"]
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            container["env"] = [*variables, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]
    return pod


def _status(job: Manifest, tally: Tally, ending: tuple[str, str, str] | None, now: Instant) -> Manifest:
    before = job.get("status") or {}
    suspended = bool(job["spec"].get("suspend")) and ending is None
    status: Manifest = {}
    if before.get("startTime") and not suspended:
        status["startTime"] = before["startTime"]
    elif not suspended:
        status["startTime"] = now.timestamp()
    elif before.get("startTime"):
        status["startTime"] = None
    is_over = ending is not None or suspended
    counts = (
        ("active", 0 if is_over else len(tally.active)),
        ("succeeded", tally.succeeded),
        ("failed", tally.failed),
        ("ready", 0 if is_over else sum(map(is_ready, tally.active))),
        ("terminating", 0),
    )
    for name, count in counts:
        if count or before.get(name) is not None or name in ("ready", "terminating"):
            status[name] = count
    if _indexed(job) and tally.done_indexes:
        status["completedIndexes"] = _print_indexes(tally.done_indexes)
    uids: dict[str, list[str]] = {}
    for pod in tally.uncounted:
        uids.setdefault("succeeded" if phase(pod) == "Succeeded" else "failed", []).append(uid_of(pod))
    status["uncountedTerminatedPods"] = {name: sorted(values) for name, values in uids.items()}
    conditions = [dict(c) for c in before.get("conditions") or ()]
    if ending is not None and not any(
        c.get("type") == ending[0] and c.get("status") == "True" for c in conditions
    ):
        kinds = ("SuccessCriteriaMet", "Complete") if ending[0] == "Complete" else ("FailureTarget", "Failed")
        conditions += [_condition(kind, "True", ending[1], ending[2], now) for kind in kinds]
    conditions = _suspension(conditions, suspended, now)
    if conditions:
        status["conditions"] = conditions
    if ending is not None and ending[0] == "Complete":
        status["completionTime"] = before.get("completionTime") or now.timestamp()
    if before.get("uncountedTerminatedPods") and not uids:
        # A merge patch keeps fields it does not name: empty lists must be given.
        status["uncountedTerminatedPods"] = dict.fromkeys(before["uncountedTerminatedPods"])
    return status if would_change(before, status) else before


def _suspension(conditions: list[Manifest], suspended: bool, now: Instant) -> list[Manifest]:
    known = next((c for c in conditions if c.get("type") == "Suspended"), None)
    if suspended == (known is not None and known.get("status") == "True"):
        return conditions
    reason, text = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    fresh = _condition("Suspended", "True" if suspended else "False", reason, text, now)
    return [*(c for c in conditions if c.get("type") != "Suspended"), fresh]


def _condition(kind: str, status: str, reason: str, message: str, now: Instant) -> Manifest:
    times = {"lastProbeTime": now.timestamp(), "lastTransitionTime": now.timestamp()}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def _deadline(job: Manifest, now: Instant) -> float | None:
    limit, started = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if limit is None or not started or job["spec"].get("suspend"):
        return None
    return parse_timestamp(started) + float(limit) - now.wall


def _expiry(job: Manifest, now: Instant) -> tuple[float | None, bool]:
    """Seconds until a finished job expires, and whether it has expired."""
    limit = job["spec"].get("ttlSecondsAfterFinished")
    finished = [
        c["lastTransitionTime"]
        for c in (job.get("status") or {}).get("conditions") or ()
        if c.get("type") in ("Complete", "Failed")
        and c.get("status") == "True"
        and c.get("lastTransitionTime")
    ]
    if limit is None or not finished:
        return None, False
    wait = parse_timestamp(finished[0]) + float(limit) - now.wall
    return (None, True) if wait <= 0 else (wait, False)


def _indexed(job: Manifest) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index(pod: Manifest) -> int | None:
    return whole_number(annotations_of(pod).get(INDEX, ""))


def _parse_indexes(text: str, completions: int) -> set[int]:
    """`1,3-5` as {1, 3, 4, 5}; whatever is no index of the job is ignored, as clients can write any status."""
    indexes: set[int] = set()
    for part in text.split(","):
        if (found := _INDEXES.fullmatch(part)) is not None:
            first, last = found["first"], found["last"] or found["first"]
            indexes.update(range(int(first), min(int(last) + 1, completions)))
    return indexes


def _print_indexes(indexes: Iterable[int]) -> str:
    """{1, 3, 4, 5} as `1,3-5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
