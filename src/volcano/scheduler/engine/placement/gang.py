"""Gang placement: places the tasks of one job, in runs of identical ones, until it is ready."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Mask
from volcano.model.status import HOLDING, READY, Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import FitError, Rejection, from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.placement.cycle import PlacementCycle
from volcano.scheduler.engine.placement.job_queue import TaskQueue, pending
from volcano.scheduler.engine.placement.placer import Choice


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """Where tasks may be placed: some nodes (None for all), and whether only on idle resources."""

    nodes: Mask | None = None
    idle_only: bool = False


ANYWHERE = Area()
NOT_IN_AREA = FitError(0)


def place_tasks(
    session: PlacementCycle, queue: Queue, task_queue: TaskQueue, *, is_last: bool, area: Area = ANYWHERE
) -> None:
    """Places tasks until the job is ready, or all tasks when it is the last job."""
    job, policy = task_queue.job, session.policy
    failed: set[str] = set()
    while task_queue:
        short = policy.job_short(job)
        most = len(task_queue.tasks) if is_last and short <= 0 else max(short, 1)
        run = task_queue.run(most)
        count = policy.allocatable(queue, run[0], len(run))
        if count <= 0:
            record_queue_rejection(session, queue, job, run[0])
            task_queue.take(len(task_queue.run(len(task_queue.tasks))))
            continue
        placed = place_run(session, queue, run[:count], area)
        if isinstance(placed, FitError):
            if placed is not NOT_IN_AREA:
                session.diagnoses.record_fit_error(job, run[0], placed)
            failed.add(run[0].role)
            task_queue.take(len(task_queue.run(len(task_queue.tasks))))
            if not _may_continue(session, job, failed):
                return
            continue
        task_queue.take(placed)
        if policy.job_ready(job) and not is_last:
            return


def complete_with_best_effort(session: PlacementCycle, queue: Queue, job: Job, area: Area = ANYWHERE) -> None:
    """Places best-effort tasks if the gang lacks only them: it starts as a whole. Others are left to backfill."""
    short = session.policy.job_short(job)
    if short <= 0:
        return
    tasks = pending(session, job, lambda task: task.best_effort)
    if tasks and short - session.ledger.waiting(job) <= len(tasks):
        place_tasks(session, queue, TaskQueue(job, tasks), is_last=False, area=area)


def place_run(
    session: PlacementCycle, queue: Queue, run: Sequence[Task], area: Area = ANYWHERE
) -> int | FitError:
    """Places the first of these identical tasks, or several at once; returns how many, or why none."""
    ledger, placer = session.ledger, session.placer
    if len(run) > 1 and not run[0].nominated:
        rows = placer.find_run(run, queue.name, within=area.nodes)
        if rows and session.scores is not None:
            session.scores.record(run[0], queue.name, rows[0], area.nodes)
        if rows and ledger.allocate_run(run[: len(rows)], rows) is None:
            return len(rows)
    task = run[0]
    answer = _nominated(session, queue, task, area) or placer.find(
        task, queue.name, within=area.nodes, idle_only=area.idle_only
    )
    if answer is None:
        # Why a domain is not enough is reported for all domains together.
        return NOT_IN_AREA if area.nodes is not None else placer.fit_error(task, queue.name)
    if session.scores is not None and not answer.pipelined:
        session.scores.record(task, queue.name, answer.row, area.nodes)
    rejection = ledger.pipeline(task, answer.row) if answer.pipelined else ledger.allocate(task, answer.row)
    if rejection is not None:
        return FitError(len(session.nodes), rejection=rejection)
    return 1


def _nominated(session: PlacementCycle, queue: Queue, task: Task, area: Area) -> Choice | None:
    """The nominated node of the task, if it still fits there."""
    row = session.nodes.row(task.nominated) if task.nominated else None
    if row is None or (area.nodes is not None and not area.nodes[row]):
        return None
    only = np.zeros(len(session.nodes), dtype=np.bool_)
    only[row] = True
    return session.placer.find(task, queue.name, within=only, idle_only=area.idle_only)


def record_queue_rejection(session: PlacementCycle, queue: Queue, job: Job, task: Task) -> None:
    """Records the limit of the queue that the task would exceed and, if no node fits the task either, the fit error;
    the one whose class has precedence is the diagnosis."""
    full = session.placer.find(task, queue.name) is None
    if full:
        session.diagnoses.record_fit_error(job, task, session.placer.fit_error(task, queue.name))
    rejection = _queue_rejection(session, queue, task)
    if rejection is None:
        message = f"queue {queue.name} may not take more of what {task.name} asks for"
        rejection = Rejection(message, Code.QUEUE_CAPABILITY, queue=queue.name)
    if not full or _is_below_cluster(session, rejection):
        session.diagnoses.record(from_rejection(job.uid, "queue", rejection, task.name))


def _queue_rejection(session: PlacementCycle, queue: Queue, task: Task) -> Rejection | None:
    """The limit that a task would exceed; computed once per shape until something is placed."""
    key, touched = (queue.name, task.shape), len(session.ledger.touched)
    known = session.queue_rejections.get(key)
    if known is None or known[0] != touched:
        known = (touched, session.policy.why_not_allocatable(queue, task))
        session.queue_rejections[key] = known
    return known[1]


def _is_below_cluster(session: PlacementCycle, rejection: Rejection) -> bool:
    """Whether a limit holds a queue back beside full nodes. The whole cluster is no limit of its own."""
    column = session.resources.column.get(rejection.resource)
    return (
        rejection.code not in (Code.QUEUE_SHARE, Code.QUEUE_CAPABILITY)
        or column is None
        or rejection.have < session.snapshot.total.item(column) - STEP
    )


def _may_continue(session: PlacementCycle, job: Job, failed: set[str]) -> bool:
    """Whether the job could still become ready although tasks of some roles fit on no node."""
    tally, minimum = session.ledger.tally(job), job.min_available
    if minimum == len(job.tasks):
        return False
    if job.group.sub_groups:
        return True
    roles = job.group.min_task_member
    if minimum < sum(roles.values()):
        left = sum(counts[Status.PENDING] for role, counts in tally.roles.items() if role not in failed)
        return tally.count(READY) + left >= minimum
    occupied = HOLDING | {Status.SUCCEEDED, Status.PIPELINED}
    return all(tally.count_role(role, occupied) >= roles.get(role, 0) for role in failed)
