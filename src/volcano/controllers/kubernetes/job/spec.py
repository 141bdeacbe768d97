"""Questions about the spec of a Job and about its pods."""

from volcano.base.clock import parse_timestamp
from volcano.controllers.kubernetes.pods import phase
from volcano.kube.api.manifest import Manifest, annotations_of, condition_of, has_ended, is_deleting

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_INDEX_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
CONTROLLER = "kubernetes.io/job-controller"  # the value of spec.managedBy that stands for this controller


def is_ours(job: Manifest) -> bool:
    """Whether this controller manages a job, not one that spec.managedBy names."""
    return job["spec"].get("managedBy") in (None, CONTROLLER)


def is_indexed(job: Manifest) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_suspended(job: Manifest) -> bool:
    return bool(job["spec"].get("suspend"))


def has_limit_per_index(job: Manifest) -> bool:
    return job["spec"].get("backoffLimitPerIndex") is not None


def completions_of(job: Manifest) -> int:
    """The completions of an Indexed job."""
    return int(job["spec"].get("completions") or 0)


def replaces_only_failed(job: Manifest) -> bool:
    """Whether a pod is replaced only once it has failed, not as soon as it terminates."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_finished(job: Manifest) -> bool:
    return any(is_true(job, kind) for kind in ("Complete", "Failed"))


def is_true(job: Manifest, kind: str) -> bool:
    """Whether a condition of the job is true."""
    condition = condition_of(job, kind)
    return condition is not None and condition.get("status") == "True"


def is_held(pod: Manifest) -> bool:
    """Whether a pod has the finalizer that keeps it until it is counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def is_failed(pod: Manifest, job: Manifest) -> bool:
    """Whether a pod counts as failed: also a terminating one, unless only failed pods are replaced."""
    if phase(pod) == "Failed":
        return True
    return is_deleting(pod) and phase(pod) != "Succeeded" and not replaces_only_failed(job)


def is_terminating(pod: Manifest) -> bool:
    """Whether a pod is being deleted and has not ended."""
    return is_deleting(pod) and not has_ended(pod)


def index_of(pod: Manifest, job: Manifest) -> int | None:
    """The completion index of a pod; None when it has none or one beyond the completions."""
    index = _number(annotations_of(pod).get(INDEX))
    return index if index is not None and index < completions_of(job) else None


def index_failures(pod: Manifest) -> int:
    """The failures of the index before this pod that count against backoffLimitPerIndex."""
    return _number(annotations_of(pod).get(INDEX_FAILURES)) or 0


def all_index_failures(pod: Manifest) -> int:
    """The failures of the index before this pod, ignored ones included."""
    return index_failures(pod) + (_number(annotations_of(pod).get(IGNORED_INDEX_FAILURES)) or 0)


def finished_at(pod: Manifest) -> float:
    """The wall time at which a pod ended, as far as it is known; otherwise that of its deletion or creation."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    ends = [
        ((container.get("state") or {}).get("terminated") or {}).get("finishedAt") for container in containers
    ]
    known = [parse_timestamp(end) for end in ends if end]
    if known:
        return max(known)
    if metadata.get("deletionTimestamp"):
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        return parse_timestamp(metadata["deletionTimestamp"]) - grace
    return parse_timestamp(metadata["creationTimestamp"])


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
