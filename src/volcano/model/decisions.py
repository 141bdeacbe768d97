"""Decisions of a cycle: the cluster cache assumes them, write-back turns them into operations."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from volcano.model.job import Condition


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """A claim that is bound with its pod: to a volume reserved for it, or "" for one to be provisioned."""

    namespace: str
    name: str
    volume: str = ""


class Bind(msgspec.Struct, frozen=True):
    """Binds a pod to a node; `annotations` are set with the binding, `claims` are bound before it, and so are the
    annotations of the node set."""

    task: str  # uid
    namespace: str
    name: str
    job: str
    node: str
    annotations: Mapping[str, str] = {}
    claims: tuple[ClaimVolume, ...] = ()
    node_annotations: Mapping[str, str] = {}


class Evict(msgspec.Struct, frozen=True):
    """Evicts a pod. `reason` is the action: preempt, reclaim, gangpreempt, gangreclaim or shuffle."""

    task: str
    namespace: str
    name: str
    job: str
    node: str
    reason: str
    on_behalf_of: str = ""  # uid of the job that it is evicted for
    group_uid: str = ""  # of the PodGroup of the evicted pod


@dataclass(frozen=True, slots=True)
class Nominate:
    """Sets status.nominatedNodeName: the node on which pods are evicted for this one."""

    task: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class SetPodGroup:
    """Sets the status of a PodGroup; None leaves a field unchanged."""

    job: str
    namespace: str
    name: str
    phase: str | None = None
    conditions: tuple[Condition, ...] | None = None
    counts: tuple[int, int, int] | None = None  # running, succeeded, failed


@dataclass(frozen=True, slots=True)
class SetPodCondition:
    """Sets PodScheduled=False on a pod, with reason and message."""

    task: str
    namespace: str
    name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetQueue:
    """Sets status.allocated of a queue."""

    queue: str
    allocated: Mapping[str, str]
    dropped: tuple[str, ...] = ()  # names to remove


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Records an event about a PodGroup."""

    job: str
    namespace: str
    name: str
    kind: str  # Normal or Warning
    reason: str
    message: str
    object_uid: str = ""  # of the PodGroup


@dataclass(frozen=True, slots=True)
class RemoveGate:
    """Removes the queue-admission gate of a pod."""

    task: str
    namespace: str
    name: str


Decision = Bind | Evict | Nominate | SetPodGroup | SetPodCondition | SetQueue | RecordEvent | RemoveGate
