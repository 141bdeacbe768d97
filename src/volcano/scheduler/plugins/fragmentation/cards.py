"""Cards of the nodes as free percentages, and requests for them: shared cards of deviceshare, and whole ones."""

from functools import cached_property

import numpy as np

from volcano.model.node import Node
from volcano.model.resources import CPU, MEMORY, PODS, STEP
from volcano.model.task import Shape
from volcano.scheduler.engine.node_table import NodeTable, Rows
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.deviceshare import shared_cards
from volcano.scheduler.plugins.deviceshare.facts import Part
from volcano.scheduler.plugins.deviceshare.placements import Placements
from volcano.scheduler.plugins.fragmentation.card_values import WHOLE
from volcano.scheduler.plugins.fragmentation.demand import Request
from volcano.scheduler.plugins.fragmentation.expected_use import FreeResources, Shares, after_placing

PRODUCT = "nvidia.com/gpu.product"  # label with the model of a node's cards
MILLI = 1000.0
WIDEST = 64  # cards of a node that are considered


class Cards:
    """The cards of one cycle. A node that registers shared cards is counted by those, others by whole cards."""

    def __init__(self, session: Session, resource: str) -> None:
        self._session = session
        self._nodes = session.nodes
        self._column = session.resources.column.get(resource)
        self._requests: dict[Shape, Request] = {}

    @cached_property
    def _shared(self) -> Placements | None:
        """The shared cards, if the plugin deviceshare shares any."""
        return shared_cards(self._session.policy)

    @cached_property
    def _models(self) -> tuple[tuple[str, ...], Rows]:
        """The models of cards, and the number of the model of each node."""
        names = [self._model(row, node) for row, node in enumerate(self._session.snapshot.nodes)]
        models = tuple(sorted(set(names)))
        index = {model: i for i, model in enumerate(models)}
        return models, np.array([index[name] for name in names], dtype=np.intp)

    @property
    def models(self) -> tuple[str, ...]:
        return self._models[0]

    def _model(self, row: int, node: Node) -> str:
        shared = self._shared.table.cards[row] if self._shared is not None else ()
        return shared[0].type if shared else node.labels.get(PRODUCT, "")

    @cached_property
    def _width(self) -> int:
        whole = 0
        if self._column is not None and len(self._nodes):
            whole = int(self._nodes.allocatable[:, self._column].max() // MILLI)
        shared = self._shared.table.width if self._shared is not None else 0
        return min(max(whole, shared, 1), WIDEST)

    # -- requests ----------------------------------------------------------------------------------

    def request(self, shape: Shape) -> Request:
        """Request of the pods of a shape."""
        found = self._requests.get(shape)
        if found is None:
            cpu, memory = float(shape.request[CPU]) / MILLI, float(shape.request[MEMORY])
            cards, share, models = self._shared_request(shape) or self._whole_request(shape)
            found = self._requests[shape] = Request(cpu, memory, cards, share, models)
        return found

    def _shared_request(self, shape: Shape) -> tuple[int, int, frozenset[str]] | None:
        shared = self._shared
        demand = shared.kind.demand(shape) if shared is not None else None
        if shared is None or demand is None:
            return None
        share = max(_percent(part, self._card_memory) for part in demand.parts)
        rows = np.flatnonzero(shared.allowed(shape).any(axis=1))
        allowed = {self.models[each] for each in np.unique(self._models[1][rows]).tolist()}
        everywhere = {cards[0].type for cards in shared.table.cards if cards} <= allowed
        return (
            sum(part.number for part in demand.parts),
            share,
            frozenset() if everywhere else frozenset(allowed),
        )

    @cached_property
    def _card_memory(self) -> int:
        """Memory of the usual card, to which requests for memory are compared."""
        memory = self._shared.table.capacity.memory if self._shared is not None else np.zeros(0)
        cards = memory[memory > 0]
        return int(np.median(cards)) if len(cards) else 1

    def _whole_request(self, shape: Shape) -> tuple[int, int, frozenset[str]]:
        count = 0
        if self._column is not None and self._column < len(shape.request):
            count = round(float(shape.request[self._column]) / MILLI)
        product = shape.constraints.node_selector.get(PRODUCT)
        return count, WHOLE if count else 0, frozenset((product,) if product and count else ())

    # -- free resources ----------------------------------------------------------------------------

    def free(self, nodes: NodeTable, shape: Shape | None = None) -> FreeResources:
        """Free resources of the nodes of a table; a hypothetical one shows more pods of this shape on them."""
        idle = np.maximum(nodes.idle, 0.0)
        rows = nodes.index
        cards = np.zeros((len(nodes), self._width), dtype=np.int64)
        if self._column is not None:
            whole = (idle[:, self._column] + STEP) // MILLI
            cards[np.arange(self._width) < whole[:, None]] = WHOLE
        if self._shared is not None:
            has_shared = self._shared.table.has_cards[rows]
            cards[has_shared] = self._free_shares(self._shared, rows[has_shared])
            if shape is not None:
                cards = self._with_copies(cards, nodes, shape, has_shared)
        return FreeResources(idle[:, CPU] / MILLI, idle[:, MEMORY], cards, self._models[1][rows])

    def _free_shares(self, shared: Placements, rows: Rows) -> Shares:
        capacity, used = shared.table.capacity.at(rows), shared.now.at(rows)
        memory = (capacity.memory - used.memory) * WHOLE // np.maximum(capacity.memory, 1)
        free = np.minimum(np.maximum(WHOLE - used.cores, 0), np.maximum(memory, 0))
        free[(used.users >= capacity.split) | ~self._healthy[rows]] = 0
        found = np.zeros((len(rows), self._width), dtype=np.int64)
        width = min(free.shape[1], self._width)
        found[:, :width] = free[:, :width]
        return found

    @cached_property
    def _healthy(self) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
        assert self._shared is not None
        table = self._shared.table
        return np.array([card.healthy for card in table.sorts], dtype=np.bool_)[table.sort]

    def _with_copies(
        self,
        cards: Shares,
        nodes: NodeTable,
        shape: Shape,
        has_shared: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    ) -> Shares:
        """Takes the shares of the pods that a hypothetical table has more than the cycle placed."""
        more = np.rint(nodes.used[:, PODS] - self._session.ledger.used[nodes.index, PODS]).astype(np.int64)
        request = self.request(shape)
        if not request.cards or not (more > 0).any():
            return cards
        for copy in range(int(more.max())):
            adding = has_shared & (more > copy)
            cards[adding] = np.maximum(after_placing(cards[adding], request), 0)
        return cards


def _percent(part: Part, card_memory: int) -> int:
    """The part of a card that a container takes, by memory or cores, whichever is more."""
    memory = part.percent or -(-part.memory * WHOLE // card_memory)
    return min(max(part.cores, memory, 1), WHOLE)
