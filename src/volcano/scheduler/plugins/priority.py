"""priority: tasks and jobs of higher priority go first and may preempt those of lower priority."""

from collections.abc import Sequence

from volcano.model.job import Job, SubJob
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.plugin import Hunt, Plugin, Purpose


class Priority(Plugin):
    """Jobs are ordered by their priority class, tasks by their pod's priority."""

    depends_on_preemptor = False

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

    def filter_victims(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        """Inside a queue, tasks are evicted only for higher priority, whatever another tier votes."""
        return candidates if hunt.purpose.across_queues else self._lower_priority(hunt, candidates)

    def preemptable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._lower_priority(hunt, candidates)

    def unified_evictable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        return candidates if hunt.purpose is Purpose.GANG_RECLAIM else self._lower_priority(hunt, candidates)

    def _lower_priority(self, hunt: Hunt, candidates: Sequence[Task]) -> list[Task]:
        """Compares the priorities of jobs; inside a job, those of tasks."""
        jobs = self.snapshot.jobs
        return [
            task
            for task in candidates
            if (
                task.priority < hunt.task.priority
                if task.job == hunt.job.uid
                else (job := jobs.get(task.job)) is not None and job.priority < hunt.job.priority
            )
        ]
