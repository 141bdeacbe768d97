"""What estimates foresee: free resources, the capability of queues, their order and reservations.

Shares of queues, quotas, budgets, topology and whatever else makes jobs wait are not foreseen: nothing is claimed then.
"""

import math

import numpy as np

from volcano.analysis.forecast import QueueLimits
from volcano.model.queue import ancestors
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass

LIMITING = frozenset(("proportion", "capacity"))  # plugins that enforce the capability of queues
# Rules by which a job waits although enough is free for it.
RULES = frozenset((Code.QUEUE_ORDER, Code.RESERVED, Code.CLUSTER_OVERCOMMITTED))


def is_foreseen(snapshot: Snapshot, diagnosis: Diagnosis | None) -> bool:
    """Whether a job with this diagnosis starts when enough is free for it; None for one that starts now."""
    if diagnosis is None:
        return True
    if diagnosis.code is Code.RESERVED:  # for a gang; the windows of NodeReservations are not foreseen
        return not snapshot.node_reservations
    if diagnosis.code in (Code.QUEUE_CAPABILITY, Code.QUEUE_ORDER):
        return True
    return diagnosis.diagnosis_class in (DiagnosisClass.CAPACITY, DiagnosisClass.IN_PROGRESS)


def is_under_way(diagnosis: Diagnosis | None) -> bool:
    """Whether the job starts as soon as something ends that is under way. When that is, cannot be said."""
    return diagnosis is not None and diagnosis.diagnosis_class is DiagnosisClass.IN_PROGRESS


def waits_by_rule(diagnosis: Diagnosis) -> bool:
    """Whether a rule that is foreseen keeps the job waiting although enough is free for it."""
    return diagnosis.code in RULES


def queue_limits(snapshot: Snapshot, config: Config) -> QueueLimits:
    """What queues may take beside what they hold."""
    queues = snapshot.queues
    in_order = frozenset(name for name, queue in queues.items() if queue.dequeue_strategy == "fifo")
    if LIMITING.isdisjoint(plugin.name for tier in config.tiers for plugin in tier):
        return QueueLimits(in_order=in_order)
    paths = {name: (name, *ancestors(queues, name)) for name in queues}
    room: dict[str, Vector] = {}
    for name, queue in queues.items():
        if queue.capability:
            limit = snapshot.resources.vector(queue.capability, missing=math.inf)
            held = [snapshot.totals[each].allocated for each in queues if name in paths[each]]
            room[name] = limit - np.sum(held, axis=0)
    limited_by = {name: tuple(each for each in path if each in room) for name, path in paths.items()}
    return QueueLimits(room, {name: path for name, path in limited_by.items() if path}, in_order)
