"""Awaited gangs: admitted jobs whose pods do not exist yet; their minimum is kept free for a while.

The controller creates the pods of one job after the other. Without this, the first job would take, with pods beyond its
minimum, the resources that the next ones were admitted for.
"""

from collections.abc import Iterable

from volcano.model.job import Job
from volcano.model.resources import CPU, MEMORY, PODS, Vector, empty, positive
from volcano.model.status import Status
from volcano.model.task import Constraints, Shape, Task
from volcano.scheduler.engine.answers import Memory
from volcano.scheduler.engine.session import Session

AWAITED = "awaited-gangs"  # key in the memory for the next cycle: when each was first seen
TIMEOUT = 30.0  # seconds


class AwaitedGangs:
    """The awaited gangs of a cycle. The time of each starts when it is admitted, or when the scheduler starts."""

    def __init__(self, session: Session, timeout: float) -> None:
        self._session = session
        self._shapes: dict[tuple[str, bytes], Shape] = {}
        now, known = session.snapshot.now, session.snapshot.memory.get(AWAITED, {})
        # Once its time is over, a gang is considered again only when its PodGroup or a pod of it changes.
        since = {uid: known.get(uid, now) for uid in self._possible(known)}
        self.since = {uid: seen for uid, seen in since.items() if now < seen + timeout}
        self._timeout = timeout

    def _possible(self, known: Iterable[str]) -> list[str]:
        jobs, ledger = self._session.snapshot.jobs, self._session.ledger
        uids = dict.fromkeys((*known, *sorted(self._session.snapshot.changed), *ledger.phases))
        return [uid for uid in uids if uid in jobs and _is_awaited(jobs[uid], ledger.phase(jobs[uid]))]

    @property
    def memory(self) -> Memory:
        return Memory(dict(self.since), min(self.since.values()) + self._timeout)

    def __bool__(self) -> bool:
        return bool(self.since)

    @property
    def priority(self) -> int:
        """The highest priority of an awaited gang."""
        return max(self._session.snapshot.jobs[uid].priority for uid in self.since)

    def reserve(self) -> None:
        """Keeps nodes free for the gangs, the most important first; for a gang that does not fit, none."""
        session = self._session
        jobs, queues, policy = session.snapshot.jobs, session.snapshot.queues, session.policy
        gangs = [jobs[uid] for uid in self.since]
        for job in sorted(
            gangs, key=lambda job: (policy.queue_order(queues[job.queue]), policy.job_order(job))
        ):
            with session.attempt(job):
                tasks = self._expected_tasks(job)
                rows = self._find_rows(job, tasks) if tasks else []
                if tasks and len(rows) == len(tasks):
                    session.ledger.hold(tasks[0].request, rows)

    def release(self) -> None:
        """Gives the reserved resources back; later actions evict or place for minimums only."""
        self._session.ledger.release_held()

    def _find_rows(self, job: Job, tasks: list[Task]) -> list[int]:
        placer, ledger = self._session.placer, self._session.ledger
        within = None
        demand = self._session.topology.demand(job)
        if demand is not None and demand.job is not None:
            domain = self._session.topology.roomiest(demand.job, tasks, job.queue)
            if domain is None:
                return []  # it cannot start yet: nothing is kept from others
            within = self._session.topology.mask(domain)
        rows = placer.find_run(tasks, job.queue, within=within)
        if rows:
            return rows
        with ledger.statement():  # a trial, undone on exit
            for task in tasks:
                choice = placer.find(task, job.queue, within=within)
                if choice is None or choice.pipelined or ledger.allocate(task, choice.row) is not None:
                    break
                rows.append(choice.row)
        return rows

    def _expected_tasks(self, job: Job) -> list[Task]:
        """Tasks as large as the average of those that the job lacks for its minimum; none if these request nothing."""
        missing = job.min_available - sum(
            job.count(status) for status in Status if status is not Status.PENDING
        )
        need = positive(job.min_resources - job.allocated)
        if missing <= 0 or empty(need):
            return []
        shape = self._shape(job.namespace, need / missing)
        return [
            Task(f"{job.uid}#{i}", job.namespace, f"{job.name}-{i}", job.uid, shape, Status.PENDING)
            for i in range(missing)
        ]

    def _shape(self, namespace: str, request: Vector) -> Shape:
        request[PODS] = 1.0
        key = (namespace, request.tobytes())
        if key not in self._shapes:
            used = request[[CPU, MEMORY]]
            self._shapes[key] = Shape(request, used, {}, False, namespace, Constraints(), True, key[1])
        return self._shapes[key]


def _is_awaited(job: Job, phase: str) -> bool:
    group = job.group
    return (
        phase == "Inqueue"
        and group.min_resources is not None
        and len(job.tasks) < group.min_member
        and not group.malformed
    )
