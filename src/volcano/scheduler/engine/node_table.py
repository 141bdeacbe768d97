"""Node tables: nodes as columns, the input of filters and scorers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcano.model.node import Node
from volcano.model.resources import Mask, Vector
from volcano.scheduler.engine.node_columns import NodeColumns

Rows = NDArray[np.intp]


class FactColumns:
    """Columns computed from Node objects; built on first use and shared by all tables."""

    def __init__(self, nodes: Sequence[Node], row_of: Mapping[str, int]) -> None:
        self.nodes = nodes
        self.row_of = row_of
        self.names = tuple(node.name for node in nodes)
        self._built: dict[Any, NDArray[Any]] = {}

    def column(self, key: object, value: Callable[[Node], Any], dtype: Any) -> NDArray[Any]:
        """Column with one value per node, cached under `key`."""
        found = self._built.get(key)
        if found is None:
            found = np.empty(len(self.nodes), dtype=dtype)
            for row, node in enumerate(self.nodes):
                found[row] = value(node)
            self._built[key] = found
        return found


class NodeTable:
    """Some nodes, one per row. `nodes.rows([...])` is a table too: filters and scorers work on any number of
    rows. `index` holds the rows' numbers in the table of all nodes (`session.nodes`). A hypothetical
    table, which shows nodes with more tasks on them, may contain the same number several times.
    """

    __slots__ = ("_cells", "_columns", "_fact_columns", "_filled", "_filled_by", "index")

    def __init__(
        self, fact_columns: FactColumns, columns: NodeColumns, index: Rows, cells: Vector | None = None
    ) -> None:
        """`cells` are rows of the node columns; without them they are copied on first use."""
        self._fact_columns = fact_columns
        self._columns = columns
        self._cells = cells
        self._filled: Vector | None = None
        self._filled_by: Vector | None = None
        self.index = index

    @classmethod
    def of_all(cls, fact_columns: FactColumns, columns: NodeColumns) -> "NodeTable":
        """The table of all nodes; it shows changes of the node columns."""
        return cls(fact_columns, columns, np.arange(len(columns.cells)), columns.read_only)

    def __len__(self) -> int:
        return len(self.index)

    # -- resources; read-only ----------------------------------------------------------------------

    @property
    def cells(self) -> Vector:
        """(rows, columns): all of the following side by side."""
        cells = self._cells
        if cells is None:
            cells = self._cells = self._columns.cells.take(self.index, axis=0)
        return cells

    @property
    def allocatable(self) -> Vector:
        """(rows, resources): allocatable resources."""
        found: Vector = self.cells[:, self._columns.layout.allocatable]
        return found

    @property
    def capacity(self) -> Vector:
        """(rows, resources): `allocatable` as a divisor, infinite where a node has none of a resource."""
        found: Vector = self.cells[:, self._columns.layout.capacity]
        return found

    @property
    def basics(self) -> Vector:
        """Number of cpu and memory (0 to 2) that each node has, at least 1."""
        found: Vector = self.cells[:, self._columns.layout.basics]
        return found

    @property
    def used(self) -> Vector:
        """(rows, resources): requests of the tasks on the node, those being released included."""
        found: Vector = self.cells[:, self._columns.layout.used]
        return found

    @property
    def releasing(self) -> Vector:
        """(rows, resources): the part of `used` that is being released."""
        found: Vector = self.cells[:, self._columns.layout.releasing]
        return found

    @property
    def pipelined(self) -> Vector:
        """(rows, resources): requests of the tasks pipelined in this cycle."""
        found: Vector = self.cells[:, self._columns.layout.pipelined]
        return found

    @property
    def nonzero_used(self) -> Vector:
        """(rows, 2): cpu and memory in use, where containers without requests count 100m and 200 MB."""
        found: Vector = self.cells[:, self._columns.layout.nonzero_used]
        return found

    @property
    def idle(self) -> Vector:
        """(rows, resources): free resources."""
        return self.allocatable - self.used

    @property
    def future_idle(self) -> Vector:
        """(rows, resources): free resources once everything releasing is released."""
        return self.allocatable - self.used + self.releasing - self.pipelined

    def filled(self, request: Vector) -> Vector:
        """(rows, resources): fraction of each node in use with this request added; cached, as several scorers
        need it."""
        if self._filled is None or self._filled_by is not request or self._cells is self._columns.read_only:
            self._filled, self._filled_by = (self.used + request) / self.capacity, request
        return self._filled

    # -- identity ----------------------------------------------------------------------------------

    @property
    def names(self) -> Sequence[str]:
        """Node names, one per row."""
        names = self._fact_columns.names
        return [names[row] for row in self.index]

    @property
    def facts(self) -> Sequence[Node]:
        """Node objects, one per row."""
        nodes = self._fact_columns.nodes
        return [nodes[row] for row in self.index]

    def name(self, row: int) -> str:
        """Name of the node at a row of the table of all nodes."""
        return self._fact_columns.names[row]

    def fact(self, row: int) -> Node:
        """Node object at a row of the table of all nodes."""
        return self._fact_columns.nodes[row]

    def row(self, name: str) -> int | None:
        """Row in the table of all nodes of the node with this name."""
        return self._fact_columns.row_of.get(name)

    def label(self, key: str) -> NDArray[np.object_]:
        """Values of one label; None where a node lacks it."""
        return self._fact_columns.column(("label", key), lambda node: node.labels.get(key), object)[
            self.index
        ]

    def column(self, key: object, value: Callable[[Node], Any], dtype: Any = object) -> NDArray[Any]:
        """Column computed from Node objects, once per cycle for all nodes, cached under `key`."""
        return self._fact_columns.column(key, value, dtype)[self.index]

    @property
    def unschedulable(self) -> Mask:
        """True where a node is cordoned."""
        return self.column("unschedulable", lambda node: node.unschedulable, np.bool_)

    # -- other tables ------------------------------------------------------------------------------

    def rows(self, wanted: Sequence[int] | NDArray[Any]) -> "NodeTable":
        """Table of some of these rows: positions in this table, or a mask over it."""
        return NodeTable(self._fact_columns, self._columns, self.index[np.asarray(wanted)])

    def at(self, index: Rows) -> "NodeTable":
        """Table of the nodes with these numbers in the table of all nodes."""
        return NodeTable(self._fact_columns, self._columns, index)

    def with_copies(self, request: Vector, nonzero: Vector, copies: NDArray[Any]) -> "NodeTable":
        """This table with so many more tasks of one shape on each row."""
        known, where = self._cells, self._columns.layout
        cells = self._columns.cells.take(self.index, axis=0) if known is None else known.copy()
        many = copies.astype(np.float64)[:, None]
        cells[:, where.used] += many * request
        cells[:, where.nonzero_used] += many * nonzero
        return NodeTable(self._fact_columns, self._columns, self.index, cells)
