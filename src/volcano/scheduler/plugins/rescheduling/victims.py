"""Victims of rescheduling: protected pods are spared, gangs move as a whole or not at all, and pods must fit."""

from collections.abc import Mapping, Sequence

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.surplus import Surplus
from volcano.scheduler.plugins import conformance, pdb
from volcano.scheduler.plugins.rescheduling.settings import LowNodeUtilization

# Plugins whose protection holds although no task is preempted for another.
PROTECTORS = ("cdp", "conformance", "pdb")
SYSTEM_CLASSES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def eviction_order(task: Task) -> tuple[int, int, str]:
    """Lowest priority first, then best-effort, burstable and guaranteed pods."""
    return task.priority, quality_of_service(task), task.uid


def quality_of_service(task: Task) -> int:
    """0 for best-effort, 1 for burstable, 2 for guaranteed pods."""
    if task.best_effort:
        return 0
    limits, request = task.shape.limits, task.request
    guaranteed = all(
        limits.get(name, 0.0) > 0 and abs(limits[name] - request[column]) < STEP
        for column, name in enumerate(("cpu", "memory"))
    )
    return 2 if guaranteed else 1


class VictimRules:
    """Decides which tasks may be evicted, in addition to those taken so far."""

    def __init__(self, session: Session, strategy: LowNodeUtilization, low: Mask, high: Mask) -> None:
        self._session = session
        self._strategy = strategy
        self._low = low
        self._high = high
        self._surplus = Surplus(session.ledger)
        self._taken: dict[str, Task] = {}
        self._free: Vector = session.nodes.idle.copy()
        self._least_spared = self._priority_of(strategy.spared_class)
        self._protectors: list[Plugin] = [
            plugin for plugin in session.policy.plugins if plugin.name in PROTECTORS
        ]

    def is_taken(self, task: Task) -> bool:
        return task.uid in self._taken

    def with_gang(self, task: Task) -> list[Task]:
        """The task alone where its gang can lose it; otherwise the whole gang, if all of it is on overused nodes."""
        job = self._session.snapshot.jobs[task.job]
        if self._surplus.has(job, task):
            return [task]
        members = [each for each in job.by_status.get(Status.RUNNING, ()) if not self.is_taken(each)]
        rows = [self._session.ledger.row(each) for each in members]
        whole = len(members) == self._session.ledger.ready(job)
        return members if whole and all(row is not None and self._high[row] for row in rows) else []

    def take(self, group: Sequence[Task]) -> bool:
        """Takes all tasks of a group as victims, or none."""
        if not all(self._may_go(task) for task in group) or not self._unprotected(group):
            return False
        free = self._free.copy()
        if self._strategy.node_fit and not all(self._place(task) for task in group):
            self._free = free
            return False
        job = self._session.snapshot.jobs[group[0].job]
        for task in group:
            self._surplus.take(job, task)
            self._taken[task.uid] = task
        return True

    def _may_go(self, task: Task) -> bool:
        return task.preemptable and not conformance.protected(task) and task.priority < self._least_spared

    def _priority_of(self, name: str) -> float:
        """The priority of a class; an unknown class spares no pod."""
        if name in SYSTEM_CLASSES:
            return SYSTEM_CLASSES[name]
        found = self._session.snapshot.priorities.get(name)
        return np.inf if found is None else found

    def _unprotected(self, group: Sequence[Task]) -> bool:
        """Whether no plugin and no disruption budget protects one of the group, with all victims so far."""
        job = self._session.snapshot.jobs[group[0].job]
        together = [*self._taken.values(), *group]
        context = EvictionContext(Purpose.PREEMPT, job, group[0])
        for plugin in self._protectors:
            left = {task.uid for task in plugin.filter_victims(context, together)}
            if not all(task.uid in left for task in group):
                return False
        return len(pdb.within_budgets(self._session.snapshot.budgets, together)) == len(together)

    def _place(self, task: Task) -> bool:
        """Finds an underused node for a task, beside the victims placed so far."""
        job: Job = self._session.snapshot.jobs[task.job]
        fits: Mask = self._low & (self._free + STEP > task.request).all(axis=1)
        choice = self._session.placer.find(task, job.queue, within=fits) if fits.any() else None
        if choice is None or choice.pipelined:
            return False
        self._free[choice.row] -= task.request
        return True
