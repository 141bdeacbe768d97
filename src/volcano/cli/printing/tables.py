"""Tables: Volcano's widths in files and pipes, fitted to the terminal otherwise."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from volcano.cli.printing.colours import paint, style_of
from volcano.views.columns import THREE_MORE, Column, Place, Width, fixed, longest, printable, roomy

__all__ = [
    "THREE_MORE", "Column", "Layout", "Place", "Width", "fixed", "longest", "printable", "roomy", "selected",
]  # fmt: skip

GAP = 2
NARROWEST = 6
NARROWEST_TEXT = 24  # of a column of sentences, which may be truncated before another column is dropped


def selected(columns: Sequence[Column], *, wide: bool, terminal: bool) -> list[Column]:
    """Columns for an output: all with -o wide, else those of a terminal or of a file."""
    here = Place.TERMINAL if terminal else Place.FILE
    return [column for column in columns if (wide or not column.wide) and column.only_in in (None, here)]


class Layout:
    """Columns with fixed widths, so that rows printed later align."""

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
            # If nothing was truncated, later values may be longer instead of being cut.
            self._squeezed = self._widths != [max(len(c.header), lengths[c]) for c in columns]
        else:
            self._widths = [column.width(column.header, cells[column]) for column in columns]
        self._columns = columns

    def renew(self, columns: Sequence[Column]) -> None:
        """Replaces the columns' value functions; selection and widths stay."""
        shown = {column.header for column in self._columns}
        self._columns = [column for column in columns if column.header in shown]

    def header(self, *, padded: bool = False) -> str:
        """Header line."""
        line = self._line([column.header for column in self._columns], padded=padded)
        return paint(line, "bold") if self._colour else line

    def row(self, item: Any, *, padded: bool = False) -> str:
        """Line of one object; padded if something follows."""
        cells = [printable(column.value(item)) for column in self._columns]
        return self._line(cells, styled=True, padded=padded)

    def wrapped(self, item: Any) -> list[str]:
        """Lines of one object, whose last column, a sentence, is continued below itself instead of being cut."""
        if not self._terminal or not self._columns[-1].sentence:
            return [self.row(item)]
        *cells, last = [printable(column.value(item)) for column in self._columns]
        first, *more = wrap(last, self._widths[-1]) or [""]
        indent = " " * (sum(self._widths[:-1]) + GAP * len(cells))
        return [self._line([*cells, first], styled=True), *(indent + line for line in more)]

    def _line(self, cells: Sequence[str], *, styled: bool = False, padded: bool = False) -> str:
        if not self._terminal:
            return _apart([cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)])
        parts = []
        for column, cell, width in zip(self._columns, cells, self._widths, strict=True):
            text = (_cut(cell, width) if self._squeezed else cell).ljust(width)
            style = style_of(cell) if styled and self._colour and column.coloured else ""
            parts.append(paint(text, style) if style else text)
        line = (" " * GAP).join(parts)
        return line if padded else line.rstrip()


def _apart(cells: Sequence[str]) -> str:
    """Joins cells; one that fills its column is separated from the next."""
    *others, last = cells
    return "".join(cell if cell.endswith(" ") else f"{cell} " for cell in others) + last


def _chosen(columns: Sequence[Column], values: Mapping[Column, int], room: int) -> Sequence[Column]:
    """Columns that fit, with complete headers and values; only sentences are shortened."""
    chosen = [column for column in columns if not column.sentence or values[column]]
    while sum(_least(c, values) for c in chosen) + GAP * (len(chosen) - 1) > room:
        droppable = max(chosen, key=lambda column: column.spare)
        if not droppable.spare:
            break
        chosen.remove(droppable)
    return chosen


def _least(column: Column, values: Mapping[Column, int]) -> int:
    longest = min(values[column], NARROWEST_TEXT) if column.sentence else values[column]
    return max(longest, len(column.header))


def _fitted(columns: Sequence[Column], values: Mapping[Column, int], room: int) -> list[int]:
    """Widths reduced to the available space: sentences first, then the widest values, never headers."""
    widths = [max(len(column.header), values[column]) for column in columns]
    inner = room - GAP * (len(columns) - 1)
    shortest = [max(NARROWEST, len(column.header)) for column in columns]
    for least in ([_least(column, values) for column in columns], shortest):
        while sum(widths) > inner:
            spares = [width if width > bound else 0 for width, bound in zip(widths, least, strict=True)]
            if not any(spares):
                break
            widths[spares.index(max(spares))] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"
