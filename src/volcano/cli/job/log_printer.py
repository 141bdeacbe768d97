"""Lines of logs with an aligned prefix in the colour of their pod."""

from collections.abc import Iterable

from volcano.cli.session import Session
from volcano.kube.api.manifest import Manifest
from volcano.services.logs.lines import Line
from volcano.services.logs.sources import Prefixes, Source, Wanted

PLAIN = "\x1b[0m"
# Tasks differ in hue, the pods of one task in shade.
HUES = (
    (39, 45, 33, 81), (208, 214, 202, 220), (42, 48, 35, 84), (170, 177, 163, 213), (185, 190, 148, 228),
    (203, 210, 196, 217),
)  # fmt: skip


class Printer:
    """Prints lines with an aligned prefix."""

    def __init__(
        self,
        session: Session,
        job: Manifest,
        wanted: Wanted,
        *,
        timestamps: bool = False,
        prefix: bool = True,
    ) -> None:
        self._session = session
        self._timestamps = timestamps
        self._prefixes = Prefixes(job, wanted) if prefix else None

    def lines(self, lines: Iterable[tuple[Source, Line]]) -> None:
        for source, line in lines:
            self._line(source, line)
        self._session.stdout.flush()

    def _line(self, source: Source, line: Line) -> None:
        text = f"{line.stamp} {line.text}" if self._timestamps and line.stamp else line.text
        if self._prefixes is not None:
            prefix = self._prefixes.of(source)
            if self._session.colour:
                prefix = f"{colour_of(source.task, source.index)}{prefix}{PLAIN}"
            text = f"{prefix} {text}"
        self._session.write(text)


def colour_of(task: int, index: int) -> str:
    """Escape sequence for the colour of a pod, by task number and index."""
    hue = HUES[task % len(HUES)]
    return f"\x1b[38;5;{hue[index % len(hue)]}m"
