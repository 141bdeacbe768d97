"""Expected use: how much of a node's free cards the expected pods could use, and what a placement takes from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Mask, Vector
from volcano.scheduler.plugins.fragmentation.card_values import WHOLE
from volcano.scheduler.plugins.fragmentation.demand import Expectation, Request

Rows = NDArray[np.intp]
Shares = NDArray[np.int64]

LEVELS = np.arange(WHOLE + 1)
# Among equal losses the node with the fewest free cards, then the fewest free cores, is chosen.
PER_FREE_CARD, PER_FREE_CORE = 1e-5, 1e-7


@dataclass(frozen=True, slots=True)
class FreeResources:
    """Free resources of nodes, one row each. Absent cards have no free share."""

    cpu: Vector  # cores
    memory: Vector  # as in Request
    cards: Shares  # (nodes, cards), free percent
    model: Rows  # index of the model

    def at(self, rows: Rows) -> "FreeResources":
        return FreeResources(self.cpu[rows], self.memory[rows], self.cards[rows], self.model[rows])


class ExpectedUse:
    """Values free resources by what the expected pods could use of them.

    The expected use of a node is the mean, over the expected requests, of the free cards that pods of this kind could
    use if the node had pods of this kind only: cards with enough free, as far as its cpu and memory last. To this come
    the values of the free shares of its cards, times `card_weight`.
    """

    def __init__(self, expectation: Expectation, models: tuple[str, ...], card_weight: float) -> None:
        requests = expectation.requests
        needs = sorted({(request.share, request.cards) for request in requests})
        # By free percent of a card and need: the percent that such a pod could use of the card.
        shares = np.array([share for share, _ in needs], dtype=np.int64)
        self._usable = np.where(LEVELS[:, None] >= shares, LEVELS[:, None], 0) / WHOLE  # (101, needs)
        self._several = [(i, share, cards) for i, (share, cards) in enumerate(needs) if cards > 1]
        self._need_of = np.array(
            [needs.index((request.share, request.cards)) for request in requests], dtype=np.intp
        )
        self._demand = np.array([request.demand for request in requests])
        # Cards that one core, and one unit of memory, suffice for.
        self._per_core = self._demand / np.array([max(request.cpu, 1e-9) for request in requests])
        self._per_memory = self._demand / np.array([max(request.memory, 1e-9) for request in requests])
        self._weights = np.array([expectation.weights_on(model) for model in models])  # (models, requests)
        self._values = expectation.values * card_weight

    def value(self, free: FreeResources) -> Vector:
        """Returns the value of each row, in cards."""
        cards = free.cards
        usable = self._usable[cards].sum(axis=1)  # (rows, needs), in cards
        for column, share, many in self._several:
            usable[:, column] *= (cards >= share).sum(axis=1) >= many
        # Cards that pods of each kind could use, limited by cpu and memory; none if not even one pod fits.
        limit = np.minimum(free.cpu[:, None] * self._per_core, free.memory[:, None] * self._per_memory)
        enough: Mask = limit >= self._demand
        used = np.minimum(usable[:, self._need_of], limit) * enough  # (rows, requests)
        total: Vector = np.einsum("ij,ij->i", used, self._weights[free.model])
        total += self._values[cards].sum(axis=1)
        return total

    def losses(self, request: Request, free: FreeResources, before: Vector) -> Vector:
        """Returns the value that each row loses by one such pod, which gets the fullest cards that have room.

        `before` is the value of the rows. Rows must have room for the request.
        """
        cards = after_placing(free.cards, request) if request.cards else free.cards
        after = FreeResources(free.cpu - request.cpu, free.memory - request.memory, cards, free.model)
        lost: Vector = before - self.value(after)
        return lost


def after_placing(cards: Shares, request: Request) -> Shares:
    """Returns the free shares of cards once the fullest that have room for a request are used."""
    levels = np.where(cards >= request.share, cards, WHOLE + 1)
    rows = np.arange(len(cards))
    left = cards.copy()
    for _ in range(request.cards):
        fullest = levels.argmin(axis=1)
        left[rows, fullest] -= request.share
        levels[rows, fullest] = WHOLE + 2  # each card once
    return left


def tie_break(free: FreeResources) -> Vector:
    """Returns a small loss by which fuller nodes are preferred among equals."""
    loss: Vector = free.cards.sum(axis=1) * (PER_FREE_CARD / WHOLE) + free.cpu * PER_FREE_CORE
    return loss
