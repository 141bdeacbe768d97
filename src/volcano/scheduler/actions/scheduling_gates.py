"""Queue-admission gate: removed from pods when their queue has capacity; autoscalers ignore gated pods."""

from collections.abc import Iterator, Sequence

from volcano.kube.api.names import QUEUE_GATE
from volcano.model.decisions import RemoveGate
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.queue_reservations import QueueReservation, has_timed_out
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Rejection, from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.placement.job_queue import JobQueue, TaskQueue
from volcano.scheduler.engine.policy import Policy
from volcano.scheduler.engine.session import Session

FEATURE = "SchedulingGatesQueueAdmission"


def remove_gates(session: Session) -> None:
    """Removes the gate from pods that their queue can take, in policy order, counting each as if it were placed.

    Pods whose gate was removed in an earlier cycle and that have no node yet are counted first, for as long as their
    job says; after that, jobs with gated pods come before them.
    """
    task_queues = [
        TaskQueue(job, tasks) for job in session.active_jobs() if (tasks := _gated_tasks(session, job))
    ]
    if not task_queues:
        return
    now = session.snapshot.now
    late = [each for each in task_queues if has_timed_out(each.job, now)]
    in_time = [each for each in task_queues if not has_timed_out(each.job, now)]
    with session.ledger.statement():  # never committed
        for task_queue in in_time:
            without_gates = [task for task in task_queue.tasks if not task.gates]
            for task in without_gates:
                _assume(session.policy, task)
            _reserve(session, task_queue.job, without_gates)
        gated = [each for each in in_time if any(task.gates for task in each.tasks)]
        for line in (gated, late):
            for queue, task_queue in JobQueue(session, line).drain(lambda queue: queue.open):
                with session.attempt(task_queue.job):
                    session.gates.extend(_remove_gates(session, queue, task_queue, late=line is late))
        for task_queue in late:
            # Its queue is closed, or a plugin failed.
            if task_queue.job.uid not in session.queue_reservations:
                _reserve(session, task_queue.job, [], [task for task in task_queue.tasks if not task.gates])


def _reserve(session: Session, job: Job, tasks: Sequence[Task], timed_out: Sequence[Task] = ()) -> None:
    """Records what pods without a node hold of their queue."""
    if tasks or timed_out:
        amount = sum((task.request for task in tasks), session.resources.zeros())
        renewed = has_timed_out(job, session.snapshot.now)
        session.queue_reservations[job.uid] = QueueReservation(len(tasks), amount, len(timed_out), renewed)


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


def _remove_gates(
    session: Session, queue: Queue, task_queue: TaskQueue, *, late: bool
) -> Iterator[RemoveGate]:
    """Gates to be removed; the pods of a `late` job that have none get their room again where there is some."""
    policy = session.policy
    tasks = sorted(task_queue.tasks, key=policy.task_order)
    if late:
        held: list[Task] = []
        timed_out: list[Task] = []
        for task in tasks:
            if not task.gates:
                fits = policy.allocatable(queue, task, 1) > 0
                (held if fits else timed_out).append(task)
                if fits:
                    _assume(policy, task)
        _reserve(session, task_queue.job, held, timed_out)
    for task in tasks:
        if not task.gates:
            continue
        if policy.allocatable(queue, task, 1) > 0:
            _assume(policy, task)
            yield RemoveGate(task.uid, task.namespace, task.name)
        else:
            rejection = policy.why_not_allocatable(queue, task)
            rejection = rejection or Rejection(
                f"queue {queue.name} may not take more", Code.QUEUE_CAPABILITY, queue=queue.name
            )
            session.diagnoses.record(from_rejection(task_queue.job.uid, "queue", rejection, task.name))


def _assume(policy: Policy, task: Task) -> None:
    """Accounts for a task in its queue as if it were placed on some node; the statement is undone."""
    limiting = {name for name, _ in policy.hooks("allocatable").named}
    for name, on_allocate in policy.hooks("on_allocate").named:
        if name in limiting:
            on_allocate((task,), ())
