"""Parts of the screens of `vcctl explain`: headings, facts, steps and tables."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from volcano.cli.session import Session
from volcano.views.columns import Column, printable
from volcano.views.times import span

if TYPE_CHECKING:
    from volcano.analysis.explain.explanations import Step

INDENT = "  "
NARROWEST = 30
CLASS_STYLES = {
    "NEVER": "red",
    "CONFIG": "red",
    "POLICY": "yellow",
    "CAPACITY": "yellow",
    "IN_PROGRESS": "green",
}
MARKS = {True: "OK", False: "NO", None: "–"}
MARK_STYLES = {True: "green", False: "red", None: "dim"}


class Page:
    """Writes the parts of one screen."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.now = session.clock.now().wall

    def summary(self, text: str, style: str = "") -> None:
        for line in wrap(printable(text), max(self.session.width, NARROWEST)) or [""]:
            self.session.write(self.session.paint(line, "bold", *([style] if style else [])))

    def heading(self, text: str, note: str = "") -> None:
        self.session.write()
        beside = f" ({note})" if note and len(text) + len(note) + 3 <= self.session.width else ""
        self.session.write(self.session.paint(text, "bold") + beside)
        if note and not beside:
            self.line(f"({note})")

    def facts(self, facts: Mapping[str, Any]) -> None:
        shown = {name: value for name, value in facts.items() if value not in (None, "")}
        width = max((len(name) for name in shown), default=0) + 2
        for name, value in shown.items():
            self.hanging(f"{name + ':':<{width}}", str(value))

    def hanging(self, label: str, text: str) -> None:
        """A label, and a text that is continued below itself."""
        room = max(self.session.width - len(INDENT) - len(label), NARROWEST)
        first, *more = wrap(printable(text), room) or [""]
        self.session.write(f"{INDENT}{label}{first}".rstrip())
        for line in more:
            self.session.write(f"{INDENT}{' ' * len(label)}{line}")

    def line(self, text: str) -> None:
        self.hanging("", text)

    def steps(self, steps: "Sequence[Step]") -> None:
        """One line per step with its mark; the amounts of those that are not passed below."""
        width = max(len(each.step) for each in steps) + 2
        for each in steps:
            mark = MARKS[each.ok]
            painted = self.session.paint(mark, MARK_STYLES[each.ok])
            indent = INDENT + " " * (width + 4)
            first, *more = wrap(printable(each.text), max(self.session.width - len(indent), NARROWEST)) or [
                ""
            ]
            self.session.write(
                f"{INDENT}{each.step:<{width}}{painted}{' ' * (4 - len(mark))}{first}".rstrip()
            )
            for line in more:
                self.session.write(f"{indent}{line}")
            for amount in each.amounts if each.ok is False else ():
                if not amount.enough:
                    self.session.write(f"{indent}{amount.sentence()}")

    def table(self, columns: Sequence[Column], rows: Sequence[Any]) -> None:
        if not rows:
            return
        used = [column for column in columns if any(column.value(row) for row in rows)]
        self.session.table(used, rows, wrapped=True, indent=INDENT)

    def notes(self, notes: Sequence[str]) -> None:
        if notes:
            self.session.write()
        for note in notes:
            for line in wrap(f"note: {printable(note)}", max(self.session.width, NARROWEST)):
                self.session.write(self.session.paint(line, "dim"))

    def ago(self, seconds: float) -> str:
        """`5m ago`; "" without a time."""
        return f"{span(max(self.now - seconds, 0))} ago" if seconds else ""
