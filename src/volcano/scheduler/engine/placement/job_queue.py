"""Job queue: queues, jobs and tasks in policy order, evaluated again after every job."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.cycle import Cycle
from volcano.scheduler.engine.diagnosis import Rejection, from_rejection
from volcano.scheduler.engine.diagnosis.codes import Code

BEHIND = "queue {} serves jobs in their order (dequeueStrategy: fifo), and the one at its head waits"


class Heap:
    """Heap of names by keys. With `mutable_keys`, the key of a name is computed again before it is popped."""

    def __init__(self, key: Callable[[str], Any], *, mutable_keys: bool = False) -> None:
        self._key = key
        self._mutable_keys = mutable_keys
        self._heap: list[tuple[Any, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def names(self) -> list[str]:
        return [name for _, name in self._heap]

    def push(self, name: str) -> None:
        heapq.heappush(self._heap, (self._key(name), name))

    def fill(self, names: Iterable[str]) -> None:
        self._heap = [(self._key(name), name) for name in names]
        heapq.heapify(self._heap)

    def pop(self) -> str:
        """Pops the name with the smallest current key."""
        while self._mutable_keys and len(self._heap) > 1:
            key, name = self._heap[0]
            now = self._key(name)
            if now == key:
                heapq.heappop(self._heap)
                return name
            heapq.heapreplace(self._heap, (now, name))
        return heapq.heappop(self._heap)[1]


class TaskQueue:
    """Tasks of a job that are still to be placed, in order."""

    __slots__ = ("_at", "job", "tasks")

    def __init__(self, job: Job, tasks: list[Task]) -> None:
        self.job = job
        self.tasks = tasks
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self.tasks)

    def run(self, most: int) -> list[Task]:
        """The next identical tasks (shape, role, sub-group), at most so many."""
        tasks, start = self.tasks, self._at
        first = tasks[start]
        groups = self.job.sub_job_of
        group = groups.get(first.uid)
        end, limit = start + 1, min(start + most, len(tasks))
        while (
            end < limit
            and tasks[end].shape is first.shape
            and tasks[end].role == first.role
            and (not groups or groups.get(tasks[end].uid) == group)
        ):
            end += 1
        return tasks[start:end]

    def take(self, count: int) -> None:
        self._at += count

    def left(self) -> list[Task]:
        """The tasks that were not taken yet."""
        return self.tasks[self._at :]

    def replace(self, tasks: Iterable[Task]) -> None:
        """Leaves only these tasks."""
        self.tasks, self._at = list(tasks), 0


class JobQueue:
    """Jobs of all queues in policy order. `drain` yields one after the other; the caller requeues those with
    tasks left."""

    def __init__(self, session: Cycle, task_queues: Iterable[TaskQueue]) -> None:
        self._session = session
        queues, jobs = session.snapshot.queues, session.snapshot.jobs
        self._task_queues = {
            task_queue.job.uid: task_queue
            for task_queue in task_queues
            if _can_be_ordered(session, task_queue.job)
        }
        # Placing for one queue may change the order of queues; the key of a job changes only while it is
        # processed.
        self._queues = Heap(lambda name: session.policy.queue_order(queues[name]), mutable_keys=True)
        self._jobs: dict[str, Heap] = {}
        by_queue: dict[str, list[str]] = {}
        for uid, task_queue in self._task_queues.items():
            by_queue.setdefault(task_queue.job.queue, []).append(uid)
        for name, uids in by_queue.items():
            self._jobs[name] = Heap(lambda uid: session.policy.job_order(jobs[uid]))
            self._jobs[name].fill(uids)
        self._queues.fill(by_queue)

    def drain(self, admitted: Callable[[Queue], bool]) -> Iterator[tuple[Queue, TaskQueue]]:
        """Yields the first job of the first queue until none is left; a queue that is not admitted is
        dropped."""
        queues = self._session.snapshot.queues
        while self._queues:
            name = self._queues.pop()
            while self._jobs[name] and admitted(queues[name]):
                yield queues[name], self._task_queues[self._jobs[name].pop()]
                if self._queues:  # put it back among the other queues
                    if self._jobs[name]:
                        self._queues.push(name)
                    break

    def requeue(self, task_queue: TaskQueue) -> None:
        """Queues a job that has tasks left again."""
        jobs = self._jobs[task_queue.job.queue]
        jobs.push(task_queue.job.uid)

    def drop(self, queue: str) -> None:
        """Drops the remaining jobs of a queue."""
        self._jobs[queue] = Heap(lambda uid: uid)

    def block(self, queue: str, stage: str) -> None:
        """Drops the jobs of a fifo queue behind the one that waits, and records the reason for them."""
        rejection = Rejection(BEHIND.format(queue), Code.QUEUE_ORDER, queue=queue)
        for job in self.waiting(queue):
            self._session.diagnoses.record(from_rejection(job, stage, rejection))
        self.drop(queue)

    def waiting(self, queue: str) -> list[str]:
        """Jobs of a queue that are still queued."""
        return self._jobs[queue].names()

    def next_task(self, uid: str) -> Task:
        """The next task of a queued job."""
        return self._task_queues[uid].run(1)[0]

    def is_last(self, queue: str) -> bool:
        """Whether the job being processed is the last one."""
        return not self._queues and not self._jobs[queue]


def _can_be_ordered(session: Cycle, job: Job) -> bool:
    """Whether the job has an order key; a job for which a plugin fails is skipped."""
    with session.inquiry(job):
        session.policy.job_order(job)
    return job.uid not in session.faults


def pending(session: Cycle, job: Job, wanted: Callable[[Task], bool]) -> list[Task]:
    """Pending tasks of a job that can be placed and are wanted, in task order."""
    ledger = session.ledger
    found = [
        task
        for task in job.by_status.get(Status.PENDING, ())
        if not task.gates and not task.malformed and not ledger.changed(task) and wanted(task)
    ]
    if len(found) > 1:
        found.sort(key=session.policy.task_order)
    return found
