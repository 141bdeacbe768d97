"""Limits of queues that keep a gang waiting whatever is free on nodes: nothing is reserved for it then."""

import math

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import ancestors
from volcano.model.resources import STEP, Vector
from volcano.model.snapshot import Snapshot


def exceeds_capability(snapshot: Snapshot, job: Job, need: Vector) -> bool:
    """Whether a queue of the job, or one above it, would hold more than its capability with this request."""
    queues, totals = snapshot.queues, snapshot.totals
    for name in (job.queue, *ancestors(queues, job.queue)):
        if not queues[name].capability:
            continue
        limit = snapshot.resources.vector(queues[name].capability, missing=math.inf)
        within = [each for each in queues if each == name or name in ancestors(queues, each)]
        held: Vector = np.sum([totals[each].allocated for each in within], axis=0)
        if bool(((held + need > limit + STEP) & (need > 0)).any()):
            return True
    return False
