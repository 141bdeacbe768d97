"""The table of all functions."""

from volcano.kube.cel.library.collections import COLLECTIONS
from volcano.kube.cel.library.kubernetes import KUBERNETES
from volcano.kube.cel.library.operators import OPERATORS
from volcano.kube.cel.library.overload import Overload, Table
from volcano.kube.cel.library.standard import STANDARD
from volcano.kube.cel.library.strings import STRINGS


def _merged() -> Table:
    merged: dict[str, list[Overload]] = {}
    for library in (STANDARD, OPERATORS, STRINGS, COLLECTIONS, KUBERNETES):
        for name, overloads in library.table.items():
            merged.setdefault(name, []).extend(overloads)
    return merged


FUNCTIONS: Table = _merged()
