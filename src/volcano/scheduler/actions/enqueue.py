"""enqueue: admits jobs, so that their pods are created."""

from volcano.model.queue import Queue, ancestors
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.diagnosis import Rejection, closed, from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.placement.impossible import oversized_job
from volcano.scheduler.engine.placement.job_queue import JobQueue, TaskQueue
from volcano.scheduler.engine.session import Session

CLOSED = "queue {} is {}, it takes no jobs"


def enqueue(session: Session) -> None:
    """Admits Pending jobs, queue by queue, if no plugin rejects them; a rejected job does not block others."""
    ledger, policy = session.ledger, session.policy
    waiting = [TaskQueue(job, []) for job in session.active_jobs() if ledger.phase(job) == "Pending"]
    for queue, task_queue in (work := JobQueue(session, waiting)).drain(lambda queue: True):
        job = task_queue.job
        with session.attempt(job):
            if job.group.malformed:
                rejection: Rejection | None = Rejection(job.group.malformed, Code.MALFORMED)
            elif not queue.open:
                rejection = closed(queue, CLOSED.format(queue.name, queue.state))
            elif blocked := _exhausted_budget(session, queue):
                rejection = blocked
            else:
                vote = Vote.PERMIT if job.group.min_resources is None else policy.job_enqueueable(job)
                rejection = vote if isinstance(vote, Rejection) else None
            if rejection is None:
                policy.job_enqueued(job)
                ledger.set_phase(job, "Inqueue")
                continue
            rejection = oversized_job(session, job) or rejection
            session.diagnoses.record(from_rejection(job.uid, "enqueue", rejection))
            if queue.dequeue_strategy == "fifo":
                work.block(queue.name, "enqueue")


def _exhausted_budget(session: Session, queue: Queue) -> Rejection | None:
    """Rejection of new jobs because a budget of the queue or of an ancestor is used up."""
    queues = session.snapshot.queues
    for name in (queue.name, *ancestors(queues, queue.name)):
        if message := queues[name].exhausted_budget:
            return Rejection(f"queue {name}: {message}", Code.BUDGET_EXHAUSTED)
    return None
