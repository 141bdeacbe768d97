"""overcommit: admits jobs until they request `factor` times the resources of the cluster."""

from functools import cached_property
from typing import ClassVar

from volcano.model.job import Job
from volcano.model.resources import Vector, positive
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.queue_shares.queue_usage import insufficient, requested_columns


class Overcommit(Plugin):
    """Admits a job while its minimum, together with the minimums of other admitted jobs, fits."""

    arguments: ClassVar = (
        Argument("overcommit-factor", Type.NUMBER, lambda factor: factor >= 1, "at least 1, such as 1.2"),
    )

    def open(self, arguments: Arguments) -> None:
        self.factor = arguments.number("overcommit-factor", 1.2)

    @cached_property
    def idle(self) -> Vector:
        """Resources that may still be admitted: the usable cluster times the factor, less what jobs hold."""
        idle: Vector = self.snapshot.total * self.factor - self.snapshot.held
        return idle

    @cached_property
    def inqueue(self) -> Vector:
        """Minimums of admitted jobs that they do not hold yet."""
        inqueue = [totals.inqueue for totals in self.snapshot.totals.values()]
        return self.resources.zeros() + sum(inqueue)

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        if job.group.min_resources is None:
            return Vote.PERMIT
        rejection = insufficient(
            self.inqueue + job.min_resources,
            self.idle,
            requested_columns(job.min_resources),
            self.resources,
            "resource in cluster is overused",
            "overused",
            request=job.min_resources,
            code=Code.CLUSTER_OVERCOMMITTED,
        )
        return rejection or Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        self.inqueue = self.inqueue + positive(job.min_resources - job.gated)
