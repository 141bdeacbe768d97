"""Making room by eviction: where, at whose expense, and never more than the task that asks will really use."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Vector
from volcano.model.status import EVICTABLE, Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.plugin import Hunt, Purpose

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

Eligible = Callable[[Task], bool]


class Prey:
    """The running tasks that some hunts may look at, by node; looked at again where the ledger changed."""

    def __init__(self, session: "Session", eligible: Eligible) -> None:
        self._ledger = session.ledger
        self._order = session.policy.task_order
        self._unsorted = set(range(len(session.snapshot.tasks_on)))
        self._seen = len(session.ledger.touched)
        # Facts decide who is eligible at all, once; the ledger who still is.
        self._eligible = [
            [task for task in tasks.values() if eligible(task)] for tasks in session.snapshot.tasks_on
        ]
        self._by_row: list[list[Task]] = [[] for _ in self._eligible]
        self._amounts: Vector = session.ledger.used * 0.0  # what they hold, by row
        self._unseen = {row for row, tasks in enumerate(self._eligible) if tasks}
        self._unsummed: set[int] = set()

    def on(self, row: int) -> list[Task]:
        """The eligible tasks on a node as of now, in reverse task order."""
        self._refresh()
        if row in self._unsorted:
            self._unsorted.discard(row)
            self._eligible[row].sort(key=self._order, reverse=True)
            self._unseen.add(row)
        if row in self._unseen:
            self._look(row)
        return self._by_row[row]

    def amounts(self) -> Vector:
        """What the eligible tasks hold, by row, as of now."""
        self._refresh()
        for row in list(self._unseen):
            self._look(row)
        for row in self._unsummed:
            total = self._amounts[row]
            total[:] = 0.0
            for task in self._by_row[row]:
                total += task.shape.request
        self._unsummed.clear()
        return self._amounts

    def _refresh(self) -> None:
        touched = self._ledger.touched
        if self._seen < len(touched):
            self._unseen.update(touched[self._seen :])
            self._seen = len(touched)

    def _look(self, row: int) -> None:
        now = self._ledger.statuses
        self._by_row[row] = [
            task for task in self._eligible[row] if now.get(task.uid, task.status) in EVICTABLE
        ]
        self._unseen.discard(row)
        self._unsummed.add(row)


class Trail:
    """The nodes to try for tasks of one shape, in order; one that gave room is tried first for the next task."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = rows
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < len(self._rows):
            yield self._rows[self.at]
            self.at += 1


class Trails:
    """How far the search has come, per kind of task; what one job found barren, the next like it need not try again."""

    def __init__(self) -> None:
        self._trails: dict[object, Trail] = {}

    def find(self, kind: object, rows: Callable[[], Sequence[int]]) -> Trail:
        trail = self._trails.get(kind)
        if trail is None:
            trail = self._trails[kind] = Trail(rows())
        return trail

    def marks(self) -> dict[object, int]:
        """Where every trail stands, to return to after an undo."""
        return {kind: trail.at for kind, trail in self._trails.items()}

    def back_to(self, marks: dict[object, int]) -> None:
        for kind, trail in self._trails.items():
            trail.at = marks.get(kind, 0)


