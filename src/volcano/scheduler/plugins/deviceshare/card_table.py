"""Cards of all nodes as arrays, and what pods hold of them, by row and card."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from volcano.kube.devices.vgpu import card_uuid
from volcano.model.node import Node
from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.plugins.deviceshare.facts import Card, Kind, Share
from volcano.scheduler.plugins.deviceshare.mig import Ints, MigStates

Rows = NDArray[np.intp]


class Usage:
    """Use of each card, in one array: (4, nodes, cards)."""

    __slots__ = ("cells", "cores", "memory", "state", "users")

    def __init__(self, cells: Ints) -> None:
        self.cells = cells
        self.memory: Ints
        self.cores: Ints
        self.users: Ints  # shares, not pods: a pod may hold several
        self.state: Ints  # of MIG; 0 for cards without instances
        self.memory, self.cores, self.users, self.state = cells

    @classmethod
    def empty(cls, rows: int, width: int) -> "Usage":
        return cls(np.zeros((4, rows, width), dtype=np.int64))

    def copy(self) -> "Usage":
        return Usage(self.cells.copy())

    def at(self, rows: Rows) -> "Usage":
        """A copy of some rows."""
        return Usage(self.cells[:, rows])


class Capacity:
    """Capacity of cards, in one array: (5, nodes, cards); zeros where a node has fewer cards."""

    __slots__ = ("cells", "cores", "index", "memory", "network", "split")

    def __init__(self, cells: Ints) -> None:
        self.cells = cells
        self.memory: Ints
        self.split: Ints
        self.cores: Ints
        self.network: Ints
        self.index: Ints  # of the card
        self.memory, self.split, self.cores, self.network, self.index = cells

    @classmethod
    def empty(cls, rows: int, width: int) -> "Capacity":
        found = cls(np.zeros((5, rows, width), dtype=np.int64))
        found.index[:] = np.arange(width)
        return found

    def at(self, rows: Rows) -> "Capacity":
        return Capacity(self.cells[:, rows])


class CardTable:
    """Cards of one kind. Only rows whose node or pods changed since the last snapshot are read again."""

    def __init__(self, kind: Kind, states: MigStates) -> None:
        self.kind = kind
        self.states = states
        self.cards: list[tuple[Card, ...]] = []
        self.column: list[Mapping[str, int]] = []  # uuid → card, by row
        self.limits: list[list[tuple[int, int, int]]] = []  # memory, split and cores of each card, by row
        self._nodes: list[Node | None] = []
        self._tasks: list[Mapping[str, Task]] = []
        self.capacity = Capacity.empty(0, 0)
        self.used = Usage.empty(0, 0)  # by all pods on the nodes
        self.kept = Usage.empty(0, 0)  # without those that are being deleted
        self.has_cards: Mask = np.zeros(0, dtype=np.bool_)
        # Rows where pods that are being deleted hold cards.
        self.releasing: Mask = np.zeros(0, dtype=np.bool_)
        self.has_instances = False
        self._sorts: dict[Card, int] = {Card("", 0): 0}  # cards that differ in more than their uuid
        self.sort: Ints = np.zeros((0, 0), dtype=np.int64)  # (nodes, cards)
        self._undivided: Ints = np.zeros((0, 0), dtype=np.int64)  # states of unused cards
        self.version = 0  # changes with the cards, not with their usage
        self.unmeasured: set[int] = set()  # rows that changed since metrics were taken
        # Series of metrics by node: metric and labels.
        self.measured: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {}

    @property
    def width(self) -> int:
        """Number of cards of the node that has most."""
        width: int = self.used.memory.shape[1]
        return width

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.cards), self.width

    @property
    def sorts(self) -> list[Card]:
        """Cards without uuid, by their number in `sort`; the first stands for no card."""
        return list(self._sorts)

    def unused(self) -> Usage:
        """Usage without any pods."""
        empty = Usage.empty(*self.shape)
        empty.state[:] = self._undivided
        return empty

    def refresh(self, snapshot: Snapshot) -> None:
        """Reads the rows whose node or pods are other objects than before."""
        rows = len(snapshot.nodes)
        if rows != len(self._nodes):
            self._resize(rows, max(self.width, 1))
        nodes, tasks = self._nodes, self._tasks
        for row, node in enumerate(snapshot.nodes):
            if nodes[row] is not node:
                self._read_node(row, node)
                self._read_tasks(row, snapshot.tasks_on[row])
            elif tasks[row] is not snapshot.tasks_on[row]:
                self._read_tasks(row, snapshot.tasks_on[row])

    def _resize(self, rows: int, width: int) -> None:
        """Starts anew; all rows are read again."""
        self.unmeasured.clear()
        self._nodes = [None] * rows
        self._tasks = [{}] * rows
        self.cards, self.column, self.limits = [()] * rows, [{}] * rows, [[]] * rows
        self.capacity, self.used, self.kept = (
            Capacity.empty(rows, width),
            Usage.empty(rows, width),
            Usage.empty(rows, width),
        )
        self.sort, self._undivided = (np.zeros((rows, width), dtype=np.int64) for _ in range(2))
        self.has_cards, self.releasing = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)

    def _read_node(self, row: int, node: Node) -> None:
        cards = self.kind.cards(node)
        if len(cards) > self.width:
            self._widen(len(cards))
        known, self._nodes[row] = self._nodes[row], node
        if known is not None and cards == self.cards[row]:
            return
        self.version += 1
        self.cards[row] = cards
        self.column[row] = {card.uuid: i for i, card in enumerate(cards)}
        self.limits[row] = [(card.memory, card.split, card.cores) for card in cards]
        self.has_cards[row] = bool(cards)
        many, capacity = len(cards), self.capacity
        capacity.cells[:4, row] = 0
        self.sort[row] = self._undivided[row] = 0
        if cards:
            capacity.memory[row, :many] = [card.memory for card in cards]
            capacity.split[row, :many] = [card.split for card in cards]
            capacity.cores[row, :many] = [card.cores for card in cards]
            capacity.network[row, :many] = [card.network for card in cards]
            sorts = self._sorts
            self.sort[row, :many] = [sorts.setdefault(card._replace(uuid=""), len(sorts)) for card in cards]
            self._undivided[row, :many] = [self.states.empty(card.geometry) for card in cards]
            self.has_instances = self.has_instances or any(card.geometry for card in cards)

    def _widen(self, width: int) -> None:
        before, rows = self.width, len(self._nodes)
        old, used, kept = self.capacity, self.used, self.kept
        self.version += 1
        self.capacity, self.used, self.kept = (
            Capacity.empty(rows, width),
            Usage.empty(rows, width),
            Usage.empty(rows, width),
        )
        self.capacity.cells[:4, :, :before] = old.cells[:4]
        self.used.cells[:, :, :before], self.kept.cells[:, :, :before] = used.cells, kept.cells
        self.sort, self._undivided = (
            np.pad(array, ((0, 0), (0, width - before))) for array in (self.sort, self._undivided)
        )

    def _read_tasks(self, row: int, tasks: Mapping[str, Task]) -> None:
        self._tasks[row] = tasks
        self.unmeasured.add(row)
        self.releasing[row] = False
        for usage in (self.used, self.kept):
            usage.memory[row] = usage.cores[row] = usage.users[row] = 0
            usage.state[row] = self._undivided[row]
        if not self.cards[row]:
            return
        for task in tasks.values():
            shares = self.kind.shares(task)
            if not shares:
                continue
            self.add(self.used, row, shares)
            if task.status is Status.RELEASING:
                self.releasing[row] = True
            else:
                self.add(self.kept, row, shares)

    def add(self, usage: Usage, row: int, shares: Sequence[Share]) -> None:
        """Counts shares of cards of a node; those of cards that it does not have are left out."""
        self._count(usage, row, shares, 1)

    def subtract(self, usage: Usage, row: int, shares: Sequence[Share]) -> None:
        self._count(usage, row, shares, -1)

    def _count(self, usage: Usage, row: int, shares: Sequence[Share], sign: int) -> None:
        columns, cards = self.column[row], self.cards[row]
        for uuid, memory, cores in shares:
            column = columns.get(uuid)
            if column is None:
                column = columns.get(card_uuid(uuid))
                if column is None:
                    continue
            usage.memory[row, column] += sign * memory
            usage.cores[row, column] += sign * cores
            usage.users[row, column] += sign
            if cards[column].geometry:
                change = self.states.taken if sign > 0 else self.states.freed
                usage.state[row, column] = change(int(usage.state[row, column]), uuid)
