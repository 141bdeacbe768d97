"""The pods of a job as counted now: active, terminating, succeeded and failed ones, and the indexes."""

from collections.abc import Sequence
from dataclasses import dataclass

from volcano.controllers.indexes import parse_indexes
from volcano.controllers.kubernetes.job.policies import fails_index, match_failure
from volcano.controllers.kubernetes.job.spec import (
    all_index_failures,
    completions_of,
    finished_at,
    has_limit_per_index,
    index_of,
    is_failed,
    is_held,
    is_indexed,
    is_terminating,
)
from volcano.controllers.kubernetes.pods import is_active, is_ready, phase
from volcano.kube.api.manifest import Manifest, uid_of


@dataclass(frozen=True, slots=True)
class Observed:
    """A job and its pods. `succeeded` and `failed` include pods that are not written to the status yet."""

    job: Manifest
    pods: Sequence[Manifest]
    active: Sequence[Manifest]
    ready: int
    terminating: int
    succeeded: int
    failed: int
    succeeded_indexes: frozenset[int] = frozenset()
    failed_indexes: frozenset[int] = frozenset()
    # By index, the failed pod whose annotations the next pod of that index continues.
    to_replace: dict[int, Manifest] | None = None


def observe(job: Manifest, pods: Sequence[Manifest]) -> Observed:
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    noted = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
    new = [pod for pod in pods if is_held(pod) and uid_of(pod) not in noted]
    new_failed = [pod for pod in new if is_failed(pod, job) and _has_valid_index(pod, job)]
    succeeded = int(status.get("succeeded") or 0) + len(uncounted.get("succeeded") or ())
    succeeded += sum(phase(pod) == "Succeeded" for pod in new)
    failed = int(status.get("failed") or 0) + len(uncounted.get("failed") or ())
    failed += sum(match_failure(job, pod).counts for pod in new_failed)
    active = [pod for pod in pods if is_active(pod)]
    done: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    replace: dict[int, Manifest] = {}
    if is_indexed(job):
        done = _succeeded_indexes(job, pods)
        succeeded = len(done)
        if has_limit_per_index(job):
            lost = _failed_indexes(job, pods)
            replace = _to_replace(job, pods, active, done | lost)
    return Observed(
        job=job,
        pods=pods,
        active=active,
        ready=sum(map(is_ready, active)),
        terminating=sum(map(is_terminating, pods)),
        succeeded=succeeded,
        failed=failed,
        succeeded_indexes=done,
        failed_indexes=lost,
        to_replace=replace,
    )


def _has_valid_index(pod: Manifest, job: Manifest) -> bool:
    return not is_indexed(job) or index_of(pod, job) is not None


def _succeeded_indexes(job: Manifest, pods: Sequence[Manifest]) -> frozenset[int]:
    known = parse_indexes((job.get("status") or {}).get("completedIndexes"), completions_of(job))
    new = (index_of(pod, job) for pod in pods if phase(pod) == "Succeeded" and is_held(pod))
    return frozenset(known | {index for index in new if index is not None})


def _failed_indexes(job: Manifest, pods: Sequence[Manifest]) -> frozenset[int]:
    known = parse_indexes((job.get("status") or {}).get("failedIndexes"), completions_of(job))
    new = (index_of(pod, job) for pod in pods if is_held(pod) and fails_index(job, pod))
    return frozenset(known | {index for index in new if index is not None})


def _to_replace(
    job: Manifest, pods: Sequence[Manifest], active: Sequence[Manifest], ended: frozenset[int]
) -> dict[int, Manifest]:
    """The last failed pod of each index that is tried again."""
    running = {index_of(pod, job) for pod in active}
    last: dict[int, Manifest] = {}
    for pod in pods:
        index = index_of(pod, job)
        if index is None or index in ended or index in running or not is_failed(pod, job):
            continue
        if index not in last or _attempt(pod) >= _attempt(last[index]):
            last[index] = pod
    return last


def _attempt(pod: Manifest) -> tuple[int, float]:
    return all_index_failures(pod), finished_at(pod)
