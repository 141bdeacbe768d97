"""Custom resources of operators that come to an end, such as Workflows and RayJobs: how their status is read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

COMPLETED, FAILED, RUNNING, PENDING = "Completed", "Failed", "Running", "Pending"
END_TIMES = ("finishedAt", "completionTime", "endTime", "terminationTime")
Status = Mapping[str, Any]
Phase = Callable[[Status], str]


def _field(*path: str, completed: str, failed: tuple[str, ...]) -> Phase:
    """Phase from a field of the status; any other value means that it runs."""

    def phase(status: Status) -> str:
        value: Any = status
        for name in path:
            value = (value or {}).get(name)
        if value == completed:
            return COMPLETED
        return FAILED if value in failed else RUNNING if value else PENDING

    return phase


def _conditions(completed: str) -> Phase:
    """Phase from conditions: `completed`, or Failed; any other one means that it runs."""

    def phase(status: Status) -> str:
        true = [one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"]
        if completed in true:
            return COMPLETED
        return FAILED if "Failed" in true else RUNNING if true else PENDING

    return phase


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of workload and the kinds, besides Jobs and pods, through which it owns its pods."""

    group: str
    kinds: tuple[str, ...]
    phase: Phase
    through: tuple[tuple[str, str], ...] = ()  # group and kind


WORKLOADS = (
    Workload(
        "argoproj.io", ("Workflow",), _field("phase", completed="Succeeded", failed=("Failed", "Error"))
    ),
    Workload(
        "ray.io",
        ("RayJob",),
        _field("jobDeploymentStatus", completed="Complete", failed=("Failed", "ValidationFailed")),
        (("ray.io", "RayCluster"),),
    ),
    Workload(
        "kubeflow.org",
        ("PyTorchJob", "TFJob", "MPIJob", "JAXJob", "PaddleJob", "XGBoostJob"),
        _conditions("Succeeded"),
    ),
    Workload("jobset.x-k8s.io", ("JobSet",), _conditions("Completed")),
    Workload(
        "trainer.kubeflow.org", ("TrainJob",), _conditions("Complete"), (("jobset.x-k8s.io", "JobSet"),)
    ),
    Workload(
        "sparkoperator.k8s.io",
        ("SparkApplication",),
        _field("applicationState", "state", completed="COMPLETED", failed=("FAILED", "SUBMISSION_FAILED")),
    ),
)
_BY_KIND = {(workload.group, kind): workload for workload in WORKLOADS for kind in workload.kinds}


def workload_of(kind: Kind) -> Workload | None:
    """The workload of a kind; None if objects of this kind do not come to an end as far as is known."""
    return _BY_KIND.get((kind.group, kind.kind))


def owners_between(kinds: Iterable[Kind], served: Iterable[Kind]) -> list[Kind]:
    """The kinds through which workloads of `kinds` own their pods, of those that are served."""
    wanted = {pair for kind in kinds if (workload := workload_of(kind)) for pair in workload.through}
    return [kind for kind in served if (kind.group, kind.kind) in wanted]


def end_of(manifest: Manifest) -> str | None:
    """The time at which a workload ended; None where its status does not tell."""
    status = manifest.get("status") or {}
    given = [status[name] for name in END_TIMES if status.get(name)]
    changes = [
        one["lastTransitionTime"] for one in status.get("conditions") or () if one.get("lastTransitionTime")
    ]
    return max(given or changes, default=None)
