"""Hierarchical dominant-resource fairness: a tree of queues whose leaves are jobs, compared level by level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MIN_RESOURCE = 0.1  # amounts below this count as nothing


class HierarchyNode:
    """A queue or a group of queues: one row per child with its allocation, dominant share and saturation."""

    def __init__(self, name: str, weight: float, width: int, parent: HierarchyNode | None = None) -> None:
        self.name = name
        self.weight = weight
        self.parent = parent
        self.row = -1 if parent is None else parent.add_row(name)
        self.rows: dict[str, int] = {}
        self.children: dict[str, HierarchyNode] = {}
        # (children, resources); rows not in use yet are zero and saturated.
        self.allocated = np.zeros((4, width))
        self.shares = np.zeros(4)
        self.saturated = np.ones(4, dtype=bool)

    def add_row(self, name: str) -> int:
        """Adds a row for a child and returns its index."""
        capacity = len(self.shares)
        if len(self.rows) == capacity:
            self.allocated = np.concatenate([self.allocated, np.zeros_like(self.allocated)])
            self.shares = np.concatenate([self.shares, np.zeros(capacity)])
            self.saturated = np.concatenate([self.saturated, np.ones(capacity, dtype=bool)])
        self.rows[name] = len(self.rows)
        return self.rows[name]

    def combined(self) -> Vector:
        """Returns the node's allocation: unsaturated children count as if all had the smallest of their shares.

        Without this scaling a child that holds much of one resource would make its parent look satisfied
        although its siblings hold nothing.
        """
        served = self.shares > 0
        unsaturated = served & ~self.saturated
        least = min(1.0, float(self.shares[unsaturated].min())) if unsaturated.any() else 1.0
        scale = np.zeros(len(self.shares))
        scale[served] = 1.0
        scale[unsaturated] = least / self.shares[unsaturated]
        combined: Vector = scale @ self.allocated
        return combined


class Hierarchy:
    """The tree; `update` keeps the shares of a job's ancestors current."""

    def __init__(self, total: Vector) -> None:
        self.total = total
        self.real = total >= MIN_RESOURCE
        self.root = HierarchyNode("root", 1.0, len(total))
        self._queues: dict[str, HierarchyNode] = {}
        self._jobs: dict[str, tuple[HierarchyNode, int, Vector]] = {}
        self._spent = np.zeros_like(total)
        self._demanding = self.real.copy()

    def add_queue(self, queue: str, path: Sequence[str], weights: Sequence[float]) -> None:
        """Creates the nodes of `path`, whose first element is the root."""
        node = self.root
        for name, weight in zip(path[1:], weights[1:], strict=True):
            if name not in node.children:
                node.children[name] = HierarchyNode(name, weight, len(self.total), node)
            node = node.children[name]
        self._queues[queue] = node

    def add_job(self, queue: str, job: str, request: Vector, allocated: Vector) -> None:
        """Adds a job below its queue."""
        node = self._queues[queue]
        self._jobs[job] = (node, node.add_row(job), request)
        self._spent = self._spent + allocated
        node.allocated[node.rows[job]] = allocated

    def recompute(self) -> None:
        """Recomputes all shares: after loading, or when a resource is exhausted or becomes free again."""
        self._demanding = self.real & (self._spent + MIN_RESOURCE < self.total)
        for node, row, request in self._jobs.values():
            self._refresh_leaf(node, row, request)
        self._recompute_node(self.root)

    def update(self, job: str, allocated: Vector) -> None:
        """Sets the allocation of a job."""
        node, row, request = self._jobs[job]
        self._spent = self._spent + (allocated - node.allocated[row])
        node.allocated[row] = allocated
        if not np.array_equal(self.real & (self._spent + MIN_RESOURCE < self.total), self._demanding):
            self.recompute()
            return
        self._refresh_leaf(node, row, request)
        while node.parent is not None:
            self._refresh_node(node)
            node = node.parent

    def allocated(self, job: str) -> Vector:
        """Returns the allocation of a job."""
        node, row, _ = self._jobs[job]
        held: Vector = node.allocated[row].copy()
        return held

    def key(self, queue: str) -> tuple[tuple[bool, float], ...]:
        """Returns the sort key of a queue: level by level, unsaturated first, then the smaller share per weight."""
        key = []
        for node in self._path(queue):
            assert node.parent is not None
            share = float(node.parent.shares[node.row]) / node.weight
            key.append((bool(node.parent.saturated[node.row]), share))
        return tuple(key)

    def share(self, queue: str) -> float:
        """Returns the dominant share of a queue."""
        node = self._queues[queue]
        return 0.0 if node.parent is None else float(node.parent.shares[node.row])

    def _path(self, queue: str) -> list[HierarchyNode]:
        path: list[HierarchyNode] = []
        node: HierarchyNode | None = self._queues[queue]
        while node is not None and node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def _dominant(self, allocated: Vector) -> float:
        shares = allocated[self.real] / self.total[self.real]
        return float(shares.max()) if shares.size else 0.0

    def _refresh_leaf(self, node: HierarchyNode, row: int, request: Vector) -> None:
        held = node.allocated[row]
        served = (held > 0) & (request > 0) & (held >= request)
        blocked = (request > 0) & ~self._demanding
        node.saturated[row] = bool((served | blocked).any())
        node.shares[row] = self._dominant(held)

    def _refresh_node(self, node: HierarchyNode) -> None:
        assert node.parent is not None
        combined = node.combined()
        node.parent.allocated[node.row] = combined
        node.parent.shares[node.row] = self._dominant(combined)
        node.parent.saturated[node.row] = bool(node.saturated.all())

    def _recompute_node(self, node: HierarchyNode) -> None:
        for child in node.children.values():
            self._recompute_node(child)
        if node.parent is not None:
            self._refresh_node(node)


def parse_path(queue: str, weight: float, hierarchy: str, weights: str) -> tuple[list[str], list[float]]:
    """Parses a queue's annotations into a path and weights; by default it is a child of the root."""
    path = [part for part in hierarchy.split("/") if part]
    if not path:
        return ["root", queue], [1.0, max(weight, 1.0)]
    numbers = [_weight(text) for text in weights.split("/")] if weights else []
    if path[0] != "root":
        path, numbers = ["root", *path], [1.0, *numbers]
    return path, (numbers + [1.0] * len(path))[: len(path)]


def _weight(text: str) -> float:
    """Parses the weight of a level; values below 1 or malformed count as 1."""
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0
