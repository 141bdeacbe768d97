"""Rooms: how many tasks of a shape fit in each domain, kept up to date with the ledger."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from volcano.model.resources import STEP, Mask, Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.topology.domains import Numbers

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session


class Room:
    """Number of tasks with one request that fit on each node, and in each domain."""

    __slots__ = (
        "_columns", "_free", "_free_at", "_request", "in_domain", "on_node", "passed", "pipelined", "seen", "version",
    )  # fmt: skip

    def __init__(self, request: Vector, passed: Mask, *, pipelined: bool) -> None:
        self._columns = np.flatnonzero(request > 0)
        self._request = request[self._columns]
        self.passed = passed
        self.pipelined = pipelined
        self.on_node: Numbers = np.zeros(len(passed), dtype=np.intp)
        self.in_domain: Numbers = np.zeros(0, dtype=np.intp)
        self.seen = -1  # length of the ledger's log of touched rows; -1: never computed
        self.version = 0  # number of changes of the counts
        self._free: Vector | None = None  # as of the length `_free_at` of that log
        self._free_at = -1

    def refresh(self, session: "Session") -> None:
        """Counts the rows that changed since the last call again."""
        touched = session.ledger.touched
        if self.seen == len(touched):
            return
        rows: Numbers | None = None
        if self.seen >= 0:
            rows = np.array(sorted(set(touched[self.seen :])), dtype=np.intp)
        self.seen = len(touched)
        if rows is None:
            self.on_node = self._count(session, np.arange(len(self.passed)))
        else:
            counts = self._count(session, rows)
            if (counts == self.on_node[rows]).all():
                return  # a trial that was undone
            self.on_node[rows] = counts
        self.version += 1
        self.in_domain = session.snapshot.topology.sums(self.on_node)

    def _count(self, session: "Session", rows: Numbers) -> Numbers:
        table = session.nodes.at(rows)
        free = table.future_idle[:, self._columns]
        if not self.pipelined:  # idle resources may be promised to pipelined tasks
            free = np.minimum(table.idle[:, self._columns], free)
        many = np.ceil(((free + STEP) / self._request).min(axis=1)) - 1
        counts: Numbers = np.where(self.passed[rows], np.maximum(many, 0), 0).astype(np.intp)
        return counts

    def free_by_domain(self, session: "Session") -> Vector:
        """(domains, resources): the same as `free` for every domain."""
        if self._free is None or self._free_at != len(session.ledger.touched):
            free = session.nodes.future_idle if self.pipelined else session.nodes.idle
            usable: Vector = np.where(self.passed[:, None], np.maximum(free, 0.0), 0.0)
            self._free = session.snapshot.topology.sums(usable)
            self._free_at = len(session.ledger.touched)
        return self._free

    def free(self, session: "Session", domain: int) -> Vector:
        """Sum of the free resources on the nodes of a domain that pass the filters."""
        rows = session.snapshot.topology.rows_of(domain)
        table = session.nodes.at(rows[self.passed[rows]])
        found: Vector = np.maximum(table.future_idle if self.pipelined else table.idle, 0.0).sum(axis=0)
        return found


class Rooms:
    """Rooms by request and filters: shapes that differ in nothing else share one."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._rooms: dict[tuple[bytes, bytes, bool], Room] = {}
        self._of_shape: dict[tuple[Shape, str, bool], Room | None] = {}

    def of(self, task: Task, queue: str, *, pipelined: bool) -> Room | None:
        """Room for tasks of this shape on idle resources or, pipelined, also on those being released; None when the
        task is rejected on every node."""
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
        key = (task.request.tobytes(), b"" if passed.all() else np.packbits(passed).tobytes(), pipelined)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = Room(task.request, passed, pipelined=pipelined)
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
