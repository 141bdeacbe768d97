"""Timeline: free resources of all nodes at later times, from the latest ends of the pods that have one."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from volcano.model.annotations.walltime import run_limit, started_at
from volcano.model.resources import STEP, Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.node_table import Rows

if TYPE_CHECKING:
    from volcano.scheduler.engine.ledger_view import LedgerView

CACHE = "reservation-pod-ends"  # key in the values that are kept from snapshot to snapshot
OVERDUE = 1.0  # seconds after now when a pod is expected to end that has run longer than it may


class Timeline:
    """Free resources at any time from now on: those of the ledger, and the requests of pods that end until then."""

    def __init__(self, snapshot: Snapshot, ledger: "LedgerView") -> None:
        self.now = snapshot.now
        self._ledger = ledger
        rows, ends, requests = _known_ends(snapshot)
        placed = [(row, task) for row in ledger.placed_rows for task in ledger.tasks_on(row)]
        more = [
            (row, snapshot.now + limit, task.request)
            for row, task in placed
            if ledger.status(task) is Status.ALLOCATED
            and (limit := run_limit(task, snapshot.jobs.get(task.job))) is not None
        ]
        if more:
            rows = np.concatenate((rows, np.array([row for row, _, _ in more], dtype=np.intp)))
            ends = np.concatenate((ends, np.array([end for _, end, _ in more])))
            requests = np.concatenate((requests, np.stack([request for _, _, request in more])))
        ends = np.maximum(ends, self.now + OVERDUE)
        order = np.argsort(ends, kind="stable")
        self._rows, self._ends, self._requests = rows[order], ends[order], requests[order]
        self.times: Vector = np.unique(ends)

    def free_now(self) -> Vector:
        """(nodes, resources): free now, once everything releasing is released."""
        ledger = self._ledger
        free: Vector = ledger.allocatable - ledger.used + ledger.releasing - ledger.pipelined
        return free

    def free_at(self, time: float) -> Vector:
        """(nodes, resources): free at a time, if nothing else starts until then."""
        free = self.free_now()
        ended = int(np.searchsorted(self._ends, time, side="right"))
        np.add.at(free, self._rows[:ended], self._requests[:ended])
        return free


def _known_ends(snapshot: Snapshot) -> tuple[Rows, Vector, Vector]:
    """Row, latest end and request of each pod on a node that has a known end. Nodes whose pods did not change since
    the last cycle are not looked at again."""
    width = snapshot.resources.width
    kept: dict[str, Any] = snapshot.derived.setdefault(CACHE, {})
    if kept.get("width") != width or _limits_changed(snapshot, kept):
        kept.clear()
        kept.update(width=width, limits={}, nodes={})
    nodes, limits = kept["nodes"], kept["limits"]
    rows: list[Rows] = []
    ends: list[Vector] = []
    requests: list[Vector] = []
    for row, node in enumerate(snapshot.nodes):
        tasks = snapshot.tasks_on[row]
        known = nodes.get(node.name)
        if known is None or known[0] is not tasks:
            known = nodes[node.name] = (tasks, *_ends_of(tasks.values(), snapshot, limits))
        if known[1] is not None:
            rows.append(np.full(len(known[1]), row, dtype=np.intp))
            ends.append(known[1])
            requests.append(known[2])
    if not rows:
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, width))
    return np.concatenate(rows), np.concatenate(ends), np.concatenate(requests)


def _ends_of(
    tasks: Iterable[Task], snapshot: Snapshot, limits: dict[str, float | None]
) -> tuple[Vector | None, Vector | None]:
    ends: list[float] = []
    requests: list[Vector] = []
    for task in tasks:
        if task.status is Status.RELEASING:
            continue  # counted as free
        job = snapshot.jobs.get(task.job)
        if job is not None:
            limits[job.uid] = job.group.walltime
        limit = run_limit(task, job)
        if limit is not None:
            ends.append(started_at(task, snapshot.now) + limit)
            requests.append(task.request)
    return (np.array(ends), np.stack(requests)) if ends else (None, None)


def _limits_changed(snapshot: Snapshot, kept: Mapping[str, Any]) -> bool:
    """Whether the walltime of a job with pods on nodes changed."""
    limits = kept.get("limits", {})
    return any(
        uid in limits and uid in snapshot.jobs and snapshot.jobs[uid].group.walltime != limits[uid]
        for uid in snapshot.changed
    )


def fitting(free: Vector, request: Vector) -> Rows:
    """How many tasks with this request fit on each row."""
    columns = np.flatnonzero(request > 0)
    if not len(columns):
        return np.full(len(free), np.iinfo(np.int32).max, dtype=np.intp)
    least = ((free[:, columns] + STEP) / request[columns]).min(axis=1)
    found: Rows = np.maximum(np.ceil(least) - 1, 0).astype(np.intp)
    return found