class Hunter:
    """Finds room for the tasks of one job. `breaking` says whether gangs may be broken for it."""

    def __init__(
        self,
        session: "Session",
        job: Job,
        queue: Queue,
        prey: Prey,
        purpose: Purpose,
        trails: Trails | None = None,
        *,
        breaking: bool,
    ) -> None:
        self._session = session
        self._job = job
        self._queue = queue
        self._prey = prey
        self._purpose = purpose
        self._breaking = breaking
        self.trails = trails or Trails()
        self._full: set[Shape] = set()  # shapes for which nothing is free

    def make_room(self, run: Sequence[Task]) -> int:
        """Pipelines the first of these like tasks, and those after it that the same node can give room in the same way.

        Evicts as few as are needed; 0, with nothing changed, when it is impossible even for the first.
        """
        task = run[0]
        if task.shape not in self._full:
            if self._allowed(task) and self._place_as_is(task):
                return 1
            self._full.add(task.shape)
        kind = (self._queue.name, self._job.priority, task.shape, self._breaking)
        trail = self.trails.find(kind, lambda: self._rows(task))
        hunt = Hunt(self._purpose, self._job, task, self._breaking)
        ledger = self._session.ledger
        for row in trail:
            if self._fits(task, row):
                return int(ledger.pipeline(task, row) is None)
            if self._clear(hunt, row):
                return 1 + (self._repeat(hunt, run[1:], row) if len(run) > 1 else 0)
        return 0

    def _place_as_is(self, task: Task) -> bool:
        """Without evicting anybody: on what is idle or already being released."""
        answer = self._session.placer.find(task, self._queue.name)
        return answer is not None and self._session.ledger.pipeline(task, answer.row) is None

    def _rows(self, task: Task) -> list[int]:
        """Nodes that could hold the task if everybody eligible left, in the order to try them."""
        rows = self._session.placer.curable(task, self._queue.name)
        if self._purpose is Purpose.RECLAIM:
            rows = np.sort(rows)
        room = self._session.nodes.rows(rows).future_idle + self._prey.amounts()[rows]
        asked = task.request > 0
        enough = (task.request[asked] < room[:, asked] + STEP).all(axis=1)
        found: list[int] = rows[enough].tolist()
        return found

    def _clear(self, hunt: Hunt, row: int) -> bool:
        """Evicts on one node, worst first, until the task fits, and promises it the room; True when that was done."""
        session, task = self._session, hunt.task
        candidates = self._takeable(task, self._prey.on(row))
        if not candidates:
            return False
        surplus, rest = self._by_surplus(session.policy.victim_order(hunt, candidates, in_task_order=True))
        # A gang is not broken because a later tier would allow it: only in the second round, when nothing else helps.
        for victims in self._offers(hunt, [*surplus, *rest] if hunt.breaking else surplus, row):
            with session.ledger.statement() as statement:
                if (
                    self._evict_until_it_fits(hunt, victims, row)
                    and session.ledger.pipeline(task, row, evicting=True) is None
                ):
                    statement.commit()
                    return True
        return False

    def _repeat(self, hunt: Hunt, others: Sequence[Task], row: int) -> int:
        """Makes room on a node for more tasks like the one that just got it there, together; says for how many.

        The same victims go as would one by one. That is certain where all who may go belong to one gang that can spare
        them, where each task needs equally many of them and nothing but resources, and where nobody weighs what the
        taker holds already.
        """
        session, task = self._session, hunt.task
        policy, ledger = session.policy, session.ledger
        if hunt.breaking or not policy.ignores_preemptor(self._purpose) or policy.reserves(task):
            return 0
        victims = self._spare_of_one_gang(self._takeable(task, self._prey.on(row)))
        if not victims or policy.reject_nodes_now(task, session.nodes.at(np.array((row,)))) is not None:
            return 0
        each, many = session.placer.exchange(task, self._queue.name, row, victims[0].request, len(victims))
        victims = victims[: min(many, len(others)) * each]
        if not victims:
            return 0
        allowed = policy.victims(hunt, victims, first_tier=True)
        many = _common(allowed, victims) // each
        chosen, placed = tuple(victims[: many * each]), tuple(others[:many])
        if not many or not self._entitled(placed):
            return 0
        with ledger.statement() as statement:
            ledger.evict_run(chosen, self._purpose.value, self._job.uid)
            enough = policy.allocatable(self._queue, task, many) >= many
            if enough and ledger.pipeline_run(placed, row) is None:
                statement.commit()
                return many
        return 0

    def _spare_of_one_gang(self, candidates: Sequence[Task]) -> list[Task]:
        """The first candidates that are alike, as far as their gang can spare them; nobody when they are of several."""
        if not candidates:
            return []
        ledger, first = self._session.ledger, candidates[0]
        job, status = self._session.snapshot.jobs[first.job], ledger.status(first)
        if job.sub_jobs or any(task.job != first.job for task in candidates):
            return []
        found: list[Task] = []
        for task in candidates[: max(0, ledger.ready(job) - job.min_available)]:
            if (task.shape, task.role, ledger.status(task)) != (first.shape, first.role, status):
                break
            found.append(task)
        return found

    def _entitled(self, tasks: Sequence[Task]) -> bool:
        """Whether the queue may take room for so many tasks."""
        return True

    def _offers(self, hunt: Hunt, candidates: Sequence[Task], row: int) -> Iterator[list[Task]]:
        """Sets of victims that would make enough room, to be tried in turn: usually the first few will do."""
        policy, placer, task = self._session.policy, self._session.placer, hunt.task
        few = 1
        while few < len(candidates) and not placer.fits_with(
            task, self._queue.name, row, _sum(candidates[:few])
        ):
            few += 1
        if few < len(candidates):
            victims = policy.victims(hunt, candidates[:few], first_tier=True)
            if len(victims) == few:
                yield victims
        victims = policy.victims(hunt, candidates) if candidates else []
        if victims and placer.fits_with(task, self._queue.name, row, _sum(victims)):
            yield self._only_needed(hunt, victims, row)

    def _only_needed(self, hunt: Hunt, victims: list[Task], row: int) -> list[Task]:
        """Spares those who do not stand in the way, where more than resources is in the way."""
        table = self._session.nodes.rows([row])
        if len(victims) < 2 or self._session.policy.reject_nodes_now(hunt.task, table) is None:
            return victims
        for victim in victims:
            fewer = [other for other in victims if other is not victim]
            with self._session.ledger.statement():  # only to see: undone at once
                enough = self._evict_until_it_fits(hunt, fewer, row)
            if enough:
                victims = fewer
        return victims

    def _evict_until_it_fits(self, hunt: Hunt, victims: Sequence[Task], row: int) -> bool:
        for victim in victims:
            if self._session.ledger.status(victim) not in EVICTABLE:
                continue  # went with its gang
            if self._evict(hunt, victim) and self._fits(hunt.task, row):
                return True
        return False

    def _evict(self, hunt: Hunt, victim: Task) -> bool:
        """Evicts one task; in preemption, a gang that would fall below its minimum goes as a whole or not at all."""
        session = self._session
        ledger, job = session.ledger, session.snapshot.jobs[victim.job]
        together = [victim]
        if hunt.breaking and self._purpose is Purpose.PREEMPT and ledger.ready(job) <= job.min_available:
            members = [task for task in job.tasks.values() if ledger.status(task) in EVICTABLE]
            if len(members) > 1:
                allowed = {task.uid for task in session.policy.victims(hunt, members)}
                if not all(task.uid in allowed and task.preemptable for task in members):
                    return False
                together = members
        for task in together:
            ledger.evict(task, self._purpose.value, self._job.uid)
        return True

    def _by_surplus(self, tasks: Sequence[Task]) -> tuple[Sequence[Task], Sequence[Task]]:
        """Members their gangs can spare, and those whose loss would break them; each in the order given."""
        ledger, jobs = self._session.ledger, self._session.snapshot.jobs
        spare: dict[str, int] = {}
        surplus: list[Task] = []
        rest: list[Task] = []
        for task in tasks:
            left = spare.get(task.job)
            if left is None:
                job = jobs[task.job]
                left = ledger.ready(job) - job.min_available
            spare[task.job] = left - 1
            (surplus if left > 0 else rest).append(task)
        return surplus, rest

    def _takeable(self, task: Task, others: Sequence[Task]) -> list[Task]:
        """Whom the task may take the place of: not its own, and nobody who needs resources when it needs none."""
        return [
            other for other in others if other.job != task.job and (not task.best_effort or other.best_effort)
        ]

    def _allowed(self, task: Task) -> bool:
        return self._session.policy.allocatable(self._queue, task) > 0

    def _fits(self, task: Task, row: int) -> bool:
        return self._session.placer.fits(task, self._queue.name, row) and self._allowed(task)


