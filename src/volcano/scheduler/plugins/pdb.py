"""pdb: evictions keep to the PodDisruptionBudgets."""

from collections.abc import Sequence

from volcano.model.storage import DisruptionBudget
from volcano.model.task import Task
from volcano.scheduler.plugin import Hunt, Plugin


class Pdb(Plugin):
    """Candidates are counted against every budget that covers them, in the order they would go."""

    def spare(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        """Whoever a budget does not let go is not offered to any tier."""
        return self._within_budgets(candidates)

    def preemptable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        # parity: pods without labels are never victims through this plugin, although no budget can cover them
        return self._within_budgets([task for task in candidates if task.labels])

    reclaimable = preemptable

    def _within_budgets(self, candidates: Sequence[Task]) -> list[Task]:
        left = {id(budget): budget.allowed for budget in self.snapshot.budgets}
        kept = []
        for task in candidates:
            covering = [budget for budget in self.snapshot.budgets if covers(budget, task)]
            for budget in covering:
                left[id(budget)] -= 1
            if all(left[id(budget)] >= 0 for budget in covering):
                kept.append(task)
        return kept


def covers(budget: DisruptionBudget, task: Task) -> bool:
    """Whether evicting a pod counts against a budget."""
    return (
        budget.namespace == task.namespace
        and not budget.selector.empty
        and task.name not in budget.disrupted
        and budget.selector.matches(task.labels)
    )
