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

    @property
    def rejects(self) -> bool:
        """Whether pods that do not tolerate the taint are not placed on the node."""
        return self.effect in ("NoSchedule", "NoExecute")


# Taints of nodes that are not ready, under pressure, cordoned, not initialised or about to be removed.
UNUSABLE_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
)
CONTROL_PLANE_TAINTS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


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

    @property
    def usable(self) -> bool:
        """Whether jobs can be expected to run here; other taints are for nodes kept for jobs that tolerate them."""
        return not self.unschedulable and not self._has_taint(UNUSABLE_TAINTS)

    @property
    def control_plane(self) -> bool:
        """Whether the node is kept for the control plane."""
        return self._has_taint(CONTROL_PLANE_TAINTS)

    def _has_taint(self, prefixes: tuple[str, ...]) -> bool:
        return any(taint.rejects and taint.key.startswith(prefixes) for taint in self.taints)
