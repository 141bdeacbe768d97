"""Times: what a cycle spent its time on, by a stopwatch that only the edge can wind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Stopwatch = Callable[[], float]
# What the time went to: ("cycle",), ("action", "allocate"), ("plugin", "gang", "OnSessionOpen").
TimingKey = tuple[str, ...]


class Timings:
    """Seconds by what they were spent on, added up over one cycle."""

    __slots__ = ("now", "spent")

    def __init__(self, stopwatch: Stopwatch | None = None) -> None:
        self.now: Stopwatch = stopwatch or (lambda: 0.0)
        self.spent: dict[TimingKey, float] = {}

    def add(self, what: TimingKey, since: float) -> None:
        """Counts the time from `since` until now."""
        self.spent[what] = self.spent.get(what, 0.0) + self.now() - since

    @contextmanager
    def measure(self, *what: str) -> Iterator[None]:
        """Counts what the block takes, also when it raises."""
        since = self.now()
        try:
            yield
        finally:
            self.add(what, since)
