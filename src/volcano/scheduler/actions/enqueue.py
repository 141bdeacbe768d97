"""enqueue: admit jobs, which lets their pods be created."""

from volcano.model.decisions import Tell
from volcano.scheduler.engine.diagnosis import refused
from volcano.scheduler.engine.job_queue import Sheet, Worklist
from volcano.scheduler.engine.plugin import Rejection
from volcano.scheduler.engine.session import Session

CLOSED = "queue {} is {}, it takes no jobs"


def enqueue(session: Session) -> None:
    """Lets Pending jobs in, queue by queue, while everybody who has a say agrees; a refused head blocks nobody."""
    ledger, policy = session.ledger, session.policy
    waiting = [Sheet(job, []) for job in session.active_jobs() if ledger.phase(job) == "Pending"]
    for queue, sheet in (work := Worklist(session, waiting)).turns(lambda queue: True):
        job = sheet.job
        with session.attempt(job):
            if job.group.malformed:
                refusal: Rejection | None = Rejection(job.group.malformed, "Malformed")
            elif not queue.open:
                refusal = Rejection(CLOSED.format(queue.name, queue.state), "QueueClosed")
            else:
                refusal = None if job.group.min_resources is None else policy.job_enqueueable(job)
            if refusal is None:
                policy.job_enqueued(job)
                ledger.set_phase(job, "Inqueue")
                continue
            session.judge(refused(job.uid, "enqueue", refusal))
            session.tell(Tell(job.uid, job.namespace, job.name, "Normal", "Unschedulable", refusal.message))
            if queue.dequeue_strategy == "fifo":
                work.hold(queue.name, "enqueue")
