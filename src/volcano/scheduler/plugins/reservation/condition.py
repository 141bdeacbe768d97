"""The condition Reserved of PodGroups."""

import math

from volcano.model.job import Condition
from volcano.model.reservations import RESERVED, reserved_message
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.reservation.plan import GangReservation
from volcano.scheduler.plugins.reservation.timeline import OVERDUE

MINUTE = 60.0


def reserved_condition(reservation: GangReservation, session: Session) -> Condition:
    """Says when the gang starts and on which nodes. The start is rounded up to minutes: it changes less often then."""
    nodes = [session.nodes.name(row) for row in reservation.rows.tolist()]
    start: float | None = math.ceil(reservation.start / MINUTE) * MINUTE
    if not reservation.known:
        reason, start = "Starvation", None
    elif reservation.start <= session.snapshot.now + OVERDUE:
        reason, start = "WalltimeExceeded", None
    else:
        reason = "KnownEnds"
    return Condition(RESERVED, "True", reason, reserved_message(reason, start, nodes))
