"""backfill: places best-effort tasks, which have no requests, on nodes that pass the filters."""

from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.placement.job_queue import JobQueue, TaskQueue, pending
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.search import place_in_domains

ARGUMENTS = (Argument("predicateErrorCacheEnable", Type.BOOLEAN),)


def backfill(session: Session) -> None:
    """Processes the queues one after the other."""
    task_queues = []
    for job in session.active_jobs():
        if not job.best_effort_pending or session.ledger.phase(job) == "Pending" or job.group.malformed:
            continue
        with session.attempt(job):
            if session.valid(job) and (tasks := candidates(session, job.by_status.get(Status.PENDING, ()))):
                task_queues.append(TaskQueue(job, tasks))
    for queue, task_queue in JobQueue(session, task_queues).drain(lambda queue: queue.open):
        job = task_queue.job
        with session.attempt(job):
            demand = session.topology.demand(job)
            if demand is None or not place_in_domains(session, queue, task_queue, demand, is_last=True):
                _place(session, queue.name, task_queue)


def candidates(session: Session, tasks: tuple[Task, ...]) -> list[Task]:
    """Pending best-effort tasks in task order; those that an earlier action pipelined are pending again."""
    ledger = session.ledger
    for task in tasks:
        if task.best_effort and ledger.status(task) is Status.PIPELINED:
            ledger.unplace(task)
    job = session.snapshot.jobs[tasks[0].job] if tasks else None
    return pending(session, job, lambda task: task.best_effort) if job else []


def _place(session: Session, queue: str, task_queue: TaskQueue) -> None:
    ledger, job = session.ledger, task_queue.job
    with ledger.statement() as statement:
        for task in task_queue.tasks:
            answer = session.placer.find(task, queue)
            if answer is None or answer.pipelined:
                session.diagnoses.record_fit_error(job, task, session.placer.fit_error(task, queue))
                continue
            if session.scores is not None:
                session.scores.record(task, queue, answer.row, None)
            ledger.allocate(task, answer.row)
        if session.policy.job_ready(job):
            statement.commit()
        else:
            statement.keep()
