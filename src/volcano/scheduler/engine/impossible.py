"""Requests that cannot be met however long a job waits: more than the cluster, a queue or any node has.

The texts contain only amounts that jobs, queues and nodes declare: amounts in use change all the time, and every
change of a text is written to the server for every waiting job.
"""

from typing import TYPE_CHECKING

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import ancestors
from volcano.model.resources import CPU, MEMORY, PODS, STEP, Vector, shown
from volcano.model.task import Task
from volcano.scheduler.engine.plugin import Rejection

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

CLUSTER, QUEUE = "ClusterTooSmall", "QueueTooSmall"  # reasons of rejections


def oversized_job(session: "Session", job: Job) -> Rejection | None:
    """Why the minimum of a job exceeds the cluster, or the capability of its queue or of an ancestor."""
    need = _minimum(job)
    if need is None:
        return None
    rejection = _exceeds(session, need, session.snapshot.total, CLUSTER, "the cluster has")
    queues = session.snapshot.queues
    for name in (job.queue, *ancestors(queues, job.queue)):
        if rejection is not None:
            break
        limit = session.resources.vector(queues[name].capability, missing=np.inf)
        limit[[CPU, MEMORY]] = np.where(limit[[CPU, MEMORY]] > 0, limit[[CPU, MEMORY]], np.inf)
        rejection = _exceeds(session, need, limit, QUEUE, f"the capability of queue {name} is")
    return rejection


def oversized_task(session: "Session", task: Task) -> str:
    """Sentence that names a resource of which the task requests more than any node has; "" when one is large enough."""
    if not len(session.nodes):
        return ""
    column = _first_over(task.request, session.nodes.allocatable.max(axis=0))
    if column is None:
        return ""
    name = session.resources.names[column]
    wanted = shown(name, task.request.item(column))
    largest = shown(name, float(session.nodes.allocatable[:, column].max()))
    return f"The pod requests {name} {wanted}, the largest node has {largest}."


def _minimum(job: Job) -> Vector | None:
    """Resources without which the job cannot start; None when they are not known."""
    if job.group.min_resources is not None:
        return job.min_resources
    return job.total if job.tasks and job.min_available >= len(job.tasks) else None


def _exceeds(session: "Session", need: Vector, limit: Vector, reason: str, what: str) -> Rejection | None:
    column = _first_over(need, limit)
    if column is None:
        return None
    name, wanted, most = session.resources.names[column], need.item(column), limit.item(column)
    text = f"impossible: the job needs {name} {shown(name, wanted)}, {what} {shown(name, most)}"
    return Rejection(text, reason, resource=name, need=wanted, have=most)


def _first_over(need: Vector, limit: Vector) -> int | None:
    over = (need > 0) & (need >= limit + STEP)
    over[PODS] = False
    return int(over.argmax()) if over.any() else None
