"""preempt: inside a queue, jobs that starve take room from less important ones."""

from collections.abc import Iterator

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import EVICTABLE, Status
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.job_queue import Sheet, Worklist, pending
from volcano.scheduler.engine.plugin import Purpose
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.victim_search import Hunter, InnerHunter, Prey, Trails, same_queue

ARGUMENTS = (
    Argument("predicateErrorCacheEnable", Type.BOOLEAN),
    Argument("enableTopologyAwarePreemption", Type.BOOLEAN),
    Argument("topologyAwarePreemptWorkerNum"),
    Argument("minCandidateNodesPercentage"),
    Argument("minCandidateNodesAbsolute"),
    Argument("maxCandidateNodesAbsolute"),
)


def preempt(session: Session) -> None:
    """Queue by queue: first between jobs, then inside each job that starved."""
    prey: dict[str, Prey] = {}
    hopeless: set[object] = set()
    trails = Trails()
    for queue, job in starving(session):
        if job.group.topology is not None:
            continue
        found = prey.get(queue.name)
        if found is None:
            found = prey[queue.name] = same_queue(session, queue.name)
        with session.attempt(job):
            _between_jobs(session, queue, job, found, trails, hopeless)
    for uid in list(prey):
        for job in [job for job in session.active_jobs() if job.queue == uid and _starves(session, job)]:
            with session.attempt(job):
                _inside_job(session, session.queue(job), job, prey[uid])


def starving(session: Session) -> Iterator[tuple[Queue, Job]]:
    """The jobs that lack what they are entitled to, in policy order."""
    sheets = []
    for job in session.active_jobs():
        if not session.ledger.tally(job).counts[Status.PENDING]:
            continue
        with session.inquiry(job):
            if _starves(session, job):
                sheets.append(Sheet(job, []))
    for queue, sheet in Worklist(session, sheets).turns(lambda queue: queue.open):
        yield queue, sheet.job


def _starves(session: Session, job: Job) -> bool:
    if session.ledger.phase(job) == "Pending" or job.group.malformed or not session.valid(job):
        return False
    return job.count(Status.PENDING) > 0 and session.policy.job_starving(job) > 0


def _between_jobs(
    session: Session, queue: Queue, job: Job, prey: Prey, trails: Trails, hopeless: set[object]
) -> None:
    """Surplus members first; gangs are broken, as a whole, only when that was not enough."""
    tasks = pending(session, job, lambda task: task.shape.preempts)
    if not tasks:
        return
    # Nothing was committed since a job like this one failed: it would fail as well.
    mark = (queue.name, job.priority, frozenset(task.shape for task in tasks), len(session.ledger.committed))
    if mark in hopeless:
        return
    for breaking in (False, True):
        hunter = Hunter(session, job, queue, prey, Purpose.PREEMPT, trails, breaking=breaking)
        if fill(session, job, tasks, hunter):
            return
    hopeless.add(mark)


def fill(session: Session, job: Job, tasks: list[Task], hunter: Hunter) -> bool:
    """Makes room for task after task while the job starves; all of it stands only if the whole gang then fits."""
    ledger, policy = session.ledger, session.policy
    marks = hunter.trails.marks()
    with ledger.statement() as statement:
        failed: set[object] = set()
        at = 0
        while at < len(tasks) and (wanted := policy.job_starving(job)):
            task = tasks[at]
            if task.shape in failed or ledger.changed(task):
                at += 1
                continue
            made = hunter.make_room(_alike(job, tasks, at, wanted))
            if not made:
                failed.add(task.shape)
            at += max(made, 1)
        if statement.changes and policy.job_pipelined(job):
            statement.commit()
            return True
    hunter.trails.back_to(marks)
    return False


def _alike(job: Job, tasks: list[Task], start: int, most: int) -> list[Task]:
    """The tasks from `start` on that are alike in all that matters to those who make room for them."""
    first = tasks[start]
    if job.sub_jobs or most == 1:
        return [first]
    end, limit = start + 1, min(start + most, len(tasks))
    while (
        end < limit
        and tasks[end].shape is first.shape
        and tasks[end].role == first.role
        and tasks[end].priority == first.priority
    ):
        end += 1
    return tasks[start:end]


def _inside_job(session: Session, queue: Queue, job: Job, prey: Prey) -> None:
    """More important tasks of a job take the place of less important ones, one at a time."""
    if not any(job.count(status) for status in EVICTABLE):
        return
    hunter = InnerHunter(session, job, queue, prey, Purpose.PREEMPT, breaking=False)
    for task in pending(session, job, lambda task: task.shape.preempts):
        with session.ledger.statement() as statement:
            if not hunter.make_room((task,)):
                return
            statement.commit()
