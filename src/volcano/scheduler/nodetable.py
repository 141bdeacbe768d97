"""Nodes as columns: what filters and scorers are written against."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volcano.model.node import Node
from volcano.model.resources import Mask, Vector

if TYPE_CHECKING:
    from volcano.scheduler.ledger import Ledger

Rows = NDArray[np.intp]


class Columns:
    """What is known about all nodes by facts alone; columns are built when first asked for and shared by all tables."""

    def __init__(self, nodes: Sequence[Node], row_of: Mapping[str, int]) -> None:
        self.nodes = nodes
        self.row_of = row_of
        self.names = tuple(node.name for node in nodes)
        self._built: dict[Any, NDArray[Any]] = {}

    def column(self, key: object, value: Callable[[Node], Any], dtype: Any) -> NDArray[Any]:
        """A column made of one value per node, kept under `key`."""
        found = self._built.get(key)
        if found is None:
            found = np.empty(len(self.nodes), dtype=dtype)
            for row, node in enumerate(self.nodes):
                found[row] = value(node)
            self._built[key] = found
        return found


class NodeTable:
    """Some nodes, one per row. `nodes.rows([...])` is a table too: a filter or scorer never cares how many there are.

    `index` holds the rows' numbers in the table of all nodes (`session.nodes`); a hypothetical table, which shows
    nodes as they would be with more tasks on them, may contain the same number several times.
    """

    __slots__ = (
        "_allocatable",
        "_capacity",
        "_columns",
        "_fixed",
        "_ledger",
        "_nonzero",
        "_pipelined",
        "_releasing",
        "_used",
        "index",
    )

    def __init__(self, columns: Columns, ledger: "Ledger", index: Rows, *, fixed: bool = False) -> None:
        """With `fixed`, columns are read once, when first asked for; otherwise they follow the ledger."""
        self._fixed = fixed
        self._columns = columns
        self._ledger = ledger
        self.index = index
        self._used: Vector | None = None
        self._allocatable: Vector | None = None
        self._capacity: Vector | None = None
        self._releasing: Vector | None = None
        self._pipelined: Vector | None = None
        self._nonzero: Vector | None = None

    def __len__(self) -> int:
        return len(self.index)

    # -- what is on them, as of now ----------------------------------------------------------------

    @property
    def allocatable(self) -> Vector:
        """(rows, resources): what the nodes have to give."""
        if self._allocatable is None:
            self._allocatable = self._ledger.allocatable[self.index]
        return self._allocatable

    @property
    def capacity(self) -> Vector:
        """(rows, resources): `allocatable` to divide by, infinite where a node has none of a resource."""
        if self._capacity is None:
            self._capacity = self._ledger.capacity[self.index]
        return self._capacity

    @property
    def basics(self) -> Vector:
        """How many of cpu and memory each node has, but at least one."""
        found: Vector = self._ledger.basics[self.index]
        return found

    @property
    def used(self) -> Vector:
        """(rows, resources): what is taken, by tasks that are being released as well."""
        if self._used is not None:
            return self._used
        found: Vector = self._ledger.used[self.index]
        if self._fixed:
            self._used = found
        return found

    @property
    def releasing(self) -> Vector:
        """(rows, resources): the part of `used` that is being released."""
        if self._releasing is not None:
            return self._releasing
        found: Vector = self._ledger.releasing[self.index]
        if self._fixed:
            self._releasing = found
        return found

    @property
    def pipelined(self) -> Vector:
        """(rows, resources): what was promised in this cycle out of what is being released."""
        if self._pipelined is not None:
            return self._pipelined
        found: Vector = self._ledger.pipelined[self.index]
        if self._fixed:
            self._pipelined = found
        return found

    @property
    def nonzero_used(self) -> Vector:
        """(rows, 2): cpu and memory taken, where containers that ask for nothing count 100m and 200 MB."""
        if self._nonzero is not None:
            return self._nonzero
        found: Vector = self._ledger.nonzero_used[self.index]
        if self._fixed:
            self._nonzero = found
        return found

    @property
    def idle(self) -> Vector:
        """(rows, resources): what is free now."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> Vector:
        """(rows, resources): what will be free once everything that is being released is."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    # -- who they are ------------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """The names, one per row."""
        names = self._columns.names
        return [names[row] for row in self.index]

    @property
    def facts(self) -> Sequence[Node]:
        """The nodes themselves, one per row."""
        nodes = self._columns.nodes
        return [nodes[row] for row in self.index]

    def name(self, row: int) -> str:
        """The name of the node at a row of the table of all nodes."""
        return self._columns.names[row]

    def fact(self, row: int) -> Node:
        """The node at a row of the table of all nodes."""
        return self._columns.nodes[row]

    def row(self, name: str) -> int | None:
        """The row, in the table of all nodes, of the node of that name."""
        return self._columns.row_of.get(name)

    def label(self, key: str) -> NDArray[np.object_]:
        """One label's values; None where a node lacks it."""
        return self._columns.column(("label", key), lambda node: node.labels.get(key), object)[self.index]

    def column(self, key: object, value: Callable[[Node], Any], dtype: Any = object) -> NDArray[Any]:
        """A column of your own, from facts: computed once per cycle for all nodes and kept under `key`."""
        return self._columns.column(key, value, dtype)[self.index]

    @property
    def unschedulable(self) -> Mask:
        """True where a node is cordoned."""
        return self.column("unschedulable", lambda node: node.unschedulable, np.bool_)

    # -- other tables ------------------------------------------------------------------------------

    def rows(self, wanted: Sequence[int] | NDArray[Any]) -> "NodeTable":
        """A table of some of these rows: positions in this table, or a mask over it."""
        return NodeTable(self._columns, self._ledger, self.index[np.asarray(wanted)], fixed=True)

    def with_copies(self, request: Vector, nonzero: Vector, copies: NDArray[Any]) -> "NodeTable":
        """This table as it would be with so many more tasks of one shape on each row."""
        table = NodeTable(self._columns, self._ledger, self.index, fixed=True)
        many = copies.astype(np.float64)[:, None]
        table._used = self.used + many * request
        table._nonzero = self.nonzero_used + many * nonzero
        return table
