"""The table of all functions."""

from volcano.apiserver.schema.cel.library.collections import COLLECTIONS
from volcano.apiserver.schema.cel.library.kubernetes import KUBERNETES
from volcano.apiserver.schema.cel.library.operators import OPERATORS
from volcano.apiserver.schema.cel.library.overload import Overload, Table
from volcano.apiserver.schema.cel.library.standard import STANDARD
from volcano.apiserver.schema.cel.library.strings import STRINGS


def _merged() -> Table:
    merged: dict[str, list[Overload]] = {}
    for library in (STANDARD, OPERATORS, STRINGS, COLLECTIONS, KUBERNETES):
        for name, overloads in library.table.items():
            merged.setdefault(name, []).extend(overloads)
    return merged


FUNCTIONS: Table = _merged()