class InnerHunter(Hunter):
    """Finds room at the expense of the job's own, less important tasks."""

    def _takeable(self, task: Task, others: Sequence[Task]) -> list[Task]:
        return [
            other for other in others if other.job == task.job and (not task.best_effort or other.best_effort)
        ]

    def _place_as_is(self, task: Task) -> bool:
        return False

    def _by_surplus(self, tasks: Sequence[Task]) -> tuple[Sequence[Task], Sequence[Task]]:
        return tasks, ()  # whoever leaves is replaced: the gang stays as large as it is


def same_queue(session: "Session", queue: str) -> Prey:
    """What preemption in a queue may look at: its running tasks that do not mind."""
    jobs = session.snapshot.jobs
    return Prey(session, lambda task: task.preemptable and task.job in jobs and jobs[task.job].queue == queue)


def other_queues(session: "Session", queue: str) -> Prey:
    """What reclaim on behalf of a queue may look at: running tasks of other queues that can be reclaimed from."""
    jobs, queues = session.snapshot.jobs, session.snapshot.queues

    def eligible(task: Task) -> bool:
        job = jobs.get(task.job)
        return (
            job is not None
            and task.preemptable
            and task.status is Status.RUNNING
            and job.queue != queue
            and queues[job.queue].reclaimable
        )

    return Prey(session, eligible)


def _sum(tasks: Sequence[Task]) -> Vector:
    total = tasks[0].request.copy()
    for task in tasks[1:]:
        total += task.request
    return total


def _common(left: Sequence[Task], right: Sequence[Task]) -> int:
    """How many tasks two sequences have in common at their beginning."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one is not other:
            break
        count += 1
    return count
