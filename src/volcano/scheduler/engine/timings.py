"""Timings of a cycle, measured with a stopwatch that the caller passes in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Stopwatch = Callable[[], float]
# For example ("cycle",), ("action", "allocate"), ("plugin", "gang", "OnSessionOpen").
TimingKey = tuple[str, ...]


class Timings:
    """Seconds by what they were spent on, summed over one cycle."""

    __slots__ = ("now", "spent")

    def __init__(self, stopwatch: Stopwatch | None = None) -> None:
        self.now: Stopwatch = stopwatch or (lambda: 0.0)
        self.spent: dict[TimingKey, float] = {}

    def add(self, what: TimingKey, since: float) -> None:
        """Adds the time from `since` until now."""
        self.spent[what] = self.spent.get(what, 0.0) + self.now() - since

    @contextmanager
    def measure(self, *what: str) -> Iterator[None]:
        """Adds the time the block takes, also when it raises."""
        since = self.now()
        try:
            yield
        finally:
            self.add(what, since)
