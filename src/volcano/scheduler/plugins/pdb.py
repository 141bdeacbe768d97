"""pdb: evictions respect PodDisruptionBudgets."""

from collections.abc import Mapping, Sequence
from functools import partial

from volcano.model.status import Status
from volcano.model.storage import DisruptionBudget
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Memory
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.plugin import Plugin

# Seconds until a budget's status includes our evictions.
STATUS_TIMEOUT = 10.0


class Pdb(Plugin):
    """Counts candidates, in eviction order, against every budget that covers them, after earlier evictions."""

    def open(self, arguments: Arguments) -> None:
        self._disruptions: dict[str, int] = {}  # evictions that the budget's status does not include yet
        self._until: dict[str, float] = {}
        known = self.snapshot.memory.get(self.name) or {}
        for budget in self.snapshot.budgets:
            allowed, disruptions, until = known.get(_key(budget)) or (0, 0, 0.0)
            if disruptions and allowed == budget.allowed and self.snapshot.now < until:
                self._disruptions[_key(budget)], self._until[_key(budget)] = disruptions, until

    def remember(self) -> Memory | None:
        """Keeps evictions that no budget's status includes yet, until the status changes."""
        later = self.snapshot.now + STATUS_TIMEOUT
        kept = {
            key: [budget.allowed, disruptions, self._until.get(key, later)]
            for budget in self.snapshot.budgets
            if (disruptions := self._disruptions.get(key := _key(budget), 0))
        }
        return Memory(kept, min(until for _, _, until in kept.values())) if kept else None

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task in tasks:
            if self.ledger.status(task) is Status.RELEASING:
                keys = [_key(budget) for budget in self.snapshot.budgets if covers(budget, task)]
                self._count(keys, 1)
                self.ledger.record_undo(partial(self._count, keys, -1))

    def _count(self, keys: Sequence[str], by: int) -> None:
        for key in keys:
            self._disruptions[key] = self._disruptions.get(key, 0) + by
            self._until.pop(key, None)

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Protects pods beyond a budget from every tier."""
        return self._within_budgets(candidates)

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        # parity: pods without labels are never victims through this plugin, although no budget can cover them
        return self._within_budgets([task for task in candidates if task.labels])

    reclaimable = preemptable

    def _within_budgets(self, candidates: Sequence[Task]) -> list[Task]:
        return within_budgets(self.snapshot.budgets, candidates, self._disruptions)


def within_budgets(
    budgets: Sequence[DisruptionBudget],
    candidates: Sequence[Task],
    disruptions: Mapping[str, int] | None = None,
) -> list[Task]:
    """Returns the candidates, in order, that the budgets allow to evict together after these disruptions."""
    done = disruptions or {}
    left = {_key(budget): budget.allowed - done.get(_key(budget), 0) for budget in budgets}
    kept = []
    for task in candidates:
        covering = [_key(budget) for budget in budgets if covers(budget, task)]
        for key in covering:
            left[key] -= 1
        if all(left[key] >= 0 for key in covering):
            kept.append(task)
    return kept


def covers(budget: DisruptionBudget, task: Task) -> bool:
    """Reports whether evicting a pod counts against a budget."""
    return (
        budget.namespace == task.namespace
        and not budget.selector.empty
        and task.name not in budget.disrupted
        and budget.selector.matches(task.labels)
    )


def _key(budget: DisruptionBudget) -> str:
    return f"{budget.namespace}/{budget.name}"
