"""Tables: as wide as the reference's when a program reads them, fitted to the terminal when a person does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.cli.printing.colours import paint, style_of

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
    spare: int = 0  # on a terminal too narrow for all, those with the highest number go first; 0 stays


class Layout:
    """Columns with their widths settled, so that rows printed later still line up."""

    def __init__(
        self, columns: Sequence[Column], rows: Sequence[Any], *, terminal: bool, colour: bool, room: int
    ) -> None:
        self._colour = colour
        self._terminal = terminal
        self._squeezed = False
        cells = {column: [printable(column.value(row)) for row in rows] for column in columns}
        if terminal:
            lengths = {column: max(map(len, values), default=0) for column, values in cells.items()}
            columns = _chosen(columns, lengths, room)
            self._widths = _fitted(columns, lengths, room)
            # Where nothing had to give way, what comes later may be longer rather than cut.
            self._squeezed = self._widths != [max(len(c.header), lengths[c]) for c in columns]
        else:
            self._widths = [column.width(column.header, cells[column]) for column in columns]
        self._columns = columns

    def renew(self, columns: Sequence[Column]) -> None:
        """Takes the same columns as they are computed now; which are shown, and how wide, stays."""
        shown = {column.header for column in self._columns}
        self._columns = [column for column in columns if column.header in shown]

    def header(self, *, padded: bool = False) -> str:
        """The line of column names."""
        line = self._line([column.header for column in self._columns], mark="", padded=padded)
        return paint(line, "bold") if self._colour else line

    def row(self, item: Any, *, padded: bool = False) -> str:
        """The line of one object; padded where something is to follow."""
        cells = [printable(column.value(item)) for column in self._columns]
        return self._line(cells, styled=True, padded=padded)

    def _line(
        self, cells: Sequence[str], *, styled: bool = False, mark: str = "…", padded: bool = False
    ) -> str:
        if not self._terminal:
            return _apart([cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)])
        parts = []
        for column, cell, width in zip(self._columns, cells, self._widths, strict=True):
            text = (_cut(cell, width, mark) if self._squeezed else cell).ljust(width)
            style = style_of(cell) if styled and self._colour and column.coloured else ""
            parts.append(paint(text, style) if style else text)
        line = (" " * GAP).join(parts)
        return line if padded else line.rstrip()


def printable(text: str) -> str:
    """The text on one line and without control characters: what others wrote must not steer our terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _apart(cells: Sequence[str]) -> str:
    """The cells in a row; one that fills its column is kept from running into the next."""
    *others, last = cells
    return "".join(cell if cell.endswith(" ") else f"{cell} " for cell in others) + last


def _chosen(columns: Sequence[Column], values: Mapping[Column, int], room: int) -> Sequence[Column]:
    """The columns there is room for, with their values whole and their headers shortened."""
    chosen = list(columns)
    while sum(_least(c, values) for c in chosen) + GAP * (len(chosen) - 1) > room:
        droppable = max(chosen, key=lambda column: column.spare)
        if not droppable.spare:
            break
        chosen.remove(droppable)
    return chosen


def _least(column: Column, values: Mapping[Column, int]) -> int:
    return max(values[column], min(len(column.header), SHORTEST_HEADER))


def _fitted(columns: Sequence[Column], values: Mapping[Column, int], room: int) -> list[int]:
    """The widths cut down to the room there is: headers give way to their values first, then the widest column."""
    widths = [max(len(column.header), values[column]) for column in columns]
    inner = room - GAP * (len(columns) - 1)
    for least in ([_least(column, values) for column in columns], [NARROWEST] * len(widths)):
        while sum(widths) > inner:
            spares = [width if width > bound else 0 for width, bound in zip(widths, least, strict=True)]
            if not any(spares):
                break
            widths[spares.index(max(spares))] -= 1
    return widths


def _cut(text: str, width: int, mark: str) -> str:
    return text if len(text) <= width else f"{text[: max(width - len(mark), 0)]}{mark}"
