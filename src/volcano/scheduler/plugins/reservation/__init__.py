"""reservation: keeps nodes for the first gangs that wait, so that smaller jobs do not delay them; and for time windows.

A gang that cannot start gets a start time and nodes from the known ends of pods. Other jobs may use these nodes only if
they end before, or if enough is left for the gang. Where ends are not known, nodes are kept free for a gang that has
waited for `starvation`. Administrators reserve nodes with NodeReservations.
"""

from volcano.scheduler.plugins.reservation.plan import Need, assign
from volcano.scheduler.plugins.reservation.plugin import Reservation, depth, starvation
from volcano.scheduler.plugins.reservation.timeline import fitting

__all__ = ["Need", "Reservation", "assign", "depth", "fitting", "starvation"]
