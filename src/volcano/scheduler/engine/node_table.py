"""Nodes as columns: what filters and scorers are written against."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcano.model.node import Node
from volcano.model.resources import Mask, Vector
from volcano.scheduler.engine.node_columns import NodeColumns

Rows = NDArray[np.intp]


class FactColumns:
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

    __slots__ = ("_cells", "_columns", "_fact_columns", "_filled", "_filled_by", "index")

    def __init__(
        self, fact_columns: FactColumns, columns: NodeColumns, index: Rows, cells: Vector | None = None
    ) -> None:
        """`cells` are the rows of the board; without them they are copied, as they are then, when first asked for."""
        self._fact_columns = fact_columns
        self._columns = columns
        self._cells = cells
        self._filled: Vector | None = None
        self._filled_by: Vector | None = None
        self.index = index

    @classmethod
    def of_all(cls, fact_columns: FactColumns, columns: NodeColumns) -> "NodeTable":
        """The table of all nodes, which follows the board."""
        return cls(fact_columns, columns, np.arange(len(columns.cells)), columns.read_only)

    def __len__(self) -> int:
        return len(self.index)

    # -- what is on them, as of now; to be read, not changed ------------------------------------------------

    @property
    def cells(self) -> Vector:
        """(rows, columns of the board): all of the following side by side."""
        cells = self._cells
        if cells is None:
            cells = self._cells = self._columns.cells.take(self.index, axis=0)
        return cells

    @property
    def allocatable(self) -> Vector:
        """(rows, resources): what the nodes have to give."""
        found: Vector = self.cells[:, self._columns.layout.allocatable]
        return found

    @property
    def capacity(self) -> Vector:
        """(rows, resources): `allocatable` to divide by, infinite where a node has none of a resource."""
        found: Vector = self.cells[:, self._columns.layout.capacity]
        return found

    @property
    def basics(self) -> Vector:
        """How many of cpu and memory each node has, but at least one."""
        found: Vector = self.cells[:, self._columns.layout.basics]
        return found

    @property
    def used(self) -> Vector:
        """(rows, resources): what is taken, by tasks that are being released as well."""
        found: Vector = self.cells[:, self._columns.layout.used]
        return found

    @property
    def releasing(self) -> Vector:
        """(rows, resources): the part of `used` that is being released."""
        found: Vector = self.cells[:, self._columns.layout.releasing]
        return found

    @property
    def pipelined(self) -> Vector:
        """(rows, resources): what was promised in this cycle out of what is being released."""
        found: Vector = self.cells[:, self._columns.layout.pipelined]
        return found

    @property
    def nonzero_used(self) -> Vector:
        """(rows, 2): cpu and memory taken, where containers that ask for nothing count 100m and 200 MB."""
        found: Vector = self.cells[:, self._columns.layout.nonzero_used]
        return found

    @property
    def idle(self) -> Vector:
        """(rows, resources): what is free now."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> Vector:
        """(rows, resources): what will be free once everything that is being released is."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    def filled(self, request: Vector) -> Vector:
        """(rows, resources): which part of each node would be taken with this request; several scorers ask."""
        if self._filled is None or self._filled_by is not request or self._cells is self._columns.read_only:
            self._filled, self._filled_by = (self.used + request) / self.capacity, request
        return self._filled

    # -- who they are ------------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """The names, one per row."""
        names = self._fact_columns.names
        return [names[row] for row in self.index]

    @property
    def facts(self) -> Sequence[Node]:
        """The nodes themselves, one per row."""
        nodes = self._fact_columns.nodes
        return [nodes[row] for row in self.index]

    def name(self, row: int) -> str:
        """The name of the node at a row of the table of all nodes."""
        return self._fact_columns.names[row]

    def fact(self, row: int) -> Node:
        """The node at a row of the table of all nodes."""
        return self._fact_columns.nodes[row]

    def row(self, name: str) -> int | None:
        """The row, in the table of all nodes, of the node of that name."""
        return self._fact_columns.row_of.get(name)

    def label(self, key: str) -> NDArray[np.object_]:
        """One label's values; None where a node lacks it."""
        return self._fact_columns.column(("label", key), lambda node: node.labels.get(key), object)[
            self.index
        ]

    def column(self, key: object, value: Callable[[Node], Any], dtype: Any = object) -> NDArray[Any]:
        """A column of your own, from facts: computed once per cycle for all nodes and kept under `key`."""
        return self._fact_columns.column(key, value, dtype)[self.index]

    @property
    def unschedulable(self) -> Mask:
        """True where a node is cordoned."""
        return self.column("unschedulable", lambda node: node.unschedulable, np.bool_)

    # -- other tables ------------------------------------------------------------------------------

    def rows(self, wanted: Sequence[int] | NDArray[Any]) -> "NodeTable":
        """A table of some of these rows: positions in this table, or a mask over it."""
        return NodeTable(self._fact_columns, self._columns, self.index[np.asarray(wanted)])

    def at(self, index: Rows) -> "NodeTable":
        """The table of the nodes with these numbers in the table of all nodes."""
        return NodeTable(self._fact_columns, self._columns, index)

    def with_copies(self, request: Vector, nonzero: Vector, copies: NDArray[Any]) -> "NodeTable":
        """This table as it would be with so many more tasks of one shape on each row."""
        known, where = self._cells, self._columns.layout
        cells = self._columns.cells.take(self.index, axis=0) if known is None else known.copy()
        many = copies.astype(np.float64)[:, None]
        cells[:, where.used] += many * request
        cells[:, where.nonzero_used] += many * nonzero
        return NodeTable(self._fact_columns, self._columns, self.index, cells)
