"""Columns of tables of objects, for commands and pages: header, value of an object, and width in a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

# Width of a column from its header and values.
Width = Callable[[str, Sequence[str]], int]


def fixed(width: int) -> Width:
    """Constant width; longer values shift what follows."""
    return lambda header, values: width


def longest(more: int) -> Width:
    """Width of the header or the longest value, plus a margin."""
    return lambda header, values: max(map(len, (header, *values))) + more


THREE_MORE = longest(3)


def roomy(header: str, values: Sequence[str]) -> int:
    """Width of the header plus 2, or of the longest value plus 8."""
    return max(len(header) + 2, *(len(value) + 8 for value in values)) if values else len(header) + 2


class Place(Enum):
    TERMINAL = "terminal"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: value of an object, and width in a file."""

    header: str
    value: Callable[[Any], str]
    width: Width = THREE_MORE
    wide: bool = False  # only with -o wide
    coloured: bool = False  # a phase or a state
    spare: int = 0  # on a narrow terminal, columns with the highest number are dropped first; 0 always stays
    sentence: bool = False  # text such as a reason: may be truncated, and is left out if all values are empty
    only_in: Place | None = None  # terminals, or files and pipes, whose columns scripts rely on


def printable(text: str) -> str:
    """Text on one line without control characters, which could change the terminal's state."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
