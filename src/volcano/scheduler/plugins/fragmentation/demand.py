"""Demand: the requests that pods are expected to make, learned from the pods observed so far."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from volcano.model.resources import Vector
from volcano.scheduler.plugins.fragmentation.card_values import WHOLE, card_values

GROWTH = 1.5  # expectations are renewed when this many times the pods were observed
KINDS = 96  # the most frequent kinds of requests that are considered


class Request(NamedTuple):
    """Request of a pod: cores, bytes or MiB of memory, cards and the share of each, and the models it allows."""

    cpu: float
    memory: float
    cards: int  # 0 for a pod without cards
    share: int  # percent of each card
    models: frozenset[str] = frozenset()  # empty: any

    @property
    def demand(self) -> float:
        """Requested cards."""
        return self.cards * self.share / WHOLE

    def allows(self, model: str) -> bool:
        return not self.models or model in self.models


class Expectation(NamedTuple):
    """The kinds of requests for cards that are expected, and the value of free shares of a card."""

    requests: tuple[Request, ...]  # without the models they allow
    weights: Mapping[frozenset[str], Vector]  # by allowed models: (requests,); 1 in total
    values: Vector  # (101,), by free percent of a card

    def weights_on(self, model: str) -> Vector:
        """Returns the weight of each request among pods that may use cards of this model."""
        allowed = [weights for models, weights in self.weights.items() if not models or model in models]
        return np.sum(allowed, axis=0) if allowed else np.zeros(len(self.requests))


class Demand:
    """Counts observed requests; the expectation changes each time their number has grown by half."""

    def __init__(self, given: Mapping[Request, float] | None = None) -> None:
        self.given = given  # expected pods; None: learned from those observed
        self._counts: dict[Request, float] = dict(given or {})
        self._by_models: dict[frozenset[str], float] = {}  # requested cards
        self._total = 0.0
        self._observed = 0
        self._next = 1
        self._expectation: Expectation | None = None

    def observe(self, request: Request, count: int = 1) -> None:
        """Counts pods that were submitted, placed or not."""
        if request.cards:
            demand = request.demand * count
            self._by_models[request.models] = self._by_models.get(request.models, 0.0) + demand
            self._total += demand
        if self.given is None:
            self._counts[request] = self._counts.get(request, 0.0) + count
            self._observed += count
            if self._observed >= self._next:
                self._next = int(self._observed * GROWTH) + 1
                self._expectation = None

    @property
    def expectation(self) -> Expectation:
        if self._expectation is None:
            self._expectation = self._expect()
        return self._expectation

    def _expect(self) -> Expectation:
        kinds: dict[Request, float] = {}
        shares: dict[int, float] = {}
        for request, count in self._counts.items():
            if request.cards:
                kind = request._replace(models=frozenset())
                kinds[kind] = kinds.get(kind, 0.0) + count
                if request.share < WHOLE:
                    shares[request.share] = shares.get(request.share, 0.0) + count * request.cards
        frequent = sorted(kinds, key=lambda kind: (-kinds[kind], kind))[:KINDS]
        total = max(sum(kinds[kind] for kind in frequent), 1.0)
        column = {kind: i for i, kind in enumerate(frequent)}
        weights: dict[frozenset[str], Vector] = {}
        for request, count in self._counts.items():
            at = column.get(request._replace(models=frozenset()))
            if at is not None:
                weights.setdefault(request.models, np.zeros(len(frequent)))[at] += count / total
        return Expectation(tuple(frequent), weights, card_values(shares))

    def scarcity(self, free: Mapping[str, float]) -> dict[str, float]:
        """Returns a price per model: how much of the demand depends on it, relative to the free cards of such pods.

        Pods that allow every model make none of them scarce.
        """
        prices = dict.fromkeys(free, 0.0)
        total = sum(free.values())
        for models, demand in self._by_models.items():
            usable = [model for model in free if model in models]
            if not usable:
                continue
            share_of_free = sum(free[model] for model in usable) / total if total else 0.0
            price = demand / self._total / max(share_of_free, 1e-3)
            for model in usable:
                prices[model] += price
        return prices
