"""gangreclaim: across queues, a gang reclaims the deserved share of its queue, as a whole."""

from volcano.scheduler.actions.gang import evict_for_gangs
from volcano.scheduler.engine.answers import Purpose
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.session import Session

ARGUMENTS = (Argument("maxDomains"), Argument("allowWholeBundle", Type.BOOLEAN))


def gangreclaim(session: Session) -> None:
    """Evicts across queues for whole gangs."""
    evict_for_gangs(session, Purpose.GANG_RECLAIM)
