"""Node cache: nodes as rows of arrays, updated by events; a snapshot copies the arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from volcano.model.node import Node
from volcano.model.resources import Mask, ResourceIndex, Vector
from volcano.model.status import ON_NODE, Status
from volcano.model.task import Shape, Task


class NodeView(NamedTuple):
    """Nodes of a snapshot."""

    nodes: tuple[Node, ...]
    row_of: Mapping[str, int]
    allocatable: Vector
    used: Vector
    releasing: Vector
    nonzero_used: Vector
    tasks_on: tuple[Mapping[str, Task], ...]
    total: Vector  # usable by jobs, or used by them
    foreign: Vector  # requests of the pods without a job
    pod_terms: bool  # whether a pod has affinity terms that apply to pods placed later
    node_values: dict[Any, Any]  # values computed from the nodes alone, until one of them changes


class _Delta(NamedTuple):
    """Change of a row by one task."""

    row: int
    shape: Shape
    sign: float
    releasing: bool
    foreign: bool


class NodeCache:
    """Nodes and the tasks on them. Tasks of an unknown node are counted when the node is added."""

    def __init__(self, index: ResourceIndex) -> None:
        self._index = index
        self._nodes: dict[str, Node] = {}
        self._tasks: dict[str, dict[str, Task]] = {}
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._views: list[Mapping[str, Task]] = []
        self._dirty: set[str] = set()
        self._row_of: dict[str, int] | None = None
        self._facts: tuple[Node, ...] | None = None
        self._usable: Mask | None = None  # by row
        self._sums: tuple[Vector, Vector] | None = None  # total and foreign, until a row changes
        self._node_values: dict[Any, Any] = {}
        self._with_terms = 0  # tasks on nodes that have affinity terms which apply to later ones
        self._arrays = self._empty(64)
        self._unflushed: list[_Delta] = []  # not yet in the arrays: adding up many at once is far faster

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    @property
    def by_name(self) -> Mapping[str, Node]:
        return self._nodes

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def _empty(self, rows: int) -> list[Vector]:
        """Arrays for allocatable, used, releasing, used by pods without a job (rows × resources) and non-zero requests
        (rows × 2)."""
        wide = [np.zeros((rows, self._index.width)) for _ in range(4)]
        return [*wide, np.zeros((rows, 2))]

    # -- nodes -------------------------------------------------------------------------------------

    def put(self, node: Node) -> None:
        """Adds or replaces a node."""
        self._flush()
        self._sums = None
        known = self._nodes.get(node.name)
        self._nodes[node.name] = node
        self._facts = self._usable = None
        self._node_values = {}
        if known is None:
            row = len(self._names)
            self._names.append(node.name)
            self._rows[node.name] = row
            self._views.append({})
            self._row_of = None
            if row >= len(self._arrays[0]):
                self._grow(2 * row)
            self._fill(node.name)
        self._arrays[0][self._rows[node.name]] = self._index.vector(node.allocatable)

    def remove(self, name: str) -> None:
        """Removes a node; the rows after it move up."""
        if self._nodes.pop(name, None) is None:
            return
        self._flush()
        self._node_values = {}
        self._with_terms -= sum(task.shape.has_pod_terms for task in self._tasks.get(name, {}).values())
        row = self._rows[name]
        del self._names[row]
        del self._views[row]
        for array in self._arrays:
            array[row:-1] = array[row + 1 :]
            array[-1] = 0.0
        self._rows = {name: i for i, name in enumerate(self._names)}
        self._row_of = self._facts = self._usable = self._sums = None

    def widen(self, index: ResourceIndex, tasks: Mapping[str, Mapping[str, Task]]) -> None:
        """Rebuilds the arrays for a wider resource index, with the tasks in its columns."""
        self._index = index
        self._sums = None
        self._unflushed.clear()
        self._tasks = {name: dict(found) for name, found in tasks.items()}
        self._with_terms = 0
        self._arrays = self._empty(len(self._arrays[0]))
        for name, node in self._nodes.items():
            self._fill(name)
            self._arrays[0][self._rows[name]] = index.vector(node.allocatable)

    # -- tasks -------------------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        """Counts a task on its node, if its status occupies it."""
        if task.status in ON_NODE and task.node:
            self._tasks.setdefault(task.node, {})[task.uid] = task
            self._add_delta(task, 1.0)

    def discard(self, task: Task) -> None:
        """Stops counting a task on its node."""
        found = self._tasks.get(task.node)
        if found is not None and found.pop(task.uid, None) is not None:
            self._add_delta(task, -1.0)
            if not found and task.node not in self._nodes:
                del self._tasks[task.node]

    def tasks(self) -> Mapping[str, Mapping[str, Task]]:
        return self._tasks

    def free(self, name: str) -> Vector | None:
        """Free resources of a node; None when it does not exist."""
        self._flush()
        row = self._rows.get(name)
        return None if row is None else self._arrays[0][row] - self._arrays[1][row]

    def _add_delta(self, task: Task, sign: float) -> None:
        row = self._rows.get(task.node)
        if row is not None:
            self._dirty.add(task.node)
            if task.shape.has_pod_terms:
                self._with_terms += 1 if sign > 0 else -1
            self._unflushed.append(
                _Delta(row, task.shape, sign, task.status is Status.RELEASING, not task.job)
            )

    def _flush(self) -> None:
        """Applies the queued changes in order; required before rows are read or moved."""
        entries = self._unflushed
        if not entries:
            return
        self._sums = None
        _, used, releasing, foreign, nonzero = self._arrays
        rows = np.array([entry.row for entry in entries])
        signs = np.array([[entry.sign] for entry in entries])
        amounts = signs * np.stack([entry.shape.request for entry in entries])
        np.add.at(used, rows, amounts)
        np.add.at(nonzero, rows, signs * np.stack([entry.shape.nonzero_request for entry in entries]))
        going = np.array([entry.releasing for entry in entries])
        if going.any():
            np.add.at(releasing, rows[going], amounts[going])
        strange = np.array([entry.foreign for entry in entries])
        if strange.any():
            np.add.at(foreign, rows[strange], amounts[strange])
        entries.clear()

    def _fill(self, name: str) -> None:
        self._dirty.add(name)
        for task in self._tasks.get(name, {}).values():
            self._add_delta(task, 1.0)

    def _grow(self, rows: int) -> None:
        for i, array in enumerate(self._arrays):
            wider = np.zeros((rows, array.shape[1]))
            wider[: len(array)] = array
            self._arrays[i] = wider

    # -- snapshots ---------------------------------------------------------------------------------

    def view(self) -> NodeView:
        """View of all nodes; only rows that changed since the last view are built again."""
        self._flush()
        for name in self._dirty:
            row = self._rows.get(name)
            if row is not None:
                self._views[row] = dict(self._tasks.get(name, ()))
        self._dirty.clear()
        if self._row_of is None:
            self._row_of = dict(self._rows)
        if self._facts is None:
            self._facts = tuple(self._nodes[name] for name in self._names)
        allocatable, used, releasing, foreign, nonzero = (array[: len(self._names)] for array in self._arrays)
        copies = [array.copy() for array in (allocatable, used, releasing, nonzero)]
        for copy in copies:
            copy.setflags(write=False)
        if self._sums is None:
            self._sums = self._total(allocatable, used, foreign), foreign.sum(axis=0)
        return NodeView(
            self._facts,
            self._row_of,
            copies[0],
            copies[1],
            copies[2],
            copies[3],
            tuple(self._views),
            *self._sums,
            self._with_terms > 0,
            self._node_values,
        )

    def _total(self, allocatable: Vector, used: Vector, foreign: Vector) -> Vector:
        """Sum of what jobs can use: usable nodes without the pods of others; of other nodes, what jobs hold there."""
        if self._usable is None:
            self._usable = _usable_rows([self._nodes[name] for name in self._names])
        limits = allocatable if self._usable.all() else np.where(self._usable[:, None], allocatable, used)
        total: Vector = np.maximum(limits - foreign, 0.0).sum(axis=0)
        return total


def _usable_rows(nodes: Sequence[Node]) -> Mask:
    """Nodes that jobs can use; those of the control plane only where there are no others."""
    usable = np.array([node.usable for node in nodes], dtype=np.bool_)
    workers = usable & ~np.array([node.control_plane for node in nodes], dtype=np.bool_)
    return workers if workers.any() else usable
