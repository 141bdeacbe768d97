"""What a cycle decided, as values: the cluster assumes them, write-back lowers them to operations."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from volcano.model.job import Condition


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """A claim that gets its volume with the pod's node: one set aside for it, or "" for one to be provisioned."""

    namespace: str
    name: str
    volume: str = ""


class Bind(msgspec.Struct, frozen=True):
    """Put a pod on a node; `annotations` travel with the binding, `claims` are settled before it."""

    task: str  # uid
    namespace: str
    name: str
    job: str
    node: str
    annotations: Mapping[str, str] = {}
    claims: tuple[ClaimVolume, ...] = ()


class Evict(msgspec.Struct, frozen=True):
    """Take a pod off its node. `reason` is the action: preempt, reclaim, gangpreempt, gangreclaim or shuffle."""

    task: str
    namespace: str
    name: str
    job: str
    node: str
    reason: str
    on_behalf_of: str = ""  # uid of the job that gets the room


@dataclass(frozen=True, slots=True)
class Nominate:
    """Remember on a pod the node on which room is being made for it."""

    task: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class SetPodGroup:
    """What a PodGroup's status should say; None leaves a field as it is."""

    job: str
    namespace: str
    name: str
    phase: str | None = None
    conditions: tuple[Condition, ...] | None = None
    counts: tuple[int, int, int] | None = None  # running, succeeded, failed


@dataclass(frozen=True, slots=True)
class SetPodCondition:
    """PodScheduled=False on a pod, with why."""

    task: str
    namespace: str
    name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetQueue:
    """A queue's status.allocated."""

    queue: str
    allocated: Mapping[str, str]
    dropped: tuple[str, ...] = ()  # names it said before and should not any more


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """An event on a PodGroup, for people. Said again only when its text changes."""

    job: str
    namespace: str
    name: str
    kind: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoveGate:
    """Take the queue-admission gate off a pod."""

    task: str
    namespace: str
    name: str


Decision = Bind | Evict | Nominate | SetPodGroup | SetPodCondition | SetQueue | RecordEvent | RemoveGate
