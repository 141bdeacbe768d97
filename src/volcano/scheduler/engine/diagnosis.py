"""Why a job waits, as data first and as the sentence a user reads second."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from volcano.model.resources import shown
from volcano.scheduler.engine.plugin import Rejection

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class FitError:
    """Why a task found no node: how many nodes were ruled out for which reason, or what ruled out all at once."""

    nodes: int  # how many there are
    reasons: Mapping[str, int] = field(default_factory=dict)
    plugin: str = ""  # who ruled out most
    resource: str = ""  # the scarcest resource, when resources are what lacks
    need: float = 0.0
    have: float = 0.0  # the most that any node has of it
    rejection: Rejection | None = None

    def sentence(self) -> str:
        """Kubernetes' wording: `0/10 nodes are available: 3 Insufficient cpu, 7 node(s) were unschedulable.`"""
        if self.rejection is not None:
            return self.rejection.message
        if not self.nodes:
            return f"0/0 nodes are available: {NO_NODES}."
        return f"0/{self.nodes} nodes are available: {histogram(self.reasons)}."


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What holds a job up: the stage it got to, who stopped it there, what lacks, and how nodes were ruled out."""

    job: str
    stage: str  # valid, enqueue, queue, predicates, resources, gang, plugin, fault
    message: str
    plugin: str = ""
    resource: str = ""
    need: float = 0.0
    have: float = 0.0
    task: str = ""
    nodes: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    def shortage(self) -> str:
        """`needs cpu 4, has 2`, or nothing when no resource is to blame."""
        if not self.resource:
            return ""
        return (
            f"needs {self.resource} {shown(self.resource, self.need)}, has {shown(self.resource, self.have)}"
        )


def histogram(reasons: Mapping[str, int]) -> str:
    """`3 Insufficient cpu, 7 node(s) were unschedulable`, sorted as Kubernetes sorts it: by the text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def from_rejection(job: str, stage: str, rejection: Rejection, task: str = "") -> Diagnosis:
    """The verdict a plain refusal stands for."""
    return Diagnosis(
        job,
        stage,
        rejection.message,
        rejection.plugin,
        rejection.resource,
        rejection.need,
        rejection.have,
        task=task,
    )


def from_fit_error(job: str, task: str, fit_error: FitError) -> Diagnosis:
    """The verdict on a job one of whose tasks found no node."""
    if fit_error.rejection is not None:
        return from_rejection(job, "predicates", fit_error.rejection, task)
    return Diagnosis(
        job,
        "resources" if fit_error.resource else "predicates",
        fit_error.sentence(),
        fit_error.plugin,
        fit_error.resource,
        fit_error.need,
        fit_error.have,
        task,
        fit_error.nodes,
        fit_error.reasons,
    )
