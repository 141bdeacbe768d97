"""allocate: places pending tasks, one job at a time; the placements of a job are committed only if it is
ready."""

import msgspec

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.task import Task
from volcano.scheduler.actions.awaited_gangs import AWAITED, TIMEOUT, AwaitedGangs
from volcano.scheduler.actions.scheduling_gates import FEATURE, remove_gates
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.diagnosis import closed, from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.placement.gang import (
    complete_with_best_effort,
    place_run,
    place_tasks,
    record_queue_rejection,
)
from volcano.scheduler.engine.placement.impossible import oversized_gang, oversized_job
from volcano.scheduler.engine.placement.job_queue import JobQueue, TaskQueue, pending
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.reasons import STAGE as TOPOLOGY
from volcano.scheduler.engine.topology.search import place_in_domains

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
    if not awaited:
        _allocate(session, task_queues)
    else:
        session.memory[AWAITED] = awaited.memory
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
                in_domain = _place(session, queue, task_queue, is_last=is_last)
                ready, blocked = policy.job_ready(job), False
                if ready:
                    statement.commit()
                elif policy.is_pipelined(job):
                    statement.keep()
                else:
                    blocked = True
                    if not in_domain:
                        _try_remaining(session, queue, task_queue)
                    _record_oversized(session, job)
            if blocked:
                policy.job_blocked(job)
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
        rejection = closed(queue, f"queue {queue.name} is {queue.state}, it takes nothing")
    elif session.policy.overused(queue):
        for uid in jobs.waiting(queue.name):
            job = session.snapshot.jobs[uid]
            with session.inquiry(job):
                record_queue_rejection(session, queue, job, jobs.next_task(uid))
        return False
    else:
        return True
    for uid in jobs.waiting(queue.name):
        session.diagnoses.record(from_rejection(uid, "queue", rejection))
    return False


def _place(session: Session, queue: Queue, task_queue: TaskQueue, *, is_last: bool) -> bool:
    """Places the tasks of a job; returns whether its network topology decided where, or that it waits."""
    job = task_queue.job
    demand = session.topology.demand(job)
    if demand is not None and place_in_domains(session, queue, task_queue, demand, is_last=is_last):
        return True
    place_tasks(session, queue, task_queue, is_last=is_last)
    if job.best_effort_pending:
        complete_with_best_effort(session, queue, job)
    return False


def _try_remaining(session: Session, queue: Queue, task_queue: TaskQueue) -> None:
    """Records what could be placed of a job that may not start. Tasks that were not tried yet are placed for that; the
    caller undoes everything."""
    while task_queue:
        run = task_queue.run(len(task_queue.tasks))
        count = session.policy.allocatable(queue, run[0], len(run))
        placed = place_run(session, queue, run[:count]) if count > 0 else None
        task_queue.take(placed if isinstance(placed, int) else len(run))
    session.diagnoses.record_schedulable(task_queue.job)


def _record_oversized(session: Session, job: Job) -> None:
    """Adds to the reasons of a job that may not start that it never can, if so."""
    known = session.diagnoses.by_job.get(job.uid)
    rejection = oversized_job(session, job)
    if rejection is None and (known is None or known.code.rank):  # otherwise a pod fits on no node at all
        rejection = oversized_gang(session, job)
    if rejection is not None:
        stage = "queue" if rejection.code is Code.QUEUE_TOO_SMALL else "resources"
        found = from_rejection(job.uid, stage, rejection)
        if known is not None and not known.code.rank:  # says more exactly why never
            found = msgspec.structs.replace(found, code=known.code, amounts=known.amounts)
        if known is not None and (known.nodes or known.stage == TOPOLOGY):
            text = f"{found.message}; {known.message}"
            found = msgspec.structs.replace(
                found, message=text, nodes=known.nodes, reasons=known.reasons, causes=known.causes
            )
        session.diagnoses.record(found)
