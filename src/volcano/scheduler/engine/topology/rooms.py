"""Rooms: how many tasks of a shape fit in each domain, kept up to date with the ledger."""

from collections.abc import Mapping, Sequence

import numpy as np

from volcano.model.resources import STEP, Mask, Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.domain_table import Numbers
from volcano.scheduler.engine.placement.cycle import PlacementCycle

Filters = tuple[bytes, bool]  # nodes that pass, packed, and whether resources being released count


class FreeResources:
    """Free resources by node and by domain, shared by all shapes; computed again after the ledger changed."""

    def __init__(self, session: PlacementCycle) -> None:
        self._session = session
        self._seen = -1
        self._on_nodes: dict[bool, Vector] = {}
        self._in_domains: dict[Filters, Vector] = {}

    def on_nodes(self, *, pipelined: bool) -> Vector:
        """(nodes, resources): idle resources that are not promised to pipelined tasks, or also those being released."""
        self._forget_old()
        free = self._on_nodes.get(pipelined)
        if free is None:
            nodes = self._session.nodes
            free = nodes.future_idle if self._session.ledger.has_releasing else nodes.idle
            if not pipelined and self._session.ledger.has_releasing:
                free = np.minimum(free, nodes.idle)
            self._on_nodes[pipelined] = free
        return free

    def in_domains(self, filters: Filters, passed: Mask) -> Vector:
        """(domains, resources): the same on the nodes of each domain that pass the filters."""
        self._forget_old()
        found = self._in_domains.get(filters)
        if found is None:
            free = np.maximum(self.on_nodes(pipelined=filters[1]), 0.0)
            usable = free if passed.all() else np.where(passed[:, None], free, 0.0)
            found = self._in_domains[filters] = self._session.snapshot.topology.sums(usable)
        return found

    def _forget_old(self) -> None:
        if self._seen != len(self._session.ledger.touched):
            self._seen = len(self._session.ledger.touched)
            self._on_nodes.clear()
            self._in_domains.clear()


class Room:
    """Number of tasks with one request that fit on each node, and in each domain."""

    __slots__ = (
        "_columns", "_filters", "_free", "_request", "in_domain", "on_node", "passed", "pipelined", "seen", "version",
    )  # fmt: skip

    def __init__(self, request: Vector, passed: Mask, filters: Filters, free: FreeResources) -> None:
        self._columns = np.flatnonzero(request > 0)
        self._request = request[self._columns]
        self._filters = filters
        self._free = free
        self.passed = passed
        self.pipelined = filters[1]
        self.on_node: Numbers = np.zeros(0, dtype=np.intp)
        self.in_domain: Numbers = np.zeros(0, dtype=np.intp)
        self.seen = -1  # length of the ledger's log of touched rows; -1: never computed
        self.version = 0  # number of changes of the counts

    def refresh(self, session: PlacementCycle) -> None:
        """Counts the rows that changed since the last call again."""
        touched = session.ledger.touched
        if self.seen == len(touched):
            return
        if self.seen < 0:
            self.on_node = self._fitting(self._free.on_nodes(pipelined=self.pipelined), self.passed)
        else:
            rows = np.array(sorted(set(touched[self.seen :])), dtype=np.intp)
            table = session.nodes.at(rows)
            free = table.future_idle
            counts = self._fitting(
                free if self.pipelined else np.minimum(table.idle, free), self.passed[rows]
            )
            if (counts == self.on_node[rows]).all():
                self.seen = len(touched)
                return  # a trial that was undone
            self.on_node[rows] = counts
        self.seen = len(touched)
        self.version += 1
        self.in_domain = session.snapshot.topology.sums(self.on_node)

    def _fitting(self, free: Vector, passed: Mask) -> Numbers:
        many = np.ceil(((free[:, self._columns] + STEP) / self._request).min(axis=1)) - 1
        counts: Numbers = np.where(passed, np.maximum(many, 0), 0).astype(np.intp)
        return counts

    def free_by_domain(self) -> Vector:
        """(domains, resources): free resources on the nodes of each domain that pass the filters."""
        return self._free.in_domains(self._filters, self.passed)


class Rooms:
    """Rooms by request and filters: shapes that differ in nothing else share one."""

    def __init__(self, session: PlacementCycle) -> None:
        self._session = session
        self._free = FreeResources(session)
        self._rooms: dict[tuple[bytes, Filters], Room] = {}
        self._of_shape: dict[tuple[Shape, str, bool], Room | None] = {}

    def of(self, task: Task, queue: str, *, pipelined: bool) -> Room | None:
        """Room for tasks of this shape on idle resources or, pipelined, also on those being released; None when the
        task is rejected on every node."""
        pipelined = pipelined and self._session.ledger.has_releasing  # otherwise both are the same
        key = (task.shape, queue, pipelined)
        if key not in self._of_shape:
            self._of_shape[key] = self._find(task, queue, pipelined=pipelined)
        room = self._of_shape[key]
        if room is not None:
            room.refresh(self._session)
        return room

    def _find(self, task: Task, queue: str, *, pipelined: bool) -> Room | None:
        passed = self._session.placer.passed(task, queue)
        if passed is None:
            return None
        filters = (b"" if passed.all() else np.packbits(passed).tobytes(), pipelined)
        key = (task.request.tobytes(), filters)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = Room(task.request, passed, filters, self._free)
        return room

    def total(self, tasks: Mapping[Shape, Sequence[Task]], queue: str, *, pipelined: bool) -> Numbers:
        """At most how many of these tasks each domain can take: for each shape, as if the others were not there."""
        found = np.zeros(len(self._session.snapshot.topology), dtype=np.intp)
        for alike in tasks.values():
            room = self.of(alike[0], queue, pipelined=pipelined)
            if room is not None:
                found += np.minimum(room.in_domain, len(alike))
        return found


def by_shape(tasks: Sequence[Task]) -> dict[Shape, list[Task]]:
    """Tasks by shape."""
    found: dict[Shape, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.shape, []).append(task)
    return found
