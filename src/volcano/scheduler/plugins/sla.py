"""sla: no job waits longer than its maximum waiting time; jobs with the earliest deadline go first."""

from typing import ClassVar

from volcano.model.job import Job
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.plugin import Plugin


class Sla(Plugin):
    """The maximum waiting time is an annotation of the job, or `sla-waiting-time` for all jobs."""

    depends_on_time: ClassVar = True
    arguments: ClassVar = (Argument("sla-waiting-time", Type.DURATION),)

    def open(self, arguments: Arguments) -> None:
        waiting = arguments.duration("sla-waiting-time", 0.0)
        self.waiting = waiting if waiting > 0 else None

    def _deadline(self, job: Job) -> float | None:
        """Returns when the job must be scheduled; None without a maximum waiting time."""
        waiting = job.group.sla_waiting if job.group.sla_waiting is not None else self.waiting
        return None if waiting is None else job.created + waiting

    def job_order(self, job: Job) -> tuple[bool, float]:
        deadline = self._deadline(job)
        return (deadline is None, deadline or 0.0)

    def job_enqueueable(self, job: Job) -> Vote:
        return self._overdue(job)

    def job_pipelined(self, job: Job) -> Vote:
        return self._overdue(job)

    def _overdue(self, job: Job) -> Vote:
        """A permit in a tier before those that would reject ends the vote."""
        deadline = self._deadline(job)
        return Vote.PERMIT if deadline is not None and deadline < self.snapshot.now else Vote.ABSTAIN
