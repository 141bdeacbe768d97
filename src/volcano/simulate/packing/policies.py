"""Placement policies of the experiment. Each sees requests as they arrive and never those that follow."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from volcano.model.resources import Mask, Vector
from volcano.scheduler.plugins.fragmentation import (
    CARD_WEIGHT,
    LEVELS,
    SCARCITY,
    WHOLE,
    Demand,
    Expectation,
    ExpectedUse,
    FreeResources,
    Request,
    after_placing,
    tie_break,
)
from volcano.simulate.packing.nodes import PackedNodes, Rows

MANY = 64  # nodes above which equal ones are looked for


class Policy(Protocol):
    """Chooses a node for each request."""

    def observe(self, kind: int) -> None:
        """A request arrived."""

    def choose(self, kind: int, feasible: Rows) -> int:
        """The node for a request that fits on these nodes."""

    def placed(self, kind: int, row: int) -> None:
        """The request was placed on this node."""


class ScorePolicy:
    """The node with the lowest score, which depends on the present state alone."""

    def __init__(self, nodes: PackedNodes, random: np.random.Generator) -> None:
        self.nodes = nodes
        self.random = random
        total = nodes.total
        self._largest_cpu = float(total.cpu.max())
        self._largest_memory = float(total.memory.max())
        self._most_cards = float(total.cards.shape[1])

    def observe(self, kind: int) -> None:
        pass

    def choose(self, kind: int, feasible: Rows) -> int:
        return int(feasible[self.scores(self.nodes.kinds[kind], feasible).argmin()])

    def placed(self, kind: int, row: int) -> None:
        pass

    def scores(self, request: Request, rows: Rows) -> Vector:
        raise NotImplementedError

    def free(self, rows: Rows) -> tuple[Vector, Vector, Vector]:
        """Free cpu, memory and cards, as shares of the largest node."""
        found = self.nodes.free
        return (
            found.cpu[rows] / self._largest_cpu,
            found.memory[rows] / self._largest_memory,
            found.cards[rows].sum(axis=1) / (WHOLE * self._most_cards),
        )

    def asked(self, request: Request) -> tuple[float, float, float]:
        """A request in the same units."""
        return (
            request.cpu / self._largest_cpu,
            request.memory / self._largest_memory,
            request.demand / self._most_cards,
        )


class RandomNode(ScorePolicy):
    """Any node."""

    def choose(self, kind: int, feasible: Rows) -> int:
        return int(self.random.choice(feasible))


class BestFit(ScorePolicy):
    """The node with the least left over cpu and cards."""

    def scores(self, request: Request, rows: Rows) -> Vector:
        cpu, _, cards = self.free(rows)
        left: Vector = cpu + cards
        return left


class DotProduct(ScorePolicy):
    """The node whose free resources have the smallest product with the request."""

    def scores(self, request: Request, rows: Rows) -> Vector:
        product = np.zeros(len(rows))
        for free, asked in zip(self.free(rows), self.asked(request), strict=True):
            product += free * asked
        return product


class Clustering(ScorePolicy):
    """Nodes that have requests for the same number of cards already, the fullest first."""

    def __init__(self, nodes: PackedNodes, random: np.random.Generator) -> None:
        super().__init__(nodes, random)
        self._groups = {(kind.cards, kind.share < WHOLE): 0 for kind in nodes.kinds}
        self._groups = {group: column for column, group in enumerate(self._groups)}
        self._counts = np.zeros((len(nodes), len(self._groups)))

    def scores(self, request: Request, rows: Rows) -> Vector:
        same = self._counts[rows, self._column(request)] > 0
        _, _, cards = self.free(rows)
        score: Vector = cards - 10.0 * same
        return score

    def placed(self, kind: int, row: int) -> None:
        self._counts[row, self._column(self.nodes.kinds[kind])] += 1

    def _column(self, request: Request) -> int:
        return self._groups[request.cards, request.share < WHOLE]


class CardPacking(ScorePolicy):
    """Cards in use first, then free cards of nodes in use, then unused nodes; the fullest first."""

    def scores(self, request: Request, rows: Rows) -> Vector:
        cards = self.nodes.free.cards[rows]
        sharable = ((cards >= request.share) & (cards < WHOLE)).any(axis=1) if request.cards == 1 else False
        in_use = cards.sum(axis=1) < self.nodes.total.cards[rows].sum(axis=1)
        cpu, _, free = self.free(rows)
        score: Vector = free + 0.1 * cpu - 10.0 * in_use - 20.0 * np.asarray(sharable)
        return score


class Binpack(ScorePolicy):
    """The formula of the plugin binpack with cpu, memory and GPUs of weight 1."""

    def scores(self, request: Request, rows: Rows) -> Vector:
        free, total = self.nodes.free, self.nodes.total
        capacity = total.cards[rows].sum(axis=1) / WHOLE
        used = [(total.cpu[rows] - free.cpu[rows] + request.cpu) / total.cpu[rows]]
        used.append((total.memory[rows] - free.memory[rows] + request.memory) / total.memory[rows])
        if request.cards:
            used.append((capacity - free.cards[rows].sum(axis=1) / WHOLE + request.demand) / capacity)
        score: Vector = -np.mean(used, axis=0)
        return score


class Valuation(Protocol):
    """Values free resources, given an expectation."""

    def value(self, free: FreeResources) -> Vector: ...

    def losses(self, request: Request, free: FreeResources, before: Vector) -> Vector: ...


class FragmentationGradient:
    """The expected usable cards of fragmentation gradient descent (FGD): a kind of request can use the free share of
    every card with room for it, if the node has room for one such pod."""

    def __init__(self, expectation: Expectation, models: tuple[str, ...]) -> None:
        requests = expectation.requests
        self._cpu = np.array([request.cpu for request in requests])
        self._memory = np.array([request.memory for request in requests])
        self._cards = np.array([request.cards for request in requests])
        shares = np.array([request.share for request in requests], dtype=np.int64)
        self._fits = (LEVELS[:, None] >= shares).astype(np.float64)  # (101, requests)
        self._usable = self._fits * LEVELS[:, None] / WHOLE
        self._weights = np.array([expectation.weights_on(model) for model in models])

    def value(self, free: FreeResources) -> Vector:
        fits: Mask = (free.cpu[:, None] >= self._cpu) & (free.memory[:, None] >= self._memory)
        fits &= self._fits[free.cards].sum(axis=1) >= self._cards
        used = self._usable[free.cards].sum(axis=1) * fits
        total: Vector = np.einsum("ij,ij->i", used, self._weights[free.model])
        return total

    def losses(self, request: Request, free: FreeResources, before: Vector) -> Vector:
        cards = after_placing(free.cards, request) if request.cards else free.cards
        after = FreeResources(free.cpu - request.cpu, free.memory - request.memory, cards, free.model)
        lost: Vector = before - self.value(after)
        return lost


class LeastLoss:
    """The node that loses the least value. Values are computed again only for nodes that changed."""

    def __init__(
        self,
        nodes: PackedNodes,
        valuation: Callable[[Expectation, tuple[str, ...]], Valuation],
        scarcity_weight: float = 0.0,
    ) -> None:
        self._nodes = nodes
        self._new_valuation = valuation
        self._scarcity_weight = scarcity_weight
        self._demand = Demand()
        self._expectation: Expectation | None = None
        self._valuation: Valuation
        self._value: Vector = np.zeros(len(nodes))
        self._losses: Vector = np.zeros((len(nodes.kinds), len(nodes)))
        # By node: counts its changes. A loss is valid for the change it was computed after.
        self._changes = np.zeros(len(nodes), dtype=np.int64)
        self._computed = np.full((len(nodes.kinds), len(nodes)), -1, dtype=np.int64)
        self._tie = tie_break(nodes.free)
        self._states: dict[object, int] = {}
        self._state = np.array([self._state_of(row) for row in range(len(nodes))])
        self._special = any(kind.models for kind in nodes.kinds)

    def observe(self, kind: int) -> None:
        self._demand.observe(self._nodes.kinds[kind])

    def choose(self, kind: int, feasible: Rows) -> int:
        self._renew()
        request = self._nodes.kinds[kind]
        stale = feasible[self._computed[kind, feasible] != self._changes[feasible]]
        if len(stale):
            self._losses[kind, stale] = self._new_losses(request, stale)
            self._computed[kind, stale] = self._changes[stale]
        losses = self._losses[kind, feasible] + self._tie[feasible]
        if self._scarcity_weight and self._special and request.cards:
            losses = losses + self._scarcity(request)[self._nodes.free.model[feasible]]
        return int(feasible[losses.argmin()])

    def _new_losses(self, request: Request, rows: Rows) -> Vector:
        """Losses of some nodes; of many nodes, those in the same state are valued once."""
        if len(rows) < MANY:
            return self._valuation.losses(request, self._nodes.free.at(rows), self._value[rows])
        _, first, inverse = np.unique(self._state[rows], return_index=True, return_inverse=True)
        distinct = rows[first]
        losses = self._valuation.losses(request, self._nodes.free.at(distinct), self._value[distinct])
        return losses[inverse]

    def _state_of(self, row: int) -> int:
        """Number of the state of a node: what is free, whatever the order of its cards."""
        free = self._nodes.free
        cards = tuple(sorted(free.cards[row].tolist()))
        state = (float(free.cpu[row]), float(free.memory[row]), int(free.model[row]), cards)
        return self._states.setdefault(state, len(self._states))

    def placed(self, kind: int, row: int) -> None:
        self._renew()
        self._state[row] = self._state_of(row)
        only = np.array((row,))
        free = self._nodes.free.at(only)
        self._value[row] = self._valuation.value(free)[0]
        self._tie[row] = tie_break(free)[0]
        self._changes[row] += 1

    def _renew(self) -> None:
        """Values everything anew when the expectation has changed."""
        expectation = self._demand.expectation
        if expectation is not self._expectation:
            self._expectation = expectation
            self._valuation = self._new_valuation(expectation, self._nodes.models)
            self._value = self._valuation.value(self._nodes.free)
            self._computed[:] = -1

    def _scarcity(self, request: Request) -> Vector:
        free = dict(zip(self._nodes.models, self._nodes.free_by_model.tolist(), strict=True))
        prices = self._demand.scarcity(free)
        weight = self._scarcity_weight * request.demand
        return weight * np.array([prices[model] for model in self._nodes.models])


def fragmentation(nodes: PackedNodes, random: np.random.Generator) -> Policy:
    """The plugin fragmentation."""
    return LeastLoss(nodes, lambda given, models: ExpectedUse(given, models, CARD_WEIGHT), SCARCITY)


def without_scarcity(nodes: PackedNodes, random: np.random.Generator) -> Policy:
    """The same without prices of scarce models."""
    return LeastLoss(nodes, lambda given, models: ExpectedUse(given, models, CARD_WEIGHT))


def without_card_values(nodes: PackedNodes, random: np.random.Generator) -> Policy:
    """The same without values of the free shares of cards."""
    return LeastLoss(nodes, lambda given, models: ExpectedUse(given, models, 0.0), SCARCITY)


def fgd(nodes: PackedNodes, random: np.random.Generator) -> Policy:
    """FGD with the demand observed so far."""
    return LeastLoss(nodes, FragmentationGradient)


POLICIES: dict[str, Callable[[PackedNodes, np.random.Generator], Policy]] = {
    "random": RandomNode,
    "dotprod": DotProduct,
    "clustering": Clustering,
    "packing": CardPacking,
    "bestfit": BestFit,
    "binpack": Binpack,
    "fgd": fgd,
    "fragmentation": fragmentation,
}
# Variants of the plugin, to see what each part of it does.
ABLATIONS: dict[str, Callable[[PackedNodes, np.random.Generator], Policy]] = {
    "fragmentation-without-scarcity": without_scarcity,
    "fragmentation-without-card-values": without_card_values,
}
