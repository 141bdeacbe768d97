"""Node: a node of the cluster, parsed from its API object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from volcano.model.resources import ResourceList


class Taint(NamedTuple):
    """One taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """A Node object, parsed; resources in use are in the columns of the snapshot."""

    name: str
    allocatable: ResourceList
    capacity: ResourceList = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    images: Mapping[str, int] = field(default_factory=dict)  # image name → bytes
    revocable_zone: str = ""
    oversubscription: bool = False
    evicting_offline: bool = False
    resource_version: str = ""
    malformed: str = ""
