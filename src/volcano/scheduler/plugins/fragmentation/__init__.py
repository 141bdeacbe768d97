"""fragmentation: places pods where they leave most of the free GPUs usable for the pods that are expected."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from volcano.kube.api import quantity
from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.arguments import Argument, Arguments, Type, is_integer, is_number
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.fragmentation.card_values import WHOLE
from volcano.scheduler.plugins.fragmentation.cards import Cards
from volcano.scheduler.plugins.fragmentation.demand import Demand, Expectation, Request
from volcano.scheduler.plugins.fragmentation.expected_use import (
    LEVELS,
    ExpectedUse,
    FreeResources,
    after_placing,
    tie_break,
)

__all__ = [
    "CARD_WEIGHT", "LEVELS", "SCARCITY", "WHOLE", "Demand", "Expectation", "ExpectedUse", "Fragmentation",
    "FreeResources", "Request", "after_placing", "is_demand", "tie_break",
]  # fmt: skip

CARD_WEIGHT, SCARCITY = 10.0, 1.0
DEMAND = "fragmentation.demand"
EXAMPLE = (
    "a list of expected pods such as {cpu: 8, memory: 32Gi, cards: 1, share: 50, models: [A100], count: 3}"
)


def is_demand(value: Any) -> bool:
    """Whether an argument is a list of expected pods."""
    return isinstance(value, list) and bool(value) and all(_is_expected(each) for each in value)


def _is_expected(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= {
        "cpu",
        "memory",
        "cards",
        "share",
        "models",
        "count",
    }:
        return False
    try:
        cpu, memory = quantity.milli(value.get("cpu", 0)), quantity.units(value.get("memory", 0))
    except ValueError:
        return False
    cards, share, count = value.get("cards", 1), value.get("share", WHOLE), value.get("count", 1)
    models = value.get("models", [])
    return (
        cpu >= 0
        and memory >= 0
        and is_integer(cards)
        and cards >= 1
        and is_integer(share)
        and 1 <= share <= WHOLE
        and is_number(count)
        and count > 0
        and isinstance(models, list)
        and all(isinstance(model, str) for model in models)
    )


class Learned:
    """Knowledge kept across cycles: the demand, and how many pods of each job were counted."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.counted: dict[str, Counter[Request]] = {}


class Fragmentation(Plugin):
    """Score: `-100 x weight x` the cards that expected pods could no longer use, see `expected_use.py`.

    Expected pods are those observed so far, or those given. Cards of models that many pods require and few nodes have
    cost more.
    """

    session: Session
    arguments: ClassVar = (
        Argument("fragmentation.weight"),
        Argument("fragmentation.cards", Type.NUMBER, lambda value: value >= 0, "at least 0"),
        Argument("fragmentation.scarcity", Type.NUMBER, lambda value: value >= 0, "at least 0"),
        Argument("fragmentation.resource", Type.TEXT),
        Argument(DEMAND, Type.LIST, is_demand, EXAMPLE),
    )

    def open(self, arguments: Arguments) -> None:
        self.weight = arguments.integer("fragmentation.weight", 1)
        self.card_weight = arguments.number("fragmentation.cards", CARD_WEIGHT)
        self.scarcity = arguments.number("fragmentation.scarcity", SCARCITY)
        self._cards = Cards(self.session, arguments.text("fragmentation.resource", "nvidia.com/gpu"))
        self._given = arguments.value(DEMAND)
        if not self.weight:
            self.unused_hooks = frozenset(("score_nodes",))

    @cached_property
    def _learned(self) -> Learned:
        """The demand with the pods that were created since the last cycle."""
        known = self.snapshot.derived.get(self.name)
        given = None if self._given is None else _expected(self._given)
        learned: Learned = (
            known if isinstance(known, Learned) and known.demand.given == given else Learned(Demand(given))
        )
        for uid in sorted(self.snapshot.changed if learned is known else self.snapshot.jobs):
            job = self.snapshot.jobs.get(uid)
            if job is None:
                learned.counted.pop(uid, None)
                continue
            present = Counter(self._cards.request(task.shape) for task in job.tasks.values())
            for request, count in (present - learned.counted.get(uid, Counter())).items():
                learned.demand.observe(request, count)
            learned.counted[uid] = present | learned.counted.get(uid, Counter())
        return learned

    def close(self) -> None:
        """Keeps the demand for the next cycle; pods are counted also if no node was scored."""
        self.snapshot.derived[self.name] = self._learned

    @cached_property
    def _use(self) -> ExpectedUse:
        return ExpectedUse(self._learned.demand.expectation, self._cards.models, self.card_weight)

    @cached_property
    def _prices(self) -> Vector:
        """Price of a card by the number of its model, as of the start of the cycle."""
        models, free = self._cards.models, self._cards.free(self.nodes)
        cards = np.bincount(free.model, free.cards.sum(axis=1) / WHOLE, len(models))
        prices = self._learned.demand.scarcity(dict(zip(models, cards.tolist(), strict=True)))
        return np.array([prices[model] for model in models]) * self.scarcity

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        if not self._learned.demand.expectation.requests:
            return np.zeros(len(nodes))
        request = self._cards.request(task.shape)
        free = self._cards.free(nodes, task.shape)
        loss = self._use.losses(request, free, self._use.value(free)) + tie_break(free)
        if request.cards:
            loss += request.demand * self._prices[free.model]
        score: Vector = -MAX_SCORE * self.weight * loss
        return score


def _expected(given: Sequence[Mapping[str, Any]]) -> dict[Request, float]:
    return {
        Request(
            quantity.milli(each.get("cpu", 0)) / 1000,
            quantity.units(each.get("memory", 0)),
            each.get("cards", 1),
            each.get("share", WHOLE),
            frozenset(each.get("models", ())),
        ): float(each.get("count", 1))
        for each in given
    }
