"""Node locks: a node takes one pod of a kind at a time, until its device plugin handed the devices out."""

from collections.abc import Mapping

import numpy as np

from volcano.base.clock import timestamp
from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.engine.ledger_view import LedgerView
from volcano.scheduler.plugins.deviceshare.facts import Kind

EXPIRES = 300.0  # seconds after which a lock does not count


class NodeLocks:
    """Locks on nodes, those set by the placements of the cycle included.

    The device plugin removes the annotation and records on the pod that it is done. Here the pod counts, not the
    annotation: it is known from the decision on, and when the pod is gone there is nothing to wait for.
    """

    def __init__(self, snapshot: Snapshot, ledger: LedgerView) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._locked: dict[str, Mask] = {}
        self._set: dict[str, dict[str, int]] = {}  # kind's lock and row, by task

    def locked(self, kind: Kind) -> Mask:
        """Nodes that take no pod of this kind now."""
        found = self._locked.get(kind.lock)
        if found is None:
            found = self._locked[kind.lock] = np.array(
                [self._is_locked(kind, row) for row in range(len(self._snapshot.nodes))], dtype=np.bool_
            )
        return found

    def lock(self, kind: Kind, task: Task, row: int) -> None:
        self.locked(kind)[row] = True
        self._set.setdefault(task.uid, {})[kind.lock] = row

    def unlock(self, kind: Kind, task: Task) -> None:
        """Undoes `lock`."""
        row = self._set.get(task.uid, {}).pop(kind.lock, None)
        if row is not None:
            self.locked(kind)[row] = False

    def annotations(self, task: Task) -> Mapping[str, str]:
        """Annotations of the node to be set before a task is bound."""
        return dict.fromkeys(self._set.get(task.uid, ()), timestamp(self._snapshot.now))

    def _is_locked(self, kind: Kind, row: int) -> bool:
        now = self._snapshot.now
        begun = map(kind.handing_out, self._snapshot.tasks_on[row].values())
        return any(now - since < EXPIRES for since in begun if since)
