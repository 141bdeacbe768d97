"""Nodes as the dashboard shows them: usage, groups by HyperNode or pool, and how scattered free devices are."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.analysis.rerun.pools import POOL_LABELS
from volcano.dashboard.data.devices import Device, devices_of
from volcano.dashboard.objects import Objects
from volcano.kube.api.fields import at, items
from volcano.kube.api.kinds import HYPER_NODE, NODE, POD
from volcano.kube.api.manifest import Manifest, has_ended, key_of, labels_of
from volcano.kube.devices import gpushare, vgpu
from volcano.model.hypernodes.tree import HyperNodeTree
from volcano.model.parse_auxiliary import hyper_node
from volcano.views.amounts import UNINTERESTING, resource_names, short_name, shown
from volcano.views.nodes import NodeRow, numbered
from volcano.views.topology import GPU, TOLERANCE

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
ZONE = "topology.kubernetes.io/zone"
POOL, NO_GROUP = "pool", "none"
DOMINANT = "dominant"  # in place of a resource: the one of which most is used
UNGROUPED = "in no group"
READY, CORDONED, NOT_READY = "Ready", "Cordoned", "NotReady"
ONE_GIB = 2.0**30
MOST_SIZES = 6  # of pods in the table of fragmentation


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node with what its pods request."""

    row: NodeRow
    state: str  # Ready, Cordoned or NotReady
    pool: str
    zone: str
    domains: tuple[tuple[int, str], ...]  # tiers and names of its HyperNodes, the lowest first
    is_control_plane: bool = False

    @property
    def name(self) -> str:
        return self.row.key.name

    def free(self, resource: str) -> float:
        return max(self.row.allocatable.get(resource, 0.0) - self.row.used.get(resource, 0.0), 0.0)

    def part(self, resource: str) -> float | None:
        """Used part of a resource, 0 to 1 and above when overcommitted; None for a node without the resource."""
        if resource == DOMINANT:
            return self.row.dominant()
        most = self.row.allocatable.get(resource, 0.0)
        return self.row.used.get(resource, 0.0) / most if most > 0 else None

    def device_part(self) -> float:
        """Largest used part of a kind of device; -1 for a node without devices."""
        return max((self.part(name) or 0.0 for name in self.row.allocatable if "/" in name), default=-1.0)

    def usage(self, resource: str) -> str:
        """Used and allocatable, such as `3/8`."""
        held = shown(resource, self.row.used.get(resource, 0.0))
        return f"{held}/{shown(resource, self.row.allocatable.get(resource, 0.0))}"

    def group(self, grouping: str) -> str:
        """Name of the group of the node."""
        if grouping == POOL:
            return self.pool
        if grouping == "zone":
            return self.zone or UNGROUPED
        if grouping.startswith("tier-"):
            tier = grouping.removeprefix("tier-")
            return next((name for level, name in self.domains if str(level) == tier), UNGROUPED)
        return ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One node of the heat map."""

    name: str
    percent: int  # -1: the node has none of the resource
    state: str


@dataclass(frozen=True, slots=True)
class Group:
    """One group of the heat map."""

    name: str
    summary: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class RoomForSize:
    """How many pods with so many devices fit now, and would fit if all free devices were on one node."""

    size: int
    fits: int
    together: int


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """How free devices are scattered over nodes."""

    resource: str
    free: float
    sizes: tuple[RoomForSize, ...]
    by_free: tuple[tuple[int, int], ...]  # free devices of a node, and how many nodes have so many
    without_cpu_or_memory: float  # free devices of nodes with less than 1 CPU or 1Gi of memory left
    on_unusable_nodes: float  # free devices of nodes that take no pods

    @property
    def part(self) -> float:
        """Part of the free devices that pods with as many devices as the largest node has cannot use, 0 to 1."""
        if not self.sizes or not self.sizes[-1].together:
            return 0.0
        return 1.0 - self.sizes[-1].fits / self.sizes[-1].together


def node_facts(objects: Objects) -> tuple[NodeFacts, ...]:
    """All nodes in the order of their names."""
    domains = _domains(objects)
    labels = {key_of(node).name: labels_of(node) for node in objects.of(NODE)}
    found = [
        NodeFacts(
            row,
            _state(row),
            _pool(row.key.name, labels[row.key.name]),
            labels[row.key.name].get(ZONE, ""),
            domains.get(row.key.name, ()),
            any(label.startswith(CONTROL_PLANE) for label in labels[row.key.name]),
        )
        for row in objects.board.node_rows()
    ]
    return tuple(sorted(found, key=lambda node: numbered(node.name)))


def node_resources(objects: Objects) -> list[str]:
    """Resources of nodes by which the heat map can be coloured."""
    total: dict[str, float] = {}
    for node in objects.get(node_facts):
        total |= node.row.allocatable
    return resource_names({name: amount for name, amount in total.items() if name not in UNINTERESTING})


def groupings(objects: Objects) -> dict[str, str]:
    """Ways to group nodes, with their names: tiers of HyperNodes, pools, zones, none."""
    tree = objects.get(_tree)
    found = {
        f"tier-{domain.tier}": f"HyperNode, tier {domain.tier}"
        + (f" ({domain.tier_name})" if domain.tier_name else "")
        for domain in sorted(tree.domains.values(), key=lambda domain: domain.tier)
    }
    found[POOL] = "Pool"
    if any(node.zone for node in objects.get(node_facts)):
        found["zone"] = "Zone"
    return found | {NO_GROUP: "No groups"}


def heat_map(nodes: Iterable[NodeFacts], grouping: str, resource: str) -> tuple[Group, ...]:
    """Cells by group; groups in the order of their names, nodes without one last. The control plane is left out."""
    by_group: dict[str, list[NodeFacts]] = defaultdict(list)
    for node in nodes:
        if not node.is_control_plane:
            by_group[node.group(grouping)].append(node)
    ordered = sorted(by_group, key=lambda name: (name == UNGROUPED, numbered(name)))
    return tuple(
        Group(
            name, _group_summary(by_group[name], resource), tuple(_cell(n, resource) for n in by_group[name])
        )
        for name in ordered
    )


def fragmentation(nodes: Sequence[NodeFacts], resource: str) -> Fragmentation:
    """Room of the cluster for pods with 1, 2, 4, ... devices."""
    having = [
        node for node in nodes if node.row.allocatable.get(resource, 0.0) >= 1 and not node.is_control_plane
    ]
    usable = [node for node in having if node.state == READY]
    free = {node.name: int(node.free(resource) + TOLERANCE) for node in usable}
    total = sum(free.values())
    largest = max((int(node.row.allocatable[resource]) for node in having), default=0)
    short = [node for node in usable if node.free("cpu") < 1 or node.free("memory") < ONE_GIB]
    return Fragmentation(
        resource,
        total,
        tuple(
            RoomForSize(size, sum(count // size for count in free.values()), total // size)
            for size in _sizes(largest)
        ),
        tuple(sorted(Counter(free.values()).items())),
        sum(free[node.name] for node in short),
        sum(int(node.free(resource)) for node in having if node.state != READY),
    )


def device_resource(nodes: Sequence[NodeFacts]) -> str:
    """The resource whose fragmentation matters: GPUs, else the device of most nodes; "" when nodes have none."""
    counts = Counter(
        name
        for node in nodes
        for name, amount in node.row.allocatable.items()
        if amount >= 1 and is_countable(name)
    )
    return GPU if counts[GPU] else min(counts, key=lambda name: (-counts[name], name), default="")


def is_countable(resource: str) -> bool:
    """Whether a resource counts devices or places on them; memory and cores of shared cards do not."""
    return "/" in resource and resource not in (vgpu.MEMORY, vgpu.CORES, gpushare.MEMORY)


def pods_by_node(objects: Objects) -> Mapping[str, Sequence[Manifest]]:
    """Pods that have not ended, by their node."""
    found: dict[str, list[Manifest]] = defaultdict(list)
    for pod in objects.of(POD):
        node = at(pod, "spec", "nodeName", default="")
        if node and not has_ended(pod):
            found[node].append(pod)
    return found


def node_devices(objects: Objects, name: str) -> tuple[Device, ...]:
    """Devices of a node with their owners."""
    node = find_node(objects, name)
    return devices_of(node, objects.get(pods_by_node).get(name, ())) if node is not None else ()


def find_node(objects: Objects, name: str) -> Manifest | None:
    return objects.get(_nodes_by_name).get(name)


def _nodes_by_name(objects: Objects) -> Mapping[str, Manifest]:
    return {key_of(node).name: node for node in objects.of(NODE)}


def conditions(node: Manifest) -> list[Mapping[str, Any]]:
    """Conditions of a node, Ready first."""
    return sorted(
        items(node, "status", "conditions"), key=lambda each: (each.get("type") != "Ready", each.get("type"))
    )


def taints(node: Manifest) -> list[str]:
    return [
        f"{taint.get('key')}"
        + (f"={taint['value']}" if taint.get("value") else "")
        + f":{taint.get('effect')}"
        for taint in items(node, "spec", "taints")
    ]


def _tree(objects: Objects) -> HyperNodeTree:
    labels = {key_of(node).name: labels_of(node) for node in objects.of(NODE)}
    return HyperNodeTree.build(map(hyper_node, objects.of(HYPER_NODE)), labels)


def _domains(objects: Objects) -> dict[str, tuple[tuple[int, str], ...]]:
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for domain in sorted(objects.get(_tree).domains.values(), key=lambda domain: (domain.tier, domain.name)):
        for node in domain.nodes:
            found[node].append((domain.tier, domain.name))
    return {node: tuple(domains) for node, domains in found.items()}


def _state(row: NodeRow) -> str:
    ready, _, closed = row.status.partition(",")
    return NOT_READY if ready != READY else CORDONED if closed else READY


def _pool(name: str, labels: Mapping[str, str]) -> str:
    """The name that a label of a provider gives, or what the name of the node begins with."""
    given = next((labels[label] for label in POOL_LABELS if labels.get(label)), "")
    return given or re.sub(r"[-.]?\d+$", "", name) or name


def _cell(node: NodeFacts, resource: str) -> Cell:
    part = node.part(resource)
    return Cell(node.name, -1 if part is None else round(part * 100), node.state)


def _group_summary(nodes: Sequence[NodeFacts], resource: str) -> str:
    count = f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}"
    if resource == DOMINANT:
        mean = sum(node.row.dominant() for node in nodes) / len(nodes)
        return f"{count}, {mean:.0%} used"
    total = sum(node.row.allocatable.get(resource, 0.0) for node in nodes)
    used = sum(node.row.used.get(resource, 0.0) for node in nodes)
    if not total:
        return f"{count}, no {short_name(resource)}"
    return f"{count}, {shown(resource, used)}/{shown(resource, total)} {short_name(resource)}"


def _sizes(largest: int) -> list[int]:
    sizes = [size for power in range(MOST_SIZES) if (size := 1 << power) < largest]
    return [*sizes[: MOST_SIZES - 1], largest] if largest else []
