"""backfill: place the tasks that ask for nothing, wherever the filters let them."""

from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.diagnosis import Misfit
from volcano.scheduler.engine.job_queue import Sheet, Worklist, pending
from volcano.scheduler.engine.session import Session

ARGUMENTS = (Argument("predicateErrorCacheEnable", Type.BOOLEAN),)


def backfill(session: Session) -> None:
    """Serves queue after queue, each drained before the next."""
    sheets = []
    for job in session.active_jobs():
        if not job.best_effort_pending or session.ledger.phase(job) == "Pending" or job.group.malformed:
            continue
        with session.attempt(job):
            if session.valid(job) and (tasks := candidates(session, job.by_status.get(Status.PENDING, ()))):
                sheets.append(Sheet(job, tasks))
    for queue, sheet in Worklist(session, sheets).turns(lambda queue: queue.open):
        with session.attempt(sheet.job):
            _place(session, queue.name, sheet)


def candidates(session: Session, tasks: tuple[Task, ...]) -> list[Task]:
    """The best-effort tasks that wait, in task order; those an earlier action pipelined wait again."""
    ledger = session.ledger
    for task in tasks:
        if task.best_effort and ledger.status(task) is Status.PIPELINED:
            ledger.unplace(task)
    job = session.snapshot.jobs[tasks[0].job] if tasks else None
    return pending(session, job, lambda task: task.best_effort) if job else []


def _place(session: Session, queue: str, sheet: Sheet) -> None:
    ledger, job = session.ledger, sheet.job
    with ledger.statement() as statement:
        for task in sheet.tasks:
            answer = session.placer.place(task, queue)
            if isinstance(answer, Misfit) or answer.later:
                misfit = answer if isinstance(answer, Misfit) else session.placer.misfit(task, queue)
                session.explain(job, task, misfit)
                continue
            ledger.allocate(task, answer.row)
        if session.policy.job_ready(job):
            statement.commit()
        else:
            statement.keep()
