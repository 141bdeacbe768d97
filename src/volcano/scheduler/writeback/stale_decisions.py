"""Crowding: whose decisions no longer fit, because others took the room while a cycle was deciding.

Other schedulers bind to the same nodes. What they bound between our snapshot and our decisions is known by now; a gang
that would be bound beside it is decided upon once more instead, as a whole.
"""

from collections.abc import Sequence

import numpy as np

from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Decision, SetPodGroup
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot

TOLERANCE = 0.5  # of a thousandth of a cpu, of a byte


def drop_stale(decisions: Sequence[Decision], snapshot: Snapshot, cluster: Cluster) -> list[Decision]:
    """The decisions that are still possible: all of a gang's, or none."""
    crowded = _crowded_jobs([d for d in decisions if isinstance(d, Bind)], snapshot, cluster)
    if not crowded:
        return list(decisions)
    return [d for d in decisions if not (isinstance(d, Bind | SetPodGroup) and d.job in crowded)]


def _crowded_jobs(binds: Sequence[Bind], snapshot: Snapshot, cluster: Cluster) -> set[str]:
    planned: dict[str, Vector] = {}
    for bind in binds:
        job = snapshot.jobs.get(bind.job)
        task = job.tasks.get(bind.task) if job else None
        if task is not None:
            known = planned.get(bind.node)
            planned[bind.node] = task.shape.request if known is None else known + task.shape.request
    crowded = {
        node
        for node, amount in planned.items()
        if (room := cluster.room_on(node)) is not None
        and _exceeds(amount, room)
        and not _exceeds(amount, _room_then(snapshot, node))  # else it was decided knowingly
    }
    return {bind.job for bind in binds if bind.node in crowded}


def _exceeds(amount: Vector, room: Vector) -> bool:
    width = min(len(amount), len(room))  # resources first named since the snapshot are nobody's here
    wanted = amount[:width]
    return bool(np.any((wanted > 0) & (wanted > room[:width] + TOLERANCE)))


def _room_then(snapshot: Snapshot, node: str) -> Vector:
    row = snapshot.row_of[node]
    room: Vector = snapshot.allocatable[row] - snapshot.used[row]
    return room
