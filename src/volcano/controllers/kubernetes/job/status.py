"""The status of a job, and the pods that are released once it is written."""

from dataclasses import dataclass

from volcano.base.clock import Instant
from volcano.controllers.indexes import format_indexes
from volcano.controllers.kubernetes.job.ending import FINAL, SUCCESS, condition
from volcano.controllers.kubernetes.job.observe import Observed
from volcano.controllers.kubernetes.job.policies import match_failure
from volcano.controllers.kubernetes.job.spec import (
    has_limit_per_index,
    index_of,
    is_failed,
    is_held,
    is_indexed,
    is_suspended,
)
from volcano.controllers.kubernetes.pods import phase
from volcano.kube.api.manifest import Manifest, uid_of

# Uids in `uncountedTerminatedPods`, so that the status stays small; further pods are counted next.
MAX_UNCOUNTED = 500


@dataclass(frozen=True, slots=True)
class Counted:
    """The new status, the pods to release after it is written, and whether the job is finished."""

    status: Manifest
    released: list[Manifest]
    final: Manifest | None = None


def count(seen: Observed, ending: Manifest | None, now: Instant) -> Counted:
    """Counts the pods that have ended since the last status.

    A pod keeps its finalizer until the status has its uid; its uid is replaced by a count when the finalizer is gone.
    So each pod is counted exactly once, also across restarts.
    """
    job, before = seen.job, dict(seen.job.get("status") or {})
    held = {uid_of(pod) for pod in seen.pods if is_held(pod)}
    uncounted = before.get("uncountedTerminatedPods") or {}
    succeeded = [uid for uid in uncounted.get("succeeded") or () if uid in held]
    failed = [uid for uid in uncounted.get("failed") or () if uid in held]
    counts = {
        "succeeded": int(before.get("succeeded") or 0)
        + len(uncounted.get("succeeded") or ())
        - len(succeeded),
        "failed": int(before.get("failed") or 0) + len(uncounted.get("failed") or ()) - len(failed),
    }
    indexes: set[int] = set()
    released: list[Manifest] = []
    for pod in seen.pods:
        if len(succeeded) + len(failed) + len(indexes) >= MAX_UNCOUNTED:
            break
        if not is_held(pod) or not _may_release(seen, pod, ending):
            continue
        released.append(pod)
        uid, index = uid_of(pod), index_of(pod, job)
        if uid in succeeded or uid in failed or (is_indexed(job) and index is None):
            continue
        if phase(pod) == "Succeeded":
            if index is None:
                succeeded.append(uid)
            else:
                indexes.add(index)
        elif _is_failure(seen, pod, ending):
            failed.append(uid)
    status = _status(seen, counts, {"succeeded": succeeded, "failed": failed}, now)
    final = _conditions(
        seen, status, ending, is_settled=not released and not succeeded and not failed, now=now
    )
    return Counted(status, released, final)


def _is_failure(seen: Observed, pod: Manifest, ending: Manifest | None) -> bool:
    """Whether a pod that has not succeeded counts as failed: in a failed job also one that was stopped with it, in a
    successful job only one that failed itself."""
    if ending is None:
        has_failed = is_failed(pod, seen.job)
    else:
        has_failed = ending["type"] != SUCCESS or phase(pod) == "Failed"
    return has_failed and match_failure(seen.job, pod).counts


def _may_release(seen: Observed, pod: Manifest, ending: Manifest | None) -> bool:
    if phase(pod) == "Succeeded" or ending is not None:
        return True
    if not is_failed(pod, seen.job):
        return False
    # The next pod of the index continues its failure count: it must not be deleted before.
    index = index_of(pod, seen.job)
    kept = (seen.to_replace or {}).get(index) if index is not None else None
    return kept is None or uid_of(kept) != uid_of(pod)


def _status(
    seen: Observed, counts: dict[str, int], uncounted: dict[str, list[str]], now: Instant
) -> Manifest:
    before = seen.job.get("status") or {}
    status: Manifest = {
        name: before[name] for name in ("conditions", "completionTime", "startTime") if before.get(name)
    }
    if is_suspended(seen.job):
        status.pop("startTime", None)  # the deadline starts anew when the job is resumed
    elif not before.get("startTime"):
        status["startTime"] = now.timestamp()
    if seen.active:
        status["active"] = len(seen.active)
    if is_indexed(seen.job):
        counts = {**counts, "succeeded": len(seen.succeeded_indexes)}
        if seen.succeeded_indexes:
            status["completedIndexes"] = format_indexes(seen.succeeded_indexes)
        if has_limit_per_index(seen.job):
            status["failedIndexes"] = format_indexes(seen.failed_indexes)
    status |= {name: value for name, value in counts.items() if value}
    status["ready"], status["terminating"] = seen.ready, seen.terminating
    status["uncountedTerminatedPods"] = {name: uids for name, uids in uncounted.items() if uids}
    return status


def _conditions(
    seen: Observed, status: Manifest, ending: Manifest | None, *, is_settled: bool, now: Instant
) -> Manifest | None:
    """Adds conditions to a status; returns the final one if the job is finished by it."""
    conditions = [dict(known) for known in status.get("conditions") or ()]
    final = None
    if ending is None:
        conditions = _with_suspension(conditions, is_suspended(seen.job), now)
    else:
        if all(known.get("type") != ending["type"] for known in conditions):
            conditions.append(ending)
            is_settled = False  # the interim condition is written before the finalizers are removed
        if is_settled and not seen.active and not seen.terminating:
            final = condition(FINAL[ending["type"]], ending["reason"], ending["message"], now)
            conditions.append(final)
            if final["type"] == "Complete":
                status["completionTime"] = final["lastTransitionTime"]
    if conditions:
        status["conditions"] = conditions
    return final


def _with_suspension(conditions: list[Manifest], suspended: bool, now: Instant) -> list[Manifest]:
    known = next((entry for entry in conditions if entry.get("type") == "Suspended"), None)
    if suspended == (known is not None and known.get("status") == "True"):
        return conditions
    reason, text = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    fresh = condition("Suspended", reason, text, now, "True" if suspended else "False")
    return [*(entry for entry in conditions if entry.get("type") != "Suspended"), fresh]
