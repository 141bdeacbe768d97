"""What estimates foresee: free resources, the capability of queues, their order and reservations.

Shares of queues, quotas, budgets, topology and whatever else makes jobs wait are not foreseen: nothing is claimed then.
"""

import math

import numpy as np

from volcano.analysis.estimate.forecast_input import Rules
from volcano.model.queue import ancestors
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.scheduler.plugins.reservation import depth, starvation

LIMITING = frozenset(("proportion", "capacity"))  # plugins that enforce the capability of queues
# Rules by which a job waits although enough is free for it.
RULES = frozenset((Code.QUEUE_ORDER, Code.RESERVED, Code.CLUSTER_OVERCOMMITTED))


def is_foreseen(snapshot: Snapshot, diagnosis: Diagnosis | None) -> bool:
    """Whether a job with this diagnosis starts when enough is free for it; None for one that starts now."""
    if diagnosis is None:
        return True
    if diagnosis.code is Code.RESERVED:  # for a gang; the windows of NodeReservations are not foreseen
        return not snapshot.node_reservations
    if diagnosis.code in (Code.QUEUE_CAPABILITY, Code.QUEUE_ORDER, Code.LOW_PRIORITY):
        return True
    return diagnosis.diagnosis_class in (DiagnosisClass.CAPACITY, DiagnosisClass.IN_PROGRESS)


def is_under_way(diagnosis: Diagnosis | None) -> bool:
    """Whether the job starts as soon as something ends that is under way. When that is, cannot be said."""
    return diagnosis is not None and diagnosis.diagnosis_class is DiagnosisClass.IN_PROGRESS


def waits_by_rule(diagnosis: Diagnosis) -> bool:
    """Whether a rule that is foreseen keeps the job waiting although enough is free for it."""
    return diagnosis.code in RULES


def rules(snapshot: Snapshot, config: Config) -> Rules:
    """The rules by which the scheduler starts jobs, as far as they are foreseen."""
    queues = snapshot.queues
    plugins = {plugin.name: plugin.arguments for tier in config.tiers for plugin in tier}
    paths = {name: (name, *ancestors(queues, name)) for name in queues}
    room: dict[str, Vector] = {}
    promised: dict[str, Vector] = {}
    limited = not LIMITING.isdisjoint(plugins)
    for name, queue in queues.items() if limited else ():
        if queue.capability:
            limit = snapshot.resources.vector(queue.capability, missing=math.inf)
            below = [snapshot.totals[each] for each in queues if name in paths[each]]
            room[name] = limit - np.sum([each.allocated for each in below], axis=0)
            promised[name] = np.sum([each.inqueue for each in below], axis=0)
    limited_by = {name: tuple(each for each in path if each in room) for name, path in paths.items()}
    admissible: Vector | None = None
    if "enqueue" in config.actions and (limited or "overcommit" in plugins):
        factor = 1.0 if limited else plugins["overcommit"].number("overcommit-factor", 1.2)
        inqueue: Vector = np.sum([totals.inqueue for totals in snapshot.totals.values()], axis=0)
        admissible = snapshot.total * factor - snapshot.held - inqueue
    reservation = plugins.get("reservation")
    return Rules(
        room,
        {name: path for name, path in limited_by.items() if path},
        frozenset(name for name, queue in queues.items() if queue.dequeue_strategy == "fifo"),
        admissible,
        promised,
        *(() if reservation is None else (depth(reservation), starvation(reservation), _possible(snapshot))),
    )


def _possible(snapshot: Snapshot) -> Vector:
    """Free resources once all pods of jobs have ended."""
    free = snapshot.allocatable.copy()
    for row, tasks in enumerate(snapshot.tasks_on):
        for task in tasks.values():
            if not task.job:
                free[row] -= task.request
    return free
