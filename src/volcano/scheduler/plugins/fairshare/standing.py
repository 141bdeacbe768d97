"""Standing of queues, users and jobs as of one snapshot: used by the plugin and by `vcctl`."""

from functools import cached_property

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import PODS, STEP
from volcano.model.snapshot import Snapshot
from volcano.scheduler.plugins.fairshare.factors import Factors, PriorityRange, age_factor, size_factor
from volcano.scheduler.plugins.fairshare.settings import Settings
from volcano.scheduler.plugins.fairshare.tree import ShareTree
from volcano.scheduler.plugins.fairshare.usage import Usage, account_of


class Standing:
    """Shares of queues and users, and the factors of jobs, computed when they are asked for."""

    def __init__(self, snapshot: Snapshot, settings: Settings, usage: Usage) -> None:
        """`usage` is as of the snapshot, with a row for each account that has a job."""
        self._snapshot = snapshot
        self._settings = settings
        self.usage = usage

    @cached_property
    def tree(self) -> ShareTree:
        charges = self.usage.used @ self._settings.price_vector(self.usage.index)
        return ShareTree(self._snapshot.queues, dict(zip(self.usage.accounts, charges.tolist(), strict=True)))

    @cached_property
    def _priorities(self) -> PriorityRange:
        return PriorityRange(self._snapshot.priorities.values())

    @cached_property
    def _fractions(self) -> list[float]:
        """Reciprocals of the cluster's resources; 0 for those it does not have, and for pods."""
        total = self._snapshot.total
        reciprocals = np.divide(1.0, total, out=np.zeros_like(total), where=total >= STEP)
        reciprocals[PODS] = 0.0
        found: list[float] = reciprocals.tolist()
        return found

    def factors(self, job: Job) -> Factors:
        """Factors of a job's priority, without their weights."""
        settings, snapshot = self._settings, self._snapshot
        return Factors(
            self._priorities.factor(job.priority),
            age_factor(job.created, snapshot.now, settings.max_age),
            size_factor(job, self._fractions, favor_small=settings.favor_small),
            self.tree.user(account_of(job)).factor,
        )

    def priority(self, job: Job) -> float:
        """Priority of a job among those of its queue; the largest goes first."""
        settings, weights = self._settings, self._settings.weights
        total = (
            weights.priority * self._priorities.factor(job.priority)
            + weights.age * age_factor(job.created, self._snapshot.now, settings.max_age)
            + weights.fairshare * self.tree.user(account_of(job)).factor
        )
        if weights.size:
            total += weights.size * size_factor(job, self._fractions, favor_small=settings.favor_small)
        return total
