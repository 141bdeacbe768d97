"""Node locks: a node takes one pod of a kind at a time, until its device plugin handed the devices out."""

from collections.abc import Mapping

import numpy as np

from volcano.clock import parse_timestamp, timestamp
from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.ledger import Ledger
from volcano.scheduler.plugins.deviceshare.facts import Kind

EXPIRES = 300.0  # seconds after which a lock does not count


class NodeLocks:
    """Locks on nodes, those set by the placements of the cycle included.

    A lock counts while there is a pod on the node to which devices are being handed out: that of a pod that is gone
    does not. Until the API server confirms a binding, the pod itself stands for the lock.
    """

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
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
        held = _time(self._snapshot.nodes[row].annotations.get(kind.lock))
        for task in self._snapshot.tasks_on[row].values():
            since = kind.handing_out(task)
            if since and now - since < EXPIRES and (task.status is Status.BINDING or now - held < EXPIRES):
                return True
        return False


def _time(text: str | None) -> float:
    """Seconds since the epoch; 0 when there is no time, or none that can be understood."""
    try:
        return parse_timestamp(text) if text else 0.0
    except ValueError:
        return 0.0
