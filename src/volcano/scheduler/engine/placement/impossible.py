"""Requests that cannot be met however long a job waits: more than the cluster, a queue or any node has.

The texts contain only amounts that jobs, queues and nodes declare: amounts in use change all the time, and every
change of a text is written to the server for every waiting job.
"""

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import ancestors
from volcano.model.resources import CPU, MEMORY, Vector, first_over, shown
from volcano.model.status import COMPLETED
from volcano.scheduler.engine.diagnosis import Amount, Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.placement.cycle import PlacementCycle


def oversized_job(session: PlacementCycle, job: Job) -> Rejection | None:
    """Why the minimum of a job exceeds the cluster, or the capability of its queue or of an ancestor."""
    need = _minimum(job)
    if need is None or first_over(need, _largest_minimum(session, job.queue)) is None:
        return None
    # Pods of other schedulers may go, and nodes may become usable again: not impossible for good.
    cluster = (
        Code.INSUFFICIENT_RESOURCES
        if first_over(need, session.whole_cluster) is None
        else Code.CLUSTER_TOO_SMALL
    )
    cluster = cluster if len(session.nodes) else Code.NO_NODES
    rejection = _exceeds(session, need, session.snapshot.total, cluster, "the cluster has")
    for name in (job.queue, *ancestors(session.snapshot.queues, job.queue)):
        if rejection is not None:
            break
        text = f"the capability of queue {name} is"
        rejection = _exceeds(session, need, _capability(session, name), Code.QUEUE_TOO_SMALL, text, name)
    return rejection


def _largest_minimum(session: PlacementCycle, queue: str) -> Vector:
    """Most of each resource that a job of a queue may need; computed once per cycle."""
    found = session.largest_minimum.get(queue)
    if found is None:
        found = session.snapshot.total
        for name in (queue, *ancestors(session.snapshot.queues, queue)):
            found = np.minimum(found, _capability(session, name))
        session.largest_minimum[queue] = found
    return found


def _capability(session: PlacementCycle, queue: str) -> Vector:
    limit = session.resources.vector(session.snapshot.queues[queue].capability, missing=np.inf)
    limit[[CPU, MEMORY]] = np.where(limit[[CPU, MEMORY]] > 0, limit[[CPU, MEMORY]], np.inf)
    return limit


def oversized_gang(session: PlacementCycle, job: Job) -> Rejection | None:
    """Why the nodes could not host the minimum of a job even if all were empty: there are too few large enough ones."""
    for uid in session.diagnoses.fit_errors.get(job.uid, ()):
        task = job.tasks[uid]
        room = session.placer.room_if_empty(task, job.queue)
        if room >= len(job.tasks):
            continue  # the usual case
        unfinished = [each for each in job.tasks.values() if each.status not in COMPLETED]
        alike = sum(1 for each in unfinished if each.shape is task.shape)
        needed = job.min_available - (len(job.tasks) - alike)
        if room < needed:
            text = (
                f"impossible: if all nodes were empty, they would have room for {room} of {needed} pods like"
            )
            return Rejection(f"{text} {task.name}", Code.CLUSTER_TOO_SMALL)
    return None


def _minimum(job: Job) -> Vector | None:
    """Resources without which the job cannot start; None when they are not known."""
    if len(job.tasks) < max(job.min_available, 1):
        return job.min_resources if job.group.min_resources is not None else None
    if job.min_available >= len(job.tasks):
        return job.requested
    # Which tasks start is open: at least the smallest ones.
    unfinished = [each.request for each in job.tasks.values() if each.status not in COMPLETED]
    needed = job.min_available - (len(job.tasks) - len(unfinished))
    if needed <= 0:
        return None
    least: Vector = np.sort(np.array(unfinished), axis=0)[:needed].sum(axis=0)
    return least


def _exceeds(
    session: PlacementCycle, need: Vector, limit: Vector, code: Code, what: str, queue: str = ""
) -> Rejection | None:
    column = first_over(need, limit)
    if column is None:
        return None
    name, wanted, most = session.resources.names[column], need.item(column), limit.item(column)
    text = f"impossible: the job needs {name} {shown(name, wanted)}, {what} {shown(name, most)}"
    amount = Amount(name, wanted, most, most)
    return Rejection(text, code, resource=name, need=wanted, have=most, queue=queue, amounts=(amount,))
