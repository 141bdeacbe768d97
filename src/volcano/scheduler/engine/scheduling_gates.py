"""Queue-admission gate: removed from pods when their queue has capacity; autoscalers ignore gated pods."""

from collections.abc import Iterator

from volcano.kube.names import QUEUE_GATE
from volcano.model.decisions import RemoveGate
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.job_queue import JobQueue, TaskQueue
from volcano.scheduler.engine.plugin import Rejection
from volcano.scheduler.engine.session import Session

FEATURE = "SchedulingGatesQueueAdmission"


def remove_gates(session: Session) -> None:
    """Removes the gate from pods that their queue can take, in policy order, counting each as if it were
    placed. Pods whose gate was removed in an earlier cycle and that have no node yet are counted first."""
    task_queues = [
        TaskQueue(job, tasks) for job in session.active_jobs() if (tasks := _gated_tasks(session, job))
    ]
    if not any(task.gates for task_queue in task_queues for task in task_queue.tasks):
        return
    with session.ledger.statement():  # never committed
        for task_queue in task_queues:
            for task in task_queue.tasks:
                if not task.gates:
                    session.policy.assume(task)
        for queue, task_queue in JobQueue(session, task_queues).drain(lambda queue: queue.open):
            with session.attempt(task_queue.job):
                session.gates.extend(_remove_gates(session, queue, task_queue))


def _gated_tasks(session: Session, job: Job) -> list[Task]:
    """Gated pods of an admitted job, and pods without a node whose gate was removed earlier."""
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


def _remove_gates(session: Session, queue: Queue, task_queue: TaskQueue) -> Iterator[RemoveGate]:
    policy = session.policy
    for task in sorted(task_queue.tasks, key=policy.task_order):
        if not task.gates:
            continue
        if policy.allocatable(queue, task) > 0:
            policy.assume(task)
            yield RemoveGate(task.uid, task.namespace, task.name)
        else:
            rejection = policy.why_not_allocatable(queue, task)
            rejection = rejection or Rejection(
                f"queue {queue.name} may not take more", Code.QUEUE_CAPABILITY, queue=queue.name
            )
            session.record(from_rejection(task_queue.job.uid, "queue", rejection, task.name))
