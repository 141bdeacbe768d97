"""Pools of nodes: those with equal resources, labels and taints."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from volcano.model.node import Node
from volcano.model.snapshot import Snapshot

# Labels that differ from node to node.
OWN_LABELS = ("kubernetes.io/hostname",)
# Labels of providers that name a pool.
POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)


class Pool(NamedTuple):
    """Nodes that one more could be added to; `rows` are those of the snapshot."""

    name: str
    example: str  # name of a node
    rows: tuple[int, ...]


def pools(snapshot: Snapshot) -> list[Pool]:
    """Pools of the nodes that jobs can use, the largest first."""
    rows: dict[object, list[int]] = {}
    for row, node in enumerate(snapshot.nodes):
        if node.usable and not node.control_plane:
            rows.setdefault(_kind(node), []).append(row)
    found: list[Pool] = []
    taken: set[str] = set()
    for members in sorted(rows.values(), key=lambda members: (-len(members), members)):
        names = [snapshot.nodes[row].name for row in members]
        name = _name(names, snapshot.nodes[members[0]].labels)
        name = name if name not in taken else names[0]
        taken.add(name)
        found.append(Pool(name, names[0], tuple(members)))
    return found


def _kind(node: Node) -> object:
    """All that nodes of one pool have in common."""
    labels = frozenset(item for item in node.labels.items() if item[0] not in OWN_LABELS)
    return frozenset(node.allocatable.items()), labels, node.taints


def _name(names: list[str], labels: Mapping[str, str]) -> str:
    """The name that a label gives, or what the names of the nodes begin with."""
    for label in POOL_LABELS:
        if labels.get(label):
            return labels[label]
    stem = re.sub(r"[-.]?\d+$", "", names[0])
    return stem if stem and all(name.startswith(stem) for name in names) else names[0]
