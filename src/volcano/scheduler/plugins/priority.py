"""priority: tasks and jobs of higher priority go first and may preempt those of lower priority."""

from collections.abc import Sequence

from volcano.model.job import Job, SubJob
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.plugin import Plugin


class Priority(Plugin):
    """Jobs are ordered by their priority class, tasks by their pod's priority."""

    depends_on_preemptor = False
    only_lower_priority = frozenset(each for each in Purpose if not each.across_queues)

    def job_order(self, job: Job) -> int:
        return -job.priority

    def sub_job_order(self, sub_job: SubJob) -> int:
        return -sub_job.priority

    def task_order(self, task: Task) -> int:
        return -task.priority

    def job_starving(self, job: Job) -> int:
        """A job starves until all of its tasks are placed."""
        tally = self.ledger.tally(job)
        return max(0, len(job.tasks) - tally.ready - tally.counts[Status.PIPELINED])

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Inside a queue, tasks are evicted only for higher priority, whatever another tier votes."""
        return candidates if context.purpose.across_queues else self._lower_priority(context, candidates)

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._lower_priority(context, candidates)

    def unified_evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        return (
            candidates
            if context.purpose is Purpose.GANG_RECLAIM
            else self._lower_priority(context, candidates)
        )

    def _lower_priority(self, context: EvictionContext, candidates: Sequence[Task]) -> list[Task]:
        """Compares the priorities of jobs; inside a job, those of tasks."""
        jobs = self.snapshot.jobs
        return [
            task
            for task in candidates
            if (
                task.priority < context.task.priority
                if task.job == context.job.uid
                else (job := jobs.get(task.job)) is not None and job.priority < context.job.priority
            )
        ]
