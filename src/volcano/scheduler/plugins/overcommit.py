"""overcommit: let jobs into the queue until they ask for `factor` times what the cluster has."""

from functools import cached_property
from typing import ClassVar

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import Vector, positive
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.plugin import Plugin, Rejection, Vote
from volcano.scheduler.plugins.proportion.shares import asked, lacking


class Overcommit(Plugin):
    """A job is admitted while what it needs at least, with what others were admitted for, still fits."""

    arguments: ClassVar = (
        Argument("overcommit-factor", Type.NUMBER, lambda factor: factor >= 1, "at least 1, such as 1.2"),
    )

    def open(self, arguments: Arguments) -> None:
        self.factor = arguments.number("overcommit-factor", 1.2)

    @cached_property
    def idle(self) -> Vector:
        """What may still be promised: the stretched cluster less what is used."""
        idle: Vector = self.snapshot.total * self.factor - np.sum(self.snapshot.used, axis=0)
        return idle

    @cached_property
    def promised(self) -> Vector:
        """What admitted jobs were promised and do not hold yet."""
        promised = [totals.inqueue for totals in self.snapshot.totals.values()]
        return self.resources.zeros() + sum(promised)

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        if job.group.min_resources is None:
            return Vote.PERMIT
        refusal = lacking(
            self.promised + job.min_resources,
            self.idle,
            asked(job.min_resources),
            self.resources,
            "resource in cluster is overused",
            "overused",
        )
        return refusal or Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        self.promised = self.promised + positive(job.min_resources - job.gated)
