"""Things to look at, each at its moment."""

import heapq
import math
from collections.abc import Hashable


class Agenda:
    """One heap for all of them. An item has one moment, the earliest it was given."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._moments: dict[Hashable, float] = {}
        self._count = 0

    def add(self, moment: float, item: Hashable) -> None:
        """Puts an item on, or brings it forward; infinity is never."""
        if moment < self._moments.get(item, math.inf):
            self._moments[item] = moment
            self._count += 1
            heapq.heappush(self._heap, (moment, self._count, item))

    def drop(self, item: Hashable) -> None:
        self._moments.pop(item, None)

    def due(self, moment: float) -> list[Hashable]:
        """Takes off everything whose moment has come, in order."""
        found = []
        while self._heap and self._heap[0][0] <= moment:
            at, _, item = heapq.heappop(self._heap)
            if self._moments.get(item) == at:
                del self._moments[item]
                found.append(item)
        return found

    def next(self) -> float | None:
        """The earliest moment; None when there is nothing."""
        while self._heap and self._moments.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
