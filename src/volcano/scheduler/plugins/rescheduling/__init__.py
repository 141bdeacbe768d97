"""rescheduling: evict pods from overused nodes that fit on underused ones; the action shuffle carries it out."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from volcano.model.resources import STEP, Mask, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import Memory
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.inputs import LoadInput
from volcano.scheduler.engine.load_settings import STALE_AFTER
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.rescheduling.settings import (
    ARGUMENTS,
    DEFAULT_INTERVAL,
    DIMENSIONS,
    LowNodeUtilization,
    parse_strategies,
)
from volcano.scheduler.plugins.rescheduling.victims import VictimRules, eviction_order

CPU, MEMORY, PODS = range(len(DIMENSIONS))


class Rescheduling(Plugin):
    """Runs in intervals; the first time one interval after the start of the scheduler."""

    session: Session
    depends_on_time: ClassVar = True
    inputs: ClassVar = (LoadInput(),)
    arguments: ClassVar = ARGUMENTS

    def open(self, arguments: Arguments) -> None:
        interval = arguments.duration("interval", DEFAULT_INTERVAL)
        self._interval = interval
        self._strategies = parse_strategies(arguments)
        known = (self.snapshot.memory.get(self.name) or {}).get("due", math.inf)
        self._due = min(known, self.snapshot.now + interval)

    def remember(self) -> Memory | None:
        return Memory({"due": self._due}, self._due) if "shuffle" in self.session.config.actions else None

    def victim_tasks(self, candidates: Sequence[Task]) -> Sequence[Task]:
        if self.snapshot.now < self._due:
            return ()
        self._due = self.snapshot.now + self._interval
        victims: dict[str, Task] = {}
        for strategy in self._strategies:
            left = [task for task in candidates if task.uid not in victims]
            victims |= {task.uid: task for task in self._victims(strategy, left)}
        return list(victims.values())

    def _victims(self, strategy: LowNodeUtilization, candidates: Sequence[Task]) -> Iterator[Task]:
        used = self._utilization()
        known = ~np.isnan(used).any(axis=1)
        low: Mask = known & ~self.nodes.unschedulable & (used < strategy.thresholds).all(axis=1)
        high: Mask = known & ~low & (used > strategy.targets).any(axis=1)
        if not low.any() or low.all() or not high.any():
            return
        on_node: dict[int, list[Task]] = {}
        for task in candidates:
            row = self.ledger.row(task)
            if row is not None and high[row]:
                on_node.setdefault(row, []).append(task)
        rules = VictimRules(self.session, strategy, low, high)
        budgets = Budgets(self._room(low, used, strategy.targets))
        hottest_first = sorted(on_node, key=lambda row: -(used[row, CPU] + used[row, MEMORY]))
        for row in hottest_first:
            load = used[row].copy()
            for task in sorted(on_node[row], key=eviction_order):
                if not (load > strategy.targets).any():
                    break
                if rules.is_taken(task):
                    continue
                group = rules.with_gang(task)
                amounts = [self._amounts(each) for each in group]
                if not group or not budgets.fits(sum(amounts)) or not rules.take(group):
                    continue
                budgets.take(sum(amounts))
                yield from group
                here = [
                    amount
                    for each, amount in zip(group, amounts, strict=True)
                    if self.ledger.row(each) == row
                ]
                load -= sum(here) / self._capacity[row] * 100

    def _utilization(self) -> Vector:
        """(nodes, 3): percentages; not a number where the load is unknown or stale."""
        used = np.full((len(self.nodes), len(DIMENSIONS)), np.nan)
        for row, node in enumerate(self.snapshot.nodes):
            load = self.snapshot.usage.get(node.name)
            if load is None or self.snapshot.now - load["measured"] > STALE_AFTER:
                continue
            most = node.allocatable.get("pods", 0.0)
            pods = len(self.snapshot.tasks_on[row]) / most * 100 if most else 0.0
            used[row] = load["cpu"], load["memory"], pods
        return used

    def _room(self, low: Mask, used: Vector, targets: Vector) -> Vector:
        """(3,): what underused nodes can take before they reach the targets."""
        parts = np.maximum(targets - used[low], 0.0) / 100
        room: Vector = (parts * self._capacity[low]).sum(axis=0)
        return room

    @cached_property
    def _capacity(self) -> Vector:
        """(nodes, 3): allocatable resources, or the capacity where a node has none; a divisor, so never zero."""
        found = np.array(
            [
                [node.allocatable.get(name) or node.capacity.get(name) or math.inf for name in DIMENSIONS]
                for node in self.snapshot.nodes
            ]
        )
        return np.where(np.isinf(found), 1e300, found)

    @staticmethod
    def _amounts(task: Task) -> Vector:
        """(3,): cpu, memory and one pod."""
        amounts: Vector = task.request[: len(DIMENSIONS)]
        return amounts


class Budgets:
    """Amounts of cpu, memory and pods that are left."""

    def __init__(self, room: Vector) -> None:
        self._left = room

    def fits(self, amounts: Any) -> bool:
        return bool((amounts <= self._left + STEP).all())

    def take(self, amounts: Any) -> None:
        self._left = self._left - amounts
