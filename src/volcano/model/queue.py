"""Queue: a share of the cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.resources import ResourceList, Vector


@dataclass(frozen=True, slots=True)
class GroupAffinity:
    """Node groups that the pods of a queue require, prefer or avoid."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """A Queue object, parsed. Resource lists contain only the names that were set."""

    name: str
    object_uid: str = ""
    weight: int = 1
    priority: int = 0
    parent: str = ""
    capability: ResourceList = field(default_factory=dict)
    deserved: ResourceList = field(default_factory=dict)
    guarantee: ResourceList = field(default_factory=dict)
    reclaimable: bool = True
    state: str = "Open"
    dequeue_strategy: str = "traverse"
    affinity: GroupAffinity | None = None
    created: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocated_text: Mapping[str, Any] = field(default_factory=dict)  # status.allocated as last written
    resource_version: str = ""
    malformed: str = ""
    exhausted_budget: str = ""  # message when no new jobs may start because a budget is used up

    @property
    def open(self) -> bool:
        return self.state in ("Open", "")


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """Sums over the jobs of a queue, updated by events. Descendant queues are not included."""

    allocated: Vector
    requested: Vector  # allocated and pending
    inqueue: Vector
    elastic: Vector
    jobs: int = 0


def ancestors(queues: Mapping[str, Queue], name: str) -> Iterator[str]:
    """Ancestors of a queue up to the root; ends early at a missing parent or a cycle."""
    seen = {name}
    while name != ROOT_QUEUE:
        queue = queues.get(name)
        name = (queue.parent if queue else "") or ROOT_QUEUE
        if name in seen or queues.get(name) is None:
            return
        seen.add(name)
        yield name
