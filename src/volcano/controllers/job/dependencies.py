"""Whether the jobs that a job depends on have ended as it requires."""

from collections.abc import Iterable

from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.informers.indexer import Indexer
from volcano.model.job_dependencies import FULFILLED, IMPOSSIBLE, Dependency

PENDING, NEVER = "DependencyPending", "DependencyNeverSatisfied"
# Of tasks of one job.
FAILED = "DependencyFailed"


def unfulfilled(index: Indexer, namespace: str, dependencies: Iterable[Dependency]) -> tuple[str, str]:
    """Reason and message for the first dependency that is not fulfilled; empty if all are."""
    for condition, name in dependencies:
        phase = _phase(index.get(JOB, Key(namespace, name)))
        if phase in FULFILLED[condition]:
            continue
        said = f"{condition}:{name}"
        if phase in IMPOSSIBLE[condition]:
            return (
                NEVER,
                f"job {name!r} ended as {phase}: {said} cannot be fulfilled; delete this job or its dependency",
            )
        state = f"is {phase}" if phase else "does not exist"
        return PENDING, f"waits for job {name!r} ({said}), which {state}"
    return "", ""


def _phase(job: Manifest | None) -> str:
    if job is None:
        return ""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")
