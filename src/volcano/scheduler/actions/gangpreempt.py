"""gangpreempt: inside a queue, a gang evicts less important gangs, as a whole."""

from volcano.scheduler.actions.gang import evict_for_gangs
from volcano.scheduler.engine.answers import Purpose
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.session import Session

ARGUMENTS = (Argument("maxDomains"), Argument("allowWholeBundle", Type.BOOLEAN))


def gangpreempt(session: Session) -> None:
    """Evicts inside a queue for whole gangs."""
    evict_for_gangs(session, Purpose.GANG_PREEMPT)
