"""reclaim: across queues, a queue below its deserved share evicts pods of queues above theirs."""

from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.eviction import evict_for_starving_jobs
from volcano.scheduler.engine.plugin import Purpose
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.victim_index import Scope
from volcano.scheduler.engine.victim_search import EvictionRules

ARGUMENTS = (Argument("predicateErrorCacheEnable", Type.BOOLEAN),)

RULES = EvictionRules(
    Purpose.RECLAIM,
    Scope.OTHER_QUEUES,
    job_allowed=lambda session, queue, job: not session.policy.overused(queue),
    tasks_allowed=lambda session, queue, tasks: session.policy.may_reclaim(queue, tasks),
)


def reclaim(session: Session) -> None:
    """Evicts pods of other queues for the starving jobs of queues that are not overused."""
    evict_for_starving_jobs(session, RULES)
