"""preempt: inside a queue, starving jobs evict pods of less important jobs."""

from volcano.model.job import Job
from volcano.model.status import EVICTABLE
from volcano.scheduler.actions.eviction import evict_for_starving_jobs, is_starving
from volcano.scheduler.engine.answers import Purpose
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.eviction.victim_index import Scope, VictimIndex
from volcano.scheduler.engine.eviction.victim_search import EvictionRules, VictimSearch
from volcano.scheduler.engine.placement.job_queue import pending
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.eviction import region

ARGUMENTS = (
    Argument("predicateErrorCacheEnable", Type.BOOLEAN),
    Argument("enableTopologyAwarePreemption", Type.BOOLEAN),
    Argument("topologyAwarePreemptWorkerNum"),
    Argument("minCandidateNodesPercentage"),
    Argument("minCandidateNodesAbsolute"),
    Argument("maxCandidateNodesAbsolute"),
)

BETWEEN_JOBS = EvictionRules(Purpose.PREEMPT, Scope.SAME_QUEUE)
INSIDE_JOB = EvictionRules(Purpose.PREEMPT, Scope.SAME_JOB)


def preempt(session: Session) -> None:
    """Evicts between the jobs of each queue, then inside each job of it that still starves."""
    for queue, index in evict_for_starving_jobs(session, BETWEEN_JOBS).items():
        for job in [job for job in session.active_jobs() if job.queue == queue and is_starving(session, job)]:
            with session.attempt(job):
                _preempt_inside(session, job, index)


def _preempt_inside(session: Session, job: Job, index: VictimIndex) -> None:
    """More important tasks of a job replace less important ones, one at a time."""
    if not any(job.count(status) for status in EVICTABLE):
        return
    queue = session.queue(job)
    search = VictimSearch(session, job, queue, index, INSIDE_JOB)
    for task in pending(session, job, lambda task: task.shape.preempts):
        if session.topology.demand(job) is not None:
            within = region(session, job, task)
            search = VictimSearch(session, job, queue, index, INSIDE_JOB, within=within)
        with session.ledger.statement() as statement:
            if not search.make_room((task,)):
                return
            statement.commit()
