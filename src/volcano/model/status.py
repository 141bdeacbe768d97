"""Task statuses, and the sets of statuses that rules refer to."""

from enum import IntEnum


class Status(IntEnum):
    """Status of a task. Allocated and Pipelined exist only during a cycle; Binding until the server confirms."""

    PENDING = 0
    ALLOCATED = 1  # placed in this cycle, on idle resources
    PIPELINED = 2  # placed in this cycle, on resources that are being released
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    def __str__(self) -> str:
        return self.name.title()


HOLDING = frozenset((Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING))  # "allocated" class
SCHEDULED = frozenset((Status.BOUND, Status.RUNNING, Status.SUCCEEDED, Status.FAILED))
COMPLETED = frozenset((Status.SUCCEEDED, Status.FAILED))
EVICTABLE = frozenset((Status.BOUND, Status.RUNNING))
READY = HOLDING | {Status.SUCCEEDED}
VALID = READY | {Status.PIPELINED, Status.PENDING}
ON_NODE = HOLDING | {Status.RELEASING, Status.UNKNOWN}  # occupy their node
