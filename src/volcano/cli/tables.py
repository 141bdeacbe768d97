"""Tables: as wide as the reference's when a program reads them, fitted to the terminal when a person does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.cli.colours import paint, style_of

GAP = 2
NARROWEST = 6
SHORTEST_HEADER = 4

# The width of a column, from its header and its values.
Width = Callable[[str, Sequence[str]], int]


def fixed(width: int) -> Width:
    """Always the same; longer values push what follows."""
    return lambda header, values: width


def longest(more: int) -> Width:
    """As wide as the header or the longest value, and a little more."""
    return lambda header, values: max(map(len, (header, *values))) + more


THREE_MORE = longest(3)


def roomy(header: str, values: Sequence[str]) -> int:
    """The header and 2, or the longest value and 8."""
    return max(len(header) + 2, *(len(value) + 8 for value in values)) if values else len(header) + 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it says of an object, and how wide it is in a file."""

    header: str
    value: Callable[[Any], str]
    width: Width = THREE_MORE
    wide: bool = False  # only with -o wide
    coloured: bool = False  # a phase or a state


class Layout:
    """Columns with their widths settled, so that rows printed later still line up."""

    def __init__(
        self, columns: Sequence[Column], rows: Sequence[Any], *, terminal: bool, colour: bool, room: int
    ) -> None:
        self._columns = columns
        self._colour = colour
        self._terminal = terminal
        cells = [[column.value(row) for row in rows] for column in columns]
        if terminal:
            headers = [len(column.header) for column in columns]
            values = [max(map(len, column), default=0) for column in cells]
            self._widths = _fitted(headers, values, room - GAP * (len(columns) - 1))
        else:
            self._widths = [c.width(c.header, values) for c, values in zip(columns, cells, strict=True)]

    def renew(self, columns: Sequence[Column]) -> None:
        """Takes the same columns as they are computed now; the widths stay."""
        self._columns = columns

    def header(self) -> str:
        """The line of column names."""
        line = self._line([column.header for column in self._columns])
        return paint(line, "bold") if self._colour else line

    def row(self, item: Any) -> str:
        """The line of one object."""
        return self._line([column.value(item) for column in self._columns], styled=True)

    def _line(self, cells: Sequence[str], *, styled: bool = False) -> str:
        if not self._terminal:
            return _apart([cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)])
        parts = []
        for column, cell, width in zip(self._columns, cells, self._widths, strict=True):
            text = _cut(cell, width).ljust(width)
            style = style_of(cell) if styled and self._colour and column.coloured else ""
            parts.append(paint(text, style) if style else text)
        return (" " * GAP).join(parts).rstrip()


def _apart(cells: Sequence[str]) -> str:
    """The cells in a row; one that fills its column is kept from running into the next."""
    *others, last = cells
    return "".join(cell if cell.endswith(" ") else f"{cell} " for cell in others) + last


def _fitted(headers: Sequence[int], values: Sequence[int], room: int) -> list[int]:
    """The widths cut down to the room there is: headers give way to their values first, then the widest column."""
    widths = [max(pair) for pair in zip(headers, values, strict=True)]
    floors = [max(value, min(header, SHORTEST_HEADER)) for header, value in zip(headers, values, strict=True)]
    for least in (floors, [NARROWEST] * len(widths)):
        while sum(widths) > room:
            place = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
            if widths[place] <= least[place]:
                break
            widths[place] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"
