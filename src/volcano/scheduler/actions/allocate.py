"""allocate: places pending tasks, one job at a time; the placements of a job are committed only if it is
ready."""

from dataclasses import replace

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import HOLDING, READY, Status
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.awaited_gangs import TIMEOUT, AwaitedGangs
from volcano.scheduler.engine.diagnosis import FitError, from_rejection
from volcano.scheduler.engine.impossible import QUEUE, oversized_job
from volcano.scheduler.engine.job_queue import JobQueue, TaskQueue, pending
from volcano.scheduler.engine.placement import Choice
from volcano.scheduler.engine.plugin import Rejection
from volcano.scheduler.engine.scheduling_gates import FEATURE, remove_gates
from volcano.scheduler.engine.session import Session

TIMEOUT_ARGUMENT = "admittedGangTimeout"
ARGUMENTS = (
    Argument("predicateErrorCacheEnable", Type.BOOLEAN),
    # How long the minimum of an admitted gang is kept free until its pods exist; 0s: not at all.
    Argument(TIMEOUT_ARGUMENT, Type.DURATION),
)


def allocate(session: Session) -> None:
    """Processes queues and jobs in policy order; each step brings one job to its minimum, or one task
    further."""
    task_queues = []
    for job in session.active_jobs():
        with session.inquiry(job):
            if task_queue := _task_queue(session, job):
                task_queues.append(task_queue)
    awaited = AwaitedGangs(session, session.config.arguments("allocate").duration(TIMEOUT_ARGUMENT, TIMEOUT))
    session.awaited_gangs = awaited.since
    if not awaited:
        _allocate(session, task_queues)
    else:
        _allocate_beside(session, task_queues, awaited)
    if FEATURE in session.config.features:
        remove_gates(session)


def _allocate_beside(session: Session, task_queues: list[TaskQueue], awaited: AwaitedGangs) -> None:
    """Places all minimums, then tasks beyond them where this leaves the awaited gangs theirs."""
    further = _allocate(session, task_queues, only_minimums=True)
    if not further:
        return
    priority = awaited.priority
    _allocate(session, [each for each in further if each.job.priority > priority])
    awaited.reserve()
    try:
        _allocate(session, [each for each in further if each.job.priority <= priority])
    finally:
        awaited.release()


def _allocate(
    session: Session, task_queues: list[TaskQueue], *, only_minimums: bool = False
) -> list[TaskQueue]:
    """Places tasks; with `only_minimums`, returns the jobs that are ready and have tasks left."""
    ledger, policy = session.ledger, session.policy
    further: list[TaskQueue] = []
    jobs = JobQueue(session, task_queues)
    for queue, task_queue in jobs.drain(lambda queue: _may_allocate(session, queue, jobs)):
        job = task_queue.job
        if only_minimums and policy.job_ready(job):
            further.append(task_queue)
            continue
        with session.attempt(job):
            with ledger.statement() as statement:
                is_last = not only_minimums and jobs.is_last(queue.name)
                _place(session, queue, task_queue, is_last=is_last)
                if job.best_effort_pending:
                    _complete_with_best_effort(session, queue, job)
                ready = policy.job_ready(job)
                if ready:
                    statement.commit()
                elif policy.job_pipelined(job):
                    statement.keep()
                else:
                    _record_blocked_gang(session, queue, task_queue)
            if ready and task_queue:
                jobs.requeue(task_queue)
            elif not ready and queue.dequeue_strategy == "fifo":
                jobs.block(queue.name, "queue")
    return further


def _task_queue(session: Session, job: Job) -> TaskQueue | None:
    """Tasks of the job to place; None when it has none, is invalid, or is not admitted yet."""
    if session.ledger.phase(job) == "Pending":
        if session.admits:
            return None
        session.ledger.set_phase(job, "Inqueue")
    if job.group.malformed or not session.valid(job):
        return None
    tasks = pending(session, job, lambda task: not task.best_effort)
    if job.sub_jobs:
        tasks = _by_sub_job(session, job, tasks)
    return TaskQueue(job, tasks) if tasks else None


def _by_sub_job(session: Session, job: Job, tasks: list[Task]) -> list[Task]:
    """Tasks ordered by sub-group: first the groups required to reach each policy's minimum, then the rest."""
    policy = session.policy
    ordered = sorted(job.sub_jobs.values(), key=policy.sub_job_order)
    ready: dict[str, int] = {}
    for sub_job in ordered:
        ready[sub_job.policy] = ready.get(sub_job.policy, 0) + policy.sub_job_ready(job, sub_job)
    minimum = {rule.name: rule.min_groups for rule in job.group.sub_groups}
    required: list[str] = []
    rest: list[str] = []
    for sub_job in ordered:
        lacking = not policy.sub_job_ready(job, sub_job) and ready[sub_job.policy] < minimum.get(
            sub_job.policy, 0
        )
        ready[sub_job.policy] += lacking
        (required if lacking else rest).append(sub_job.uid)
    rank = {uid: i for i, uid in enumerate([*required, *rest])}
    return sorted(tasks, key=lambda task: rank[job.sub_job_of[task.uid]])


