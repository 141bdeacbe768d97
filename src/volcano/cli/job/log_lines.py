"""Log lines on their way to the screen: told apart by pod, put in order by time, and never printed twice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge

from volcano.apiserver.endpoints.tables.cells import wall_time

# Shades of one hue for the pods of one task: tasks are told apart by hue, their indices by shade.
HUES = (
    (39, 45, 33, 81), (208, 214, 202, 220), (42, 48, 35, 84), (170, 177, 163, 213), (185, 190, 148, 228),
    (203, 210, 196, 217),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one container. `moment` orders lines; `stamp` is the server's own text for it."""

    moment: float
    stamp: str
    text: str


def parse_line(raw: bytes) -> Line:
    """A line of a log that was asked for with timestamps; one without begins at no known time."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    stamp, space, rest = text.partition(" ")
    moment = wall_time(_microseconds(stamp)) if "T" in stamp else None
    if moment is None:
        return Line(0.0, "", text)
    return Line(moment, stamp, rest if space else "")


def _microseconds(stamp: str) -> str:
    """A timestamp cut to what Python reads: kubelets write nanoseconds."""
    head, dot, tail = stamp.partition(".")
    if not dot:
        return stamp
    digits = "".join(character for character in tail if character.isdigit())
    return f"{head}.{digits[:6]}Z" if tail.endswith("Z") else stamp


class Seen:
    """Which lines of a container were printed: a stream that is opened again starts a little earlier."""

    def __init__(self) -> None:
        self._stamp = ""
        self._moment = 0.0
        self._count = 0  # lines printed with this very stamp
        self._passed = 0  # of those, how many the present stream has repeated

    @property
    def since(self) -> str:
        """The stamp to go on from; empty at first."""
        return self._stamp

    def reopened(self) -> None:
        """A new stream begins."""
        self._passed = 0

    def is_new(self, line: Line) -> bool:
        """Whether a line was not printed yet; from now on it counts as printed."""
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


def in_order(streams: Sequence[tuple[str, Sequence[Line]]]) -> Iterable[tuple[str, Line]]:
    """The lines of several finished logs, merged by time; each log keeps its own order."""

    def timed(number: int, name: str, lines: Sequence[Line]) -> list[tuple[float, int, int, str, Line]]:
        latest, found = 0.0, []
        for position, line in enumerate(lines):
            latest = max(latest, line.moment)  # a line without a stamp stays behind the one before it
            found.append((latest, number, position, name, line))
        return found

    for _, _, _, name, line in merge(*(timed(i, name, lines) for i, (name, lines) in enumerate(streams))):
        yield name, line


def colour_of(task: int, index: int) -> str:
    """The escape sequence that colours the pod of that index in the task of that number."""
    hue = HUES[task % len(HUES)]
    return f"\x1b[38;5;{hue[index % len(hue)]}m"
