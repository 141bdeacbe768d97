"""reclaim: across queues, a queue below its deserved share evicts pods of queues above theirs."""

from volcano.scheduler.actions.eviction import evict_for_starving_jobs
from volcano.scheduler.engine.answers import Purpose
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.eviction.victim_index import Scope
from volcano.scheduler.engine.eviction.victim_search import EvictionRules
from volcano.scheduler.engine.session import Session

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
