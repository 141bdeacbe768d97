"""Nodes with cards during the experiment: what is free, and where a request fits."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Mask, Vector
from volcano.scheduler.plugins.fragmentation import WHOLE, FreeResources, Request, after_placing
from volcano.simulate.workload import MIB, SimNode

Rows = NDArray[np.intp]


class PackedNodes:
    """Free resources of all nodes with cards, and the requests placed on them. Memory is in MiB."""

    def __init__(self, nodes: Sequence[SimNode], kinds: Sequence[Request]) -> None:
        self.models = tuple(sorted({node.gpu_model for node in nodes}))
        self.kinds = tuple(kinds)
        width = max(node.gpus for node in nodes)
        cards = np.zeros((len(nodes), width), dtype=np.int64)
        for row, node in enumerate(nodes):
            cards[row, : node.gpus] = WHOLE
        model = np.array([self.models.index(node.gpu_model) for node in nodes], dtype=np.intp)
        cpu = np.array([node.cpu for node in nodes])
        memory = np.array([node.memory / MIB for node in nodes])
        self.total = FreeResources(cpu, memory, cards, model)
        self.free = FreeResources(cpu.copy(), memory.copy(), cards.copy(), model)
        self.capacity = float(cards.sum()) / WHOLE
        self.allowed: NDArray[np.bool_] = np.array(
            [[kind.allows(name) for name in self.models] for kind in self.kinds]
        )[:, model]  # (kinds, nodes)
        self._largest = self.free.cards.max(axis=1)  # free percent of the emptiest card
        self._whole: Vector = (self.free.cards == WHOLE).sum(axis=1).astype(np.float64)
        self.free_by_model: Vector = np.zeros(len(self.models))
        np.add.at(self.free_by_model, model, cards.sum(axis=1) / WHOLE)

    def __len__(self) -> int:
        return len(self.free.cpu)

    def feasible(self, kind: int) -> Mask:
        """Nodes on which a request of this kind fits."""
        request, free = self.kinds[kind], self.free
        fits: Mask = self.allowed[kind] & (free.cpu >= request.cpu) & (free.memory >= request.memory)
        if not request.cards:
            return fits
        if request.cards == 1:
            fits &= self._largest >= request.share
        elif request.share == WHOLE:
            fits &= self._whole >= request.cards
        else:
            fits &= (free.cards >= request.share).sum(axis=1) >= request.cards
        return fits

    def place(self, kind: int, row: int) -> None:
        """Places a request on a node, on the fullest cards that have room."""
        request, free = self.kinds[kind], self.free
        free.cpu[row] -= request.cpu
        free.memory[row] -= request.memory
        if request.cards:
            free.cards[row] = after_placing(free.cards[row : row + 1], request)[0]
            self._largest[row] = free.cards[row].max()
            self._whole[row] = (free.cards[row] == WHOLE).sum()
            self.free_by_model[free.model[row]] -= request.demand
