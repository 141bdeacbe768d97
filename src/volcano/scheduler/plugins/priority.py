"""priority: the more important goes first, and takes the place of the less important."""

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
        """A job wants room for as long as not all of its tasks have a place."""
        tally = self.ledger.tally(job)
        return max(0, len(job.tasks) - tally.ready - tally.counts[Status.PIPELINED])

    def filter_victims(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        """Inside a queue nobody has to go for someone who is not more important, whatever another tier says."""
        return candidates if hunt.purpose.across_queues else self._less_important(hunt, candidates)

    def preemptable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._less_important(hunt, candidates)

    def unified_evictable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        return candidates if hunt.purpose is Purpose.GANG_RECLAIM else self._less_important(hunt, candidates)

    def _less_important(self, hunt: Hunt, candidates: Sequence[Task]) -> list[Task]:
        """Between jobs the jobs' priorities count, inside a job those of the tasks."""
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
