"""Snapshot: the frozen view that one scheduling cycle works on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.kube.devices.numa.topology import NumaTopology
from volcano.model.devices import Devices
from volcano.model.hypernodes.hypernode import HyperNode
from volcano.model.hypernodes.tree import HyperNodeTree
from volcano.model.hypernodes.view import TopologyView
from volcano.model.job import Job, Orphans
from volcano.model.node import Node
from volcano.model.pod_owners import PodOwners
from volcano.model.queue import Queue, QueueTotals
from volcano.model.reservations import NodeReservation
from volcano.model.resources import ResourceIndex, Vector
from volcano.model.storage import DisruptionBudget, Quota, Storage
from volcano.model.task import Task


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All input of a scheduling cycle. Immutable; arrays are read-only. Nodes are rows: `nodes[row]`,
    `allocatable[row]`, `tasks_on[row]` belong together, `row_of[name]` finds them."""

    now: float  # seconds since the epoch
    seed: int
    resources: ResourceIndex
    nodes: tuple[Node, ...]
    row_of: Mapping[str, int]
    allocatable: Vector  # (nodes, resources)
    used: Vector  # requests of all pods on the node, releasing ones included
    releasing: Vector  # requests of the pods being deleted
    nonzero_used: Vector  # (nodes, 2): cpu and memory, as Shape.nonzero_request counts them
    # per row: all pods on the node, those of other schedulers included, by uid
    tasks_on: tuple[Mapping[str, Task], ...]
    jobs: Mapping[str, Job]  # those with a PodGroup and an existing queue, by uid
    active: tuple[str, ...]  # uids of the jobs with something to decide: not admitted, or with pending tasks
    queues: Mapping[str, Queue]
    totals: Mapping[str, QueueTotals]  # for every queue
    # What jobs can share: the usable nodes without pods that are in no queue, and what jobs hold on other nodes.
    total: Vector
    held: Vector  # requests of the jobs' pods on nodes, those being deleted included
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # name → labels
    storage: Storage = field(default_factory=Storage)
    pod_owners: PodOwners = field(default_factory=PodOwners)
    budgets: tuple[DisruptionBudget, ...] = ()
    quotas: Mapping[str, tuple[Quota, ...]] = field(default_factory=dict)  # by namespace
    hypernodes: Mapping[str, HyperNode] = field(default_factory=dict)
    topology: TopologyView = field(default_factory=lambda: TopologyView(HyperNodeTree.build((), {}), {}))
    numa_topologies: Mapping[str, NumaTopology] = field(default_factory=dict)  # by node
    node_reservations: tuple[NodeReservation, ...] = ()  # by name
    priorities: Mapping[str, int] = field(default_factory=dict)  # of PriorityClasses
    devices: Devices = field(default_factory=Devices)
    changed: frozenset[str] = frozenset()  # uids of the jobs changed since the last cycle
    orphans: Mapping[str, Orphans] = field(default_factory=dict)  # those that changed since the last cycle
    memory: Mapping[str, Any] = field(default_factory=dict)  # memory of plugins from the last cycle
    # Node → measured load: percent of cpu and memory, and when it was measured.
    usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pod_terms: bool = True  # whether a pod on a node may have affinity terms that apply to pods placed later
    # Values computed from `nodes` alone, by the type that computes them; emptied when a node changes.
    node_values: dict[Any, Any] = field(default_factory=dict)
    # Texts of the ConfigMaps that describe devices, by namespace and name.
    device_configs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # Values that plugins computed from objects of a snapshot and that hold while those are the same objects. One
    # dictionary for all snapshots of a cluster; not saved.
    derived: dict[str, Any] = field(default_factory=dict)
