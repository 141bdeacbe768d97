"""Volumes, quotas and disruption budgets: input of plugins beyond pods and nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from volcano.kube.api.selectors import LabelSelector, NodeSelector


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    storage_class: str = ""
    volume: str = ""  # the PersistentVolume it is bound to
    bound: bool = False
    request: float = 0.0  # bytes
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    selected_node: str = ""  # annotation volume.kubernetes.io/selected-node
    volume_mode: str = "Filesystem"
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    capacity: float = 0.0  # bytes
    access_modes: tuple[str, ...] = ()
    storage_class: str = ""
    claim: str = ""  # "<namespace>/<name>" of claimRef
    claim_uid: str = ""
    phase: str = "Available"
    nodes: NodeSelector | None = None  # nodeAffinity.required
    driver: str = ""  # CSI
    handle: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    volume_mode: str = "Filesystem"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass."""

    name: str
    provisioner: str = ""
    waits: bool = False  # WaitForFirstConsumer
    default: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    allowed_topologies: tuple[tuple[tuple[str, frozenset[str]], ...], ...] = ()  # terms of (key, values)


@dataclass(frozen=True, slots=True)
class CsiNode:
    """CSI drivers of a node, and how many volumes each can attach (None: no limit)."""

    name: str
    drivers: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CsiDriver:
    """A CSIDriver, and whether it publishes how much can be provisioned where."""

    name: str
    publishes_capacity: bool = False


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """A CSIStorageCapacity: the largest volume of a class that can be provisioned for some nodes."""

    namespace: str
    name: str
    storage_class: str
    nodes: LabelSelector
    largest: float = 0.0  # bytes


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    selector: LabelSelector
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()  # names of pods whose disruption is already counted


@dataclass(frozen=True, slots=True)
class Quota:
    """Status of a ResourceQuota, amounts in plain units (not thousandths)."""

    namespace: str
    name: str
    hard: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Storage:
    """All storage objects of a snapshot."""

    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    capacities: tuple[StorageCapacity, ...] = ()
    uncounted: frozenset[str] = frozenset()  # provisioners whose volumes are not counted
