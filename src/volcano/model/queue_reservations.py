"""Room of queues that pods hold without a node: their queue-admission gate was removed, and they are not placed yet."""

from dataclasses import dataclass
from typing import Final

from volcano.base.clock import parse_timestamp
from volcano.model.job import Condition, Job
from volcano.model.resources import Vector

QUEUE_RESERVED: Final = "QueueReserved"  # type of the condition of a PodGroup
# Its reasons. Status True: pods hold room. False: they gave it back, or there are none.
WAITING_FOR_NODES, TIMED_OUT, NOT_RESERVED = "WaitingForNodes", "TimedOut", "NotReserved"


@dataclass(frozen=True, slots=True, eq=False)
class QueueReservation:
    """Amount of its queue that the pods of a job without a node hold in a cycle."""

    pods: int
    amount: Vector
    timed_out: int = 0  # pods that gave their room back, and for which there is none now
    renewed: bool = False  # the time was over, and no other job needed the room


def known_condition(job: Job) -> Condition | None:
    return next((each for each in job.group.conditions if each.type == QUEUE_RESERVED), None)


def has_timed_out(job: Job, now: float) -> bool:
    """Whether the pods of a job held room for as long as it says, and others come first."""
    timeout, known = job.group.reservation_timeout, known_condition(job)
    if timeout is None or known is None:
        return False
    if known.status != "True":
        return known.reason == TIMED_OUT
    try:
        return now >= parse_timestamp(known.last_transition) + timeout
    except ValueError:
        return False
