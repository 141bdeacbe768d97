"""The queue-admission gate: taken off pods whose queue has room for them; the others stay invisible to autoscalers."""

from collections.abc import Iterator

from volcano.kube.names import QUEUE_GATE
from volcano.model.decisions import RemoveGate
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import refused
from volcano.scheduler.engine.job_queue import Sheet, Worklist
from volcano.scheduler.engine.plugin import Rejection
from volcano.scheduler.engine.session import Session

FEATURE = "SchedulingGatesQueueAdmission"


def lift_gates(session: Session) -> None:
    """Asks queues about gated pods as if each were placed, in policy order; nothing of that stays but the answers.

    Pods whose gate was taken off before and that found no node yet are counted first: what was promised is promised.
    """
    sheets = [Sheet(job, tasks) for job in session.active_jobs() if (tasks := _concerned(session, job))]
    if not any(task.gates for sheet in sheets for task in sheet.tasks):
        return
    with session.ledger.statement():  # never committed
        for sheet in sheets:
            for task in sheet.tasks:
                if not task.gates:
                    session.policy.assume(task)
        for queue, sheet in Worklist(session, sheets).turns(lambda queue: queue.open):
            with session.attempt(sheet.job):
                session.gates.extend(_admitted(session, queue, sheet))


def _concerned(session: Session, job: Job) -> list[Task]:
    """The pods of an admitted job that wait behind the gate, or waited there and have no node yet."""
    if session.ledger.phase(job) == "Pending" or job.group.malformed or not session.valid(job):
        return []
    return [
        task
        for task in job.by_status.get(Status.PENDING, ())
        if task.annotations.get(QUEUE_GATE) == "true"
        and task.gates in ((), (QUEUE_GATE,))
        and not task.malformed
        and session.ledger.status(task) is Status.PENDING
    ]


def _admitted(session: Session, queue: Queue, sheet: Sheet) -> Iterator[RemoveGate]:
    policy = session.policy
    for task in sorted(sheet.tasks, key=policy.task_order):
        if not task.gates:
            continue
        if policy.allocatable(queue, task) > 0:
            policy.assume(task)
            yield RemoveGate(task.uid, task.namespace, task.name)
        else:
            refusal = policy.why_not_allocatable(queue, task)
            refusal = refusal or Rejection(f"queue {queue.name} may not take more", "QueueLimit")
            session.judge(refused(sheet.job.uid, "queue", refusal, task.name))
