"""Stale decisions: bindings that no longer fit because nodes or other schedulers' pods changed during the cycle.

Other schedulers bind to the same nodes. A gang with a binding to a node that they filled since the snapshot is decided
again as a whole.
"""

from collections.abc import Sequence

import numpy as np

from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Decision, SetPodGroup
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot

TOLERANCE = 0.5  # thousandths of a cpu, bytes


def drop_stale(decisions: Sequence[Decision], snapshot: Snapshot, cluster: Cluster) -> Sequence[Decision]:
    """Decisions that are still possible; those of a gang that lost its resources are dropped together."""
    decisions = [d for d in decisions if not isinstance(d, Bind) or cluster.has_node(d.node)]
    crowded = _crowded_jobs([d for d in decisions if isinstance(d, Bind)], snapshot, cluster)
    if not crowded:
        return decisions
    return [d for d in decisions if not (isinstance(d, Bind | SetPodGroup) and d.job in crowded)]


def _crowded_jobs(binds: Sequence[Bind], snapshot: Snapshot, cluster: Cluster) -> set[str]:
    """Jobs with a binding to a node whose free resources no longer suffice."""
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
        if (free := cluster.free_on(node)) is not None
        and _exceeds(amount, free)
        # A node that was too small in the snapshot already was chosen on purpose.
        and not _exceeds(amount, _free_in_snapshot(snapshot, node))
    }
    return {bind.job for bind in binds if bind.node in crowded}


def _exceeds(amount: Vector, free: Vector) -> bool:
    # The planned pods request none of the resources added since the snapshot.
    width = min(len(amount), len(free))
    wanted = amount[:width]
    return bool(np.any((wanted > 0) & (wanted > free[:width] + TOLERANCE)))


def _free_in_snapshot(snapshot: Snapshot, node: str) -> Vector:
    row = snapshot.row_of[node]
    free: Vector = snapshot.allocatable[row] - snapshot.used[row]
    return free
