"""Future events of a simulation, in order of time; those of the same moment in the order they were added."""

import heapq
from enum import Enum
from typing import Any, NamedTuple


class What(Enum):
    """Kinds of future events."""

    POD_ENDS = "the run time of a pod is over"
    POD_GONE = "an evicted pod has terminated"
    WITHDRAWN = "a job that has not started is withdrawn"
    NODE_FAILS = "a node fails"
    NODE_RETURNS = "a failed node is ready again"


class Due(NamedTuple):
    """One future event; `serial` tells the pod it was meant for from a later one of the same name."""

    at: float
    order: int
    what: What
    subject: Any
    serial: int = 0


class EventQueue:
    """Future events."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: float, what: What, subject: Any, serial: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._heap, Due(at, self._order, what, subject, serial))

    @property
    def next_at(self) -> float:
        """Time of the next event; infinity when there is none."""
        return self._heap[0].at if self._heap else float("inf")

    def pop(self) -> Due:
        return heapq.heappop(self._heap)
