"""Levels over time, averaged over equal intervals that widen as time passes: the number of intervals is bounded."""

import numpy as np

from volcano.model.resources import Vector

INTERVALS = 512
FIRST_WIDTH = 1.0  # seconds


class Timeline:
    """Integrals of some levels over time."""

    def __init__(self, levels: int) -> None:
        self._width = FIRST_WIDTH
        self._sums: Vector = np.zeros((INTERVALS, levels))
        self._end = 0.0

    @property
    def width(self) -> float:
        """Seconds of one interval."""
        return self._width

    @property
    def end(self) -> float:
        return self._end

    def add(self, start: float, end: float, level: Vector) -> None:
        """Adds levels that held from `start`, the end of the previous addition, to `end`."""
        while end > self._width * INTERVALS:
            self._halve()
        first, last = int(start / self._width), min(int(end / self._width), INTERVALS - 1)
        self._end = end
        if first == last:
            self._sums[first] += level * (end - start)
            return
        self._sums[first] += level * ((first + 1) * self._width - start)
        self._sums[first + 1 : last] += level * self._width
        self._sums[last] += level * (end - last * self._width)

    def averages(self) -> tuple[Vector, Vector]:
        """Times at which intervals end, and the average of each level in them (intervals, levels)."""
        count = max(int(np.ceil(self._end / self._width)), 1)
        ends = np.minimum(np.arange(1, count + 1) * self._width, max(self._end, 1e-9))
        lengths = np.diff(ends, prepend=0.0)
        return ends, self._sums[:count] / np.maximum(lengths, 1e-9)[:, None]

    def totals(self) -> Vector:
        """Integral of each level over all time."""
        found: Vector = self._sums.sum(axis=0)
        return found

    def _halve(self) -> None:
        """Joins intervals in pairs."""
        pairs = self._sums.reshape(INTERVALS // 2, 2, -1).sum(axis=1)
        self._sums[: INTERVALS // 2] = pairs
        self._sums[INTERVALS // 2 :] = 0.0
        self._width *= 2
