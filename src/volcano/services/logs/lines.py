"""Log lines: parsed, ordered by time, without duplicates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TypeVar

from volcano.kube.api.fields import wall_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one container. `moment` is the sort key; `stamp` is the server's timestamp text."""

    moment: float
    stamp: str
    text: str


def parse_line(raw: bytes) -> Line:
    """Parses a line of a log requested with timestamps; a line without one has no time."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    stamp, space, rest = text.partition(" ")
    moment = wall_time(_microseconds(stamp)) if "T" in stamp else None
    if moment is None:
        return Line(0.0, "", text)
    return Line(moment, stamp, rest if space else "")


def _microseconds(stamp: str) -> str:
    """Truncates a timestamp with nanoseconds, as kubelets write it, to microseconds."""
    head, dot, tail = stamp.partition(".")
    if not dot:
        return stamp
    digits = "".join(character for character in tail if character.isdigit())
    return f"{head}.{digits[:6]}Z" if tail.endswith("Z") else stamp


class Seen:
    """Tracks printed lines of a container: a reopened stream starts a little earlier."""

    def __init__(self) -> None:
        self._stamp = ""
        self._moment = 0.0
        self._count = 0  # lines printed with this timestamp
        self._passed = 0  # lines with this timestamp repeated by the current stream

    @property
    def since(self) -> str:
        """Timestamp to continue from; empty at first."""
        return self._stamp

    def reopened(self) -> None:
        """Starts counting for a reopened stream."""
        self._passed = 0

    def is_new(self, line: Line) -> bool:
        """Whether a line was not printed yet; marks it as printed."""
        if not line.stamp:
            return True
        if line.moment < self._moment:
            return False
        if line.stamp == self._stamp:
            self._passed += 1
            if self._passed <= self._count:
                return False
            self._count += 1
            return True
        self._stamp, self._moment, self._count, self._passed = line.stamp, line.moment, 1, 1
        return True


def in_order(streams: Iterable[tuple[T, Sequence[Line]]]) -> Iterable[tuple[T, Line]]:
    """Merges finished logs by time; each log keeps its own order."""

    def timed(number: int, owner: T, lines: Sequence[Line]) -> list[tuple[float, int, int, T, Line]]:
        latest, found = 0.0, []
        for position, line in enumerate(lines):
            latest = max(latest, line.moment)  # a line without a timestamp stays behind the line before it
            found.append((latest, number, position, owner, line))
        return found

    for _, _, _, owner, line in merge(*(timed(i, owner, lines) for i, (owner, lines) in enumerate(streams))):
        yield owner, line
