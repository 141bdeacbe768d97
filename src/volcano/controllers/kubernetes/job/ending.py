"""Whether a job has ended: the condition that says why, before its pods are gone."""

from volcano.base.clock import Instant, parse_timestamp
from volcano.controllers.kubernetes.job.observe import Observed
from volcano.controllers.kubernetes.job.policies import job_failure, success_rule
from volcano.controllers.kubernetes.job.spec import (
    completions_of,
    has_limit_per_index,
    is_indexed,
    is_suspended,
    is_true,
)
from volcano.controllers.kubernetes.pods import phase
from volcano.kube.api.manifest import Manifest, condition_of

SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"
# The final condition that follows an interim one.
FINAL = {SUCCESS: "Complete", FAILURE: "Failed"}


def find_ending(seen: Observed, now: Instant) -> Manifest | None:
    """The interim condition of a job that has ended, new or already written; None while it goes on."""
    for kind in (SUCCESS, FAILURE):
        if is_true(seen.job, kind):
            known = condition_of(seen.job, kind)
            assert known is not None
            return dict(known)
    failure = _failure(seen, now)
    if failure is not None:
        return condition(FAILURE, *failure, now)
    if is_indexed(seen.job) and (rule := success_rule(seen.job, seen.succeeded_indexes)):
        return condition(SUCCESS, "SuccessPolicy", rule, now)
    if _is_complete(seen):
        return condition(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods", now)
    return None


def deadline_left(job: Manifest, now: Instant) -> float | None:
    """Seconds until activeDeadlineSeconds have passed; None when there is no deadline or the job is suspended."""
    limit, started = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if limit is None or not started or is_suspended(job):
        return None
    return parse_timestamp(started) + float(limit) - now.wall


def condition(kind: str, reason: str, message: str, now: Instant, status: str = "True") -> Manifest:
    times = {"lastProbeTime": now.timestamp(), "lastTransitionTime": now.timestamp()}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def _failure(seen: Observed, now: Instant) -> tuple[str, str] | None:
    """Reason and message of a failed job."""
    spec = seen.job["spec"]
    if message := job_failure(seen.job, seen.pods):
        return "PodFailurePolicy", message
    if seen.failed > int(spec.get("backoffLimit", 6)) or _restarted_too_often(seen):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = deadline_left(seen.job, now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    if has_limit_per_index(seen.job):
        most, failed = spec.get("maxFailedIndexes"), len(seen.failed_indexes)
        if most is not None and failed > int(most):
            return (
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        if failed and failed + len(seen.succeeded_indexes) >= completions_of(seen.job):
            return "FailedIndexes", "Job has failed indexes"
    return None


def _restarted_too_often(seen: Observed) -> bool:
    """Whether containers that restart in place have failed as often as pods may."""
    spec = seen.job["spec"]
    if (spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        container.get("restartCount") or 0
        for pod in seen.pods
        if phase(pod) in ("Running", "Pending")
        for part in ("initContainerStatuses", "containerStatuses")
        for container in (pod.get("status") or {}).get(part) or ()
    )
    limit = int(spec.get("backoffLimit", 6))
    return restarts > 0 if limit == 0 else restarts >= limit


def _is_complete(seen: Observed) -> bool:
    completions = seen.job["spec"].get("completions")
    if seen.active:
        return False
    return seen.succeeded > 0 if completions is None else seen.succeeded >= int(completions)
