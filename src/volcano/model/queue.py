"""Queue: who shares the cluster, and how much each is promised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.model.resources import ResourceList, Vector


@dataclass(frozen=True, slots=True)
class GroupAffinity:
    """Which node groups a queue's pods go to."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """What the API server says about a Queue. Resource lists hold only the names that were given."""

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

    @property
    def open(self) -> bool:
        return self.state in ("Open", "")


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """What the jobs of a queue add up to, kept up by events. Descendant queues are not included."""

    allocated: Vector
    requested: Vector  # allocated and pending
    inqueue: Vector
    elastic: Vector
    jobs: int = 0
