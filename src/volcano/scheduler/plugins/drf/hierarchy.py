"""Hierarchical dominant-resource fairness: a tree of queues whose leaves are jobs, compared level by level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

LEAST = 0.1  # the smallest amount of a resource that counts


class Branch:
    """A queue or a group of queues: one row per child with its allocation, dominant share and saturation."""

    def __init__(self, name: str, weight: float, width: int, parent: Branch | None = None) -> None:
        self.name = name
        self.weight = weight
        self.parent = parent
        self.row = -1 if parent is None else parent.add_row(name)
        self.rows: dict[str, int] = {}
        self.branches: dict[str, Branch] = {}
        self.allocated = np.zeros(
            (4, width)
        )  # (children, resources); rows not in use yet are zero and saturated
        self.shares = np.zeros(4)
        self.saturated = np.ones(4, dtype=bool)

    def add_row(self, name: str) -> int:
        """A row for a new child."""
        room = len(self.shares)
        if len(self.rows) == room:
            self.allocated = np.concatenate([self.allocated, np.zeros_like(self.allocated)])
            self.shares = np.concatenate([self.shares, np.zeros(room)])
            self.saturated = np.concatenate([self.saturated, np.ones(room, dtype=bool)])
        self.rows[name] = len(self.rows)
        return self.rows[name]

    def combined(self) -> Vector:
        """The branch's allocation: hungry children count as if all stood at the share of the hungriest.

        Without this scaling a child that holds much of one resource would make its branch look satisfied
        although its siblings have nothing.
        """
        served = self.shares > 0
        hungry = served & ~self.saturated
        least = min(1.0, float(self.shares[hungry].min())) if hungry.any() else 1.0
        scale = np.zeros(len(self.shares))
        scale[served] = 1.0
        scale[hungry] = least / self.shares[hungry]
        combined: Vector = scale @ self.allocated
        return combined


class Hierarchy:
    """The tree; `update` keeps the shares of a job's ancestors right after every change."""

    def __init__(self, total: Vector) -> None:
        self.total = total
        self.real = total >= LEAST
        self.root = Branch("root", 1.0, len(total))
        self._queues: dict[str, Branch] = {}
        self._jobs: dict[str, tuple[Branch, int, Vector]] = {}
        self._spent = np.zeros_like(total)
        self._demanding = self.real.copy()

    def add_queue(self, queue: str, path: Sequence[str], weights: Sequence[float]) -> None:
        """Make the branches of `path`, whose first element is the root."""
        branch = self.root
        for name, weight in zip(path[1:], weights[1:], strict=True):
            if name not in branch.branches:
                branch.branches[name] = Branch(name, weight, len(self.total), branch)
            branch = branch.branches[name]
        self._queues[queue] = branch

    def add_job(self, queue: str, job: str, request: Vector, allocated: Vector) -> None:
        """Hang a job under its queue."""
        branch = self._queues[queue]
        self._jobs[job] = (branch, branch.add_row(job), request)
        self._spent = self._spent + allocated
        branch.allocated[branch.rows[job]] = allocated

    def settle(self) -> None:
        """Recompute everything: after loading, or when a resource runs out or becomes free again."""
        self._demanding = self.real & (self._spent + LEAST < self.total)
        for branch, row, request in self._jobs.values():
            self._refresh_leaf(branch, row, request)
        self._settle_branch(self.root)

    def update(self, job: str, allocated: Vector) -> None:
        """A job now holds `allocated`."""
        branch, row, request = self._jobs[job]
        self._spent = self._spent + (allocated - branch.allocated[row])
        branch.allocated[row] = allocated
        if not np.array_equal(self.real & (self._spent + LEAST < self.total), self._demanding):
            self.settle()
            return
        self._refresh_leaf(branch, row, request)
        while branch.parent is not None:
            self._refresh_branch(branch)
            branch = branch.parent

    def allocated(self, job: str) -> Vector:
        """What a job holds."""
        branch, row, _ = self._jobs[job]
        held: Vector = branch.allocated[row].copy()
        return held

    def key(self, queue: str) -> tuple[tuple[bool, float], ...]:
        """Sorts queues: level by level hungry before satisfied, then the smaller share per weight."""
        key = []
        for branch in self._path(queue):
            assert branch.parent is not None
            share = float(branch.parent.shares[branch.row]) / branch.weight
            key.append((bool(branch.parent.saturated[branch.row]), share))
        return tuple(key)

    def share(self, queue: str) -> float:
        """The dominant share of a queue."""
        branch = self._queues[queue]
        return 0.0 if branch.parent is None else float(branch.parent.shares[branch.row])

    def _path(self, queue: str) -> list[Branch]:
        path: list[Branch] = []
        branch: Branch | None = self._queues[queue]
        while branch is not None and branch.parent is not None:
            path.append(branch)
            branch = branch.parent
        return path[::-1]

    def _dominant(self, allocated: Vector) -> float:
        shares = allocated[self.real] / self.total[self.real]
        return float(shares.max()) if shares.size else 0.0

    def _refresh_leaf(self, branch: Branch, row: int, request: Vector) -> None:
        held = branch.allocated[row]
        served = (held > 0) & (request > 0) & (held >= request)
        blocked = (request > 0) & ~self._demanding
        branch.saturated[row] = bool((served | blocked).any())
        branch.shares[row] = self._dominant(held)

    def _refresh_branch(self, branch: Branch) -> None:
        assert branch.parent is not None
        combined = branch.combined()
        branch.parent.allocated[branch.row] = combined
        branch.parent.shares[branch.row] = self._dominant(combined)
        branch.parent.saturated[branch.row] = bool(branch.saturated.all())

    def _settle_branch(self, branch: Branch) -> None:
        for child in branch.branches.values():
            self._settle_branch(child)
        if branch.parent is not None:
            self._refresh_branch(branch)


def parse_path(queue: str, weight: float, hierarchy: str, weights: str) -> tuple[list[str], list[float]]:
    """The branches and weights of a queue's annotations; without them it hangs under the root by its own weight."""
    path = [part for part in hierarchy.split("/") if part]
    if not path:
        return ["root", queue], [1.0, max(weight, 1.0)]
    numbers = [_weight(text) for text in weights.split("/")] if weights else []
    if path[0] != "root":
        path, numbers = ["root", *path], [1.0, *numbers]
    return path, (numbers + [1.0] * len(path))[: len(path)]


def _weight(text: str) -> float:
    """A level's weight; anything that is not a number of at least 1 counts as 1."""
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0
