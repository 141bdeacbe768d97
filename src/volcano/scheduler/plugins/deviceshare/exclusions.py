"""Cards that are closed to a pod because of the pods that use them: exclusive rules, and PodGroups that spread."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.ledger_view import LedgerView
from volcano.scheduler.plugins.deviceshare.card_table import Rows
from volcano.scheduler.plugins.deviceshare.facts import Demand
from volcano.scheduler.plugins.deviceshare.placements import Mark, Placements
from volcano.scheduler.plugins.deviceshare.vgpu_cards import VgpuKind

Rule = Mapping[str, str]
SAME_GROUP, SAME_RULE = "used by the same PodGroup", "closed by an exclusive rule"


class Exclusions:
    """Which cards a task may not share."""

    def __init__(self, rules: Sequence[Rule], ledger: LedgerView, snapshot: Snapshot) -> None:
        self._rules = rules
        self._ledger = ledger
        self._snapshot = snapshot

    def concern(self, task: Task, cards: Placements, demand: Demand) -> bool:
        """Whether any rule closes cards to this task."""
        if demand.spread_group and task.job:
            return True
        return bool(self._rules) and isinstance(cards.kind, VgpuKind) and bool(self._matching(task))

    def closed(
        self, task: Task, cards: Placements, demand: Demand, rows: Rows, *, future: bool
    ) -> tuple[Mask | None, str]:
        """(rows, cards): cards that are closed to a task, and why."""
        found: Mask | None = None
        why = ""
        if demand.spread_group and task.job:
            mark = cards.follow(f"group {task.job}", _of_job(task.job), lambda: self._tasks_of(task.job))
            found, why = _held(mark, rows, future=future), SAME_GROUP
        if isinstance(cards.kind, VgpuKind):
            for number in self._matching(task):
                mark = cards.follow(f"rule {number}", _labelled(self._rules[number]), self._all_tasks)
                # Instances are not shared.
                held = _held(mark, rows, future=future) & (cards.now.state[rows] == 0)
                found, why = (held, SAME_RULE) if found is None else (found | held, why)
        return found, why

    def _matching(self, task: Task) -> list[int]:
        """Numbers of the rules that a task matches."""
        return [number for number, rule in enumerate(self._rules) if rule.items() <= task.labels.items()]

    def _tasks_of(self, job: str) -> Iterator[tuple[int, Task, Status]]:
        found = self._snapshot.jobs.get(job)
        ledger = self._ledger
        for task in found.tasks.values() if found is not None else ():
            row = ledger.row(task)
            if row is not None:
                yield row, task, ledger.status(task)

    def _all_tasks(self) -> Iterator[tuple[int, Task, Status]]:
        ledger = self._ledger
        for row in range(len(self._snapshot.nodes)):
            for task in ledger.tasks_on(row):
                yield row, task, ledger.status(task)


def _held(mark: Mark, rows: Rows, *, future: bool) -> Mask:
    held: Mask = mark.later[rows] > 0 if future else np.maximum(mark.now[rows], mark.later[rows]) > 0
    return held


def _of_job(job: str) -> Callable[[Task], bool]:
    return lambda task: task.job == job


def _labelled(rule: Rule) -> Callable[[Task], bool]:
    return lambda task: rule.items() <= task.labels.items()