def _may_allocate(session: Session, queue: Queue, jobs: JobQueue) -> bool:
    """Whether a queue may allocate more; otherwise records the reason for its waiting jobs."""
    if not queue.open:
        rejection = Rejection(f"queue {queue.name} is {queue.state}, it takes nothing", "QueueClosed")
    elif session.policy.overused(queue):
        for uid in jobs.waiting(queue.name):
            job = session.snapshot.jobs[uid]
            with session.inquiry(job):
                _record_queue_rejection(session, queue, job, jobs.next_task(uid))
        return False
    else:
        return True
    for uid in jobs.waiting(queue.name):
        session.record(from_rejection(uid, "queue", rejection))
    return False


def _record_blocked_gang(session: Session, queue: Queue, task_queue: TaskQueue) -> None:
    """Records what could be placed of a job that may not start. Tasks that were not tried yet are placed for that; the
    caller undoes everything."""
    while task_queue:
        run = task_queue.run(len(task_queue.tasks))
        count = session.policy.allocatable(queue, run[0], len(run))
        placed = _place_run(session, queue, task_queue.job, run[:count]) if count > 0 else None
        task_queue.take(placed if isinstance(placed, int) else len(run))
    session.record_schedulable(task_queue.job)
    rejection = oversized_job(session, task_queue.job)
    if rejection is not None:
        stage = "queue" if rejection.reason == QUEUE else "resources"
        found = from_rejection(task_queue.job.uid, stage, rejection)
        known = session.diagnoses.get(task_queue.job.uid)
        if known is not None and known.nodes:
            text = f"{found.message}; {known.message}"
            found = replace(found, message=text, nodes=known.nodes, reasons=known.reasons)
        session.record(found)


def _place(session: Session, queue: Queue, task_queue: TaskQueue, *, is_last: bool) -> None:
    """Places tasks until the job is ready, or all tasks when it is the last job."""
    job, policy = task_queue.job, session.policy
    failed: set[str] = set()
    while task_queue:
        short = policy.job_short(job)
        most = len(task_queue.tasks) if is_last and short <= 0 else max(short, 1)
        run = task_queue.run(most)
        count = policy.allocatable(queue, run[0], len(run))
        if count <= 0:
            _record_queue_rejection(session, queue, job, run[0])
            task_queue.take(len(task_queue.run(len(task_queue.tasks))))
            continue
        placed = _place_run(session, queue, job, run[:count])
        if isinstance(placed, FitError):
            session.record_fit_error(job, run[0], placed)
            failed.add(run[0].role)
            task_queue.take(len(task_queue.run(len(task_queue.tasks))))
            if not _may_continue(session, job, failed):
                return
            continue
        task_queue.take(placed)
        if policy.job_ready(job) and not is_last:
            return


def _complete_with_best_effort(session: Session, queue: Queue, job: Job) -> None:
    """Places best-effort tasks if the gang lacks only them: it starts as a whole. Others are left to backfill."""
    short = session.policy.job_short(job)
    if short <= 0:
        return
    tasks = pending(session, job, lambda task: task.best_effort)
    if tasks and short - session.ledger.waiting(job) <= len(tasks):
        _place(session, queue, TaskQueue(job, tasks), is_last=False)


def _place_run(session: Session, queue: Queue, job: Job, run: list[Task]) -> int | FitError:
    """Places the first of these identical tasks, or several at once; returns how many, or why none."""
    ledger, placer = session.ledger, session.placer
    if len(run) > 1 and not run[0].nominated:
        rows = placer.place_run(run, queue.name)
        if rows and ledger.allocate_run(run[: len(rows)], rows) is None:
            return len(rows)
    task = run[0]
    answer = _nominated(session, queue, task) or placer.place(task, queue.name)
    if isinstance(answer, FitError):
        return answer
    rejection = ledger.pipeline(task, answer.row) if answer.pipelined else ledger.allocate(task, answer.row)
    if rejection is not None:
        return FitError(len(session.nodes), rejection=rejection)
    return 1


def _nominated(session: Session, queue: Queue, task: Task) -> Choice | None:
    """The nominated node of the task, if it still fits there."""
    row = session.nodes.row(task.nominated) if task.nominated else None
    if row is None:
        return None
    only = np.zeros(len(session.nodes), dtype=np.bool_)
    only[row] = True
    return session.placer.find(task, queue.name, within=only)


def _record_queue_rejection(session: Session, queue: Queue, job: Job, task: Task) -> None:
    """Records the limit of the queue that the task would exceed, or, if no node fits the task either, the fit error."""
    if session.placer.find(task, queue.name) is None:
        session.record_fit_error(job, task, session.placer.fit_error(task, queue.name))
        return
    rejection = session.policy.why_not_allocatable(queue, task)
    if rejection is None:
        message = f"queue {queue.name} may not take more of what {task.name} asks for"
        rejection = Rejection(message, "QueueLimit")
    session.record(from_rejection(job.uid, "queue", rejection, task.name))


def _may_continue(session: Session, job: Job, failed: set[str]) -> bool:
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
