"""shuffle: evicts the running tasks that plugins select."""

from volcano.model.status import Status
from volcano.scheduler.engine.session import Session


def shuffle(session: Session) -> None:
    """Evicts the victims among all running tasks; returns at once when no plugin selects victims."""
    if not session.policy.hooks("victim_tasks"):
        return
    ledger = session.ledger
    running = [
        task
        for job in session.snapshot.jobs.values()
        for task in job.by_status.get(Status.RUNNING, ())
        if not ledger.changed(task) and ledger.row(task) is not None
    ]
    for victim in session.policy.victim_tasks(running):
        job = session.snapshot.jobs[victim.job]
        with session.attempt(job):
            ledger.evict(victim, "shuffle")
