"""Diagnosis: why a job waits, as data and as the message for users."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from volcano.model.queue import Queue
from volcano.model.resources import shown
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass, of_nodes

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource of a diagnosis: what is needed, what is free for it now, and the most that could be free."""

    resource: str
    need: float
    have: float
    limit: float | None = None  # None when not known

    @property
    def missing(self) -> float:
        return max(self.need - self.have, 0.0)

    def sentence(self) -> str:
        """`needs cpu 4, has 2 of 8`."""
        most = f" of {shown(self.resource, self.limit)}" if self.limit is not None else ""
        return (
            f"needs {self.resource} {shown(self.resource, self.need)}, "
            f"has {shown(self.resource, max(self.have, 0.0))}{most}"
        )


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why something is rejected: a message and its code, and the missing resource where there is one."""

    message: str
    code: Code = Code.REJECTED_BY_PLUGIN
    resource: str = ""
    need: float = 0.0
    have: float = 0.0
    plugin: str = ""  # set by the policy
    queue: str = ""  # the queue whose limit or state is the reason
    amounts: tuple[Amount, ...] = ()  # need, have and limit per resource

    def by(self, plugin: str) -> "Rejection":
        return self if self.plugin else replace(self, plugin=plugin)


def closed(queue: Queue, message: str = "") -> Rejection:
    """Rejection by a queue that is not open."""
    text = message or f"queue {queue.name} is {queue.state.lower()}"
    return Rejection(text, Code.QUEUE_CLOSED, queue=queue.name)


@dataclass(frozen=True, slots=True)
class FitError:
    """Why no node fits a task: number of nodes by reason, or one rejection for all nodes."""

    nodes: int  # total
    reasons: Mapping[str, int] = field(default_factory=dict)
    plugin: str = ""  # the plugin that rejected most nodes
    resource: str = ""  # the resource most nodes lack, if resources are the reason
    need: float = 0.0
    have: float = 0.0  # the largest amount on one node
    rejection: Rejection | None = None
    note: str = ""  # sentence that follows, such as that no node is large enough
    causes: Mapping[Code, int] = field(default_factory=dict)  # nodes by the gravest cause that excludes them
    amounts: tuple[Amount, ...] = ()  # on the best node, per requested resource

    def sentence(self) -> str:
        """Kubernetes' wording: `0/10 nodes are available: 3 Insufficient cpu, 7 node(s) were unschedulable.`"""
        if self.rejection is not None:
            return self.rejection.message
        if not self.nodes:
            return f"0/0 nodes are available: {NO_NODES}."
        text = f"0/{self.nodes} nodes are available: {histogram(self.reasons)}."
        return f"{text} {self.note}" if self.note else text

    @property
    def code(self) -> Code:
        """That of the rejection, or of the nodes that are closest to being usable."""
        if self.rejection is not None:
            return self.rejection.code
        return of_nodes(self.causes) if self.nodes else Code.NO_NODES


@dataclass(frozen=True, slots=True)
class SchedulableTask:
    """A task that fits on a node and waits for the rest of its gang."""

    node: str
    pipelined: bool = False  # fits once resources are released


class Diagnosis(msgspec.Struct, frozen=True):
    """Why a job waits: the code, the stage it reached, the plugin that stopped it, the amounts that are missing and
    the nodes by cause."""

    job: str
    stage: str  # valid, enqueue, queue, predicates, resources, topology, gang, plugin, fault
    message: str
    plugin: str = ""
    resource: str = ""
    need: float = 0.0
    have: float = 0.0
    task: str = ""
    nodes: int = 0
    reasons: Mapping[str, int] = msgspec.field(default_factory=dict)
    code: Code = Code.NOT_TRIED_YET
    queue: str = (
        ""  # the queue whose limit or state is the reason; an ancestor of the job's queue, or that itself
    )
    amounts: tuple[Amount, ...] = ()  # need, have and limit per resource
    causes: Mapping[Code, int] = msgspec.field(default_factory=dict)  # nodes by the gravest cause
    ahead: str = ""  # job of higher priority, if that is the reason: `job team/train of priority 100`
    since: float = 0.0  # when the job began to wait for this code, in seconds since the epoch

    @property
    def diagnosis_class(self) -> DiagnosisClass:
        return self.code.diagnosis_class

    @property
    def subject(self) -> str:
        """Subject of the diagnosis: `queue research`, `pod train-0`, `job team/train`, or the job that is ahead."""
        if self.ahead:
            return self.ahead
        if self.queue:
            return f"queue {self.queue}"
        return f"pod {self.task}" if self.task else f"job {self.job}"

    def shortage(self) -> str:
        """`needs cpu 4, has 2`, or "" when no resource is missing."""
        if not self.resource:
            return ""
        return (
            f"needs {self.resource} {shown(self.resource, self.need)}, has {shown(self.resource, self.have)}"
        )


def histogram(reasons: Mapping[str, int]) -> str:
    """`3 Insufficient cpu, 7 node(s) were unschedulable`, sorted as Kubernetes sorts it: by the text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def from_rejection(job: str, stage: str, rejection: Rejection, task: str = "") -> Diagnosis:
    """Diagnosis of a rejection."""
    return Diagnosis(
        job,
        stage,
        rejection.message,
        rejection.plugin,
        rejection.resource,
        rejection.need,
        rejection.have,
        task=task,
        code=rejection.code,
        queue=rejection.queue,
        amounts=rejection.amounts,
    )


def from_fit_error(job: str, task: str, fit_error: FitError) -> Diagnosis:
    """Diagnosis of a job with a task that fits on no node."""
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
        code=fit_error.code,
        amounts=fit_error.amounts,
        causes=fit_error.causes,
    )
