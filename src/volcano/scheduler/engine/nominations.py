"""Nominations: nodes that pods were evicted from for a task; its queue and job go before others until it is placed."""

from collections.abc import Callable, Iterable, Mapping

from volcano.model.job import Job
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis.diagnoses import Diagnoses
from volcano.scheduler.engine.ledger_view import LedgerView

NOMINATIONS = "nominations"  # key of `snapshot.memory` for unused nominations
NO_JOBS: Mapping[str, Job] = {}


def nomination(task: Task) -> str:
    """Returns the key of a task's nomination; another node is another nomination."""
    return f"{task.uid}@{task.nominated}"


class Nominations:
    """Jobs for which tasks were evicted."""

    def __init__(
        self, ledger: LedgerView, diagnoses: Diagnoses, active_jobs: Callable[[], Iterable[Job]]
    ) -> None:
        self._ledger = ledger
        self._diagnoses = diagnoses
        self._active_jobs = active_jobs
        self._jobs: dict[str, dict[str, Job]] | None = None  # by queue and uid

    def has_queue(self, queue: str) -> bool:
        """Reports whether a job of the queue has nominated tasks that are pending and did not fail in this cycle."""
        tally, failed = self._ledger.tally, self._diagnoses.by_job
        return any(
            job.uid not in failed and tally(job).counts[Status.PENDING] > 0
            for job in self._in_queue(queue).values()
        )

    def has_job(self, job: Job) -> bool:
        return job.uid in self._in_queue(job.queue)

    def _in_queue(self, queue: str) -> Mapping[str, Job]:
        if self._jobs is None:
            self._jobs = {}
            missed = set(self._ledger.snapshot.memory.get(NOMINATIONS, ()))
            for job in self._active_jobs():
                if any(nomination(task) not in missed for task in _nominated(job)):
                    self._jobs.setdefault(job.queue, {})[job.uid] = job
        return self._jobs.get(queue, NO_JOBS)

    def missed(self) -> list[str]:
        """Returns the nominations of tasks that could have used their node and did not; they expire."""
        snapshot, status = self._ledger.snapshot, self._ledger.status
        missed = []
        for job in self._active_jobs():
            for task in _nominated(job):
                row = snapshot.row_of.get(task.nominated)
                being_freed = row is not None and bool(snapshot.releasing[row].any())
                if status(task) is Status.PENDING and not being_freed:
                    missed.append(nomination(task))
        return missed


def _nominated(job: Job) -> list[Task]:
    return [task for task in job.by_status.get(Status.PENDING, ()) if task.nominated]
