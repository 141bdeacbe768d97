"""Events of an object, in Volcano's table or in one that fits the terminal."""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from volcano.cli.printing.tables import Column, Layout
from volcano.cli.session import Session
from volcano.kube.api.manifest import Manifest
from volcano.views.columns import printable
from volcano.views.events import event_age

# parity: Volcano's table says "Form"; on a terminal it is spelled "From".
HEADERS = ("Type", "Reason", "Age", "Form", "Message")
HEADERS_ON_A_TERMINAL = ("Type", "Reason", "Age", "From", "Message")
WIDTHS = (15, 40, 30, 40, 0)


def write_events(session: Session, events: Sequence[Manifest]) -> None:
    """Prints events, oldest first."""
    if not events:
        session.write("Events: \t<none>")
        return
    now = session.clock.now().wall
    rows = [_cells(event, now) for event in sorted(events, key=_last_seen)]
    session.write("Events:")
    if not session.terminal:
        for cells in (HEADERS, ("-------",) * len(HEADERS), *rows):
            session.write(_line(cells))
        return
    columns = [
        Column(header, itemgetter(place), sentence=header == "Message")
        for place, header in enumerate(HEADERS_ON_A_TERMINAL)
    ]
    layout = Layout(columns, rows, terminal=True, colour=session.colour, room=session.width - 2)
    session.write(f"  {layout.header()}")
    for row in rows:
        for line in layout.wrapped(row):
            session.write(f"  {line}")


def _last_seen(event: Manifest) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _cells(event: Manifest, now: float) -> tuple[str, ...]:
    source = event.get("source") or {}
    origin = (source.get("component") or event.get("reportingComponent"), source.get("host"))
    return (
        event.get("type", ""),
        event.get("reason", ""),
        event_age(event, now),
        ", ".join(filter(None, origin)),
        printable(event.get("message", "").strip()),
    )


def _line(cells: Iterable[str]) -> str:
    return "\t".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
