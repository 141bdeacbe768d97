"""Victim search: frees resources for one job by evicting as few pods as its tasks need."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.status import EVICTABLE
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.eviction.victim_index import Scope, VictimIndex
from volcano.scheduler.engine.placement.cycle import PlacementCycle
from volcano.scheduler.engine.surplus import Surplus


@dataclass(frozen=True, slots=True)
class EvictionRules:
    """How one action evicts: the pods it may evict, and the checks that jobs and tasks have to pass first."""

    purpose: Purpose
    scope: Scope
    break_gangs: bool = False  # whether gangs may fall below their minimum
    # Whether evictions may be made for a job of a queue at all.
    job_allowed: Callable[[PlacementCycle, Queue, Job], bool] = lambda session, queue, job: True
    # Whether evictions may be made for these tasks; asked before each task.
    tasks_allowed: Callable[[PlacementCycle, Queue, Sequence[Task]], bool] = lambda session, queue, tasks: (
        True
    )


class NodeCursor:
    """Position in the list of nodes to try for tasks of one shape; it stays at a node while tasks fit there."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = rows
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < len(self._rows):
            yield self._rows[self.at]
            self.at += 1


class NodeCursors:
    """One cursor per kind of task: a node that is infeasible for one job is not tried again for the next like it."""

    def __init__(self) -> None:
        self._cursors: dict[object, NodeCursor] = {}

    def find(self, kind: object, rows: Callable[[], Sequence[int]]) -> NodeCursor:
        cursor = self._cursors.get(kind)
        if cursor is None:
            cursor = self._cursors[kind] = NodeCursor(rows())
        return cursor

    def positions(self) -> dict[object, int]:
        """Positions of all cursors, to `restore` after an undo."""
        return {kind: cursor.at for kind, cursor in self._cursors.items()}

    def restore(self, positions: dict[object, int]) -> None:
        for kind, cursor in self._cursors.items():
            cursor.at = positions.get(kind, 0)


class VictimSearch:
    """Finds nodes and victims for the tasks of one job, under the rules of one action."""

    def __init__(
        self,
        session: PlacementCycle,
        job: Job,
        queue: Queue,
        index: VictimIndex,
        rules: EvictionRules,
        cursors: NodeCursors | None = None,
        shapes: frozenset[Shape] = frozenset(),
        within: Mask | None = None,
    ) -> None:
        """`shapes` are those of all pending tasks of the job: limits may depend on all that it requests. `within`
        limits the nodes; cursors must not be shared with searches on other nodes."""
        self._session = session
        self._job = job
        self._queue = queue
        self._index = index
        self.rules = rules
        self._shapes = shapes
        self._within = within
        self.cursors = cursors or NodeCursors()
        self._full: set[Shape] = set()  # shapes that no node has idle resources for

    def make_room(self, run: Sequence[Task]) -> int:
        """Pipelines the first of these identical tasks, and those after it that fit on its node in the same way.

        Evicts as few tasks as needed. Returns the number pipelined; 0, with nothing changed, when not even the first
        can be.
        """
        task, rules = run[0], self.rules
        if not self._permitted(run[:1]):
            return 0
        if task.shape not in self._full:
            if self._allowed(task) and self._place_without_eviction(task):
                return 1
            self._full.add(task.shape)
        if not self._may_evict:
            return 0
        kind = (self._queue.name, self._job.priority, task.shape, self._shapes, rules.break_gangs)
        cursor = self.cursors.find(kind, lambda: self._rows(task))
        context = EvictionContext(rules.purpose, self._job, task, rules.break_gangs)
        ledger = self._session.ledger
        for row in cursor:
            if self._fits(task, row):
                return int(ledger.pipeline(task, row) is None)
            if self._clear(context, row):
                return 1 + (self._repeat(context, run[1:], row) if len(run) > 1 else 0)
        return 0

    @cached_property
    def _may_evict(self) -> bool:
        """Whether there may be victims: inside a queue, often only jobs of lower priority are."""
        hooks = self._session.policy.victim_hooks(self.rules.purpose)
        if self.rules.scope is not Scope.SAME_QUEUE or not hooks.only_lower_priority:
            return True
        return self._index.lowest_priority < self._job.priority

    def _place_without_eviction(self, task: Task) -> bool:
        """Pipelines on idle or releasing resources; inside a job, a task only takes the place of another one."""
        if self.rules.scope is Scope.SAME_JOB:
            return False
        choice = self._session.placer.find(task, self._queue.name, within=self._within)
        return choice is not None and self._session.ledger.pipeline(task, choice.row) is None

    def _rows(self, task: Task) -> list[int]:
        """Nodes that could hold the task if all eligible tasks were evicted, in the order to try them."""
        rows = self._session.placer.resolvable(task, self._queue.name)
        if self.rules.purpose is Purpose.RECLAIM:
            rows = np.sort(rows)
        if self._within is not None:
            rows = rows[self._within[rows]]
        free = self._session.nodes.rows(rows).future_idle + self._index.requests()[rows]
        asked = task.request > 0
        enough = (task.request[asked] < free[:, asked] + STEP).all(axis=1)
        found: list[int] = rows[enough].tolist()
        return found

    def _clear(self, context: EvictionContext, row: int) -> bool:
        """Evicts on one node, in victim order, until the task fits, and pipelines it there; False if impossible."""
        session, task = self._session, context.task
        candidates = self._candidates(task, row)
        if not candidates:
            return False
        surplus, rest = self._by_surplus(session.policy.victim_order(context, candidates, in_task_order=True))
        # A later tier may allow breaking a gang; that is left to the second pass, when evicting surplus failed.
        for victims in self._victim_sets(context, [*surplus, *rest] if context.break_gangs else surplus, row):
            with session.ledger.statement() as statement:
                if (
                    self._evict_until_it_fits(context, victims, row)
                    and session.ledger.pipeline(task, row, evicting=True) is None
                ):
                    statement.commit()
                    return True
        return False

    def _repeat(self, context: EvictionContext, others: Sequence[Task], row: int) -> int:
        """Makes room for further identical tasks on the node of the first one, in one step; returns how many.

        The victims are those that evicting one by one would choose. This holds where all candidates belong to one gang
        that has enough surplus, each task needs the same number of victims and nothing but resources, and no plugin
        takes the resources of the evicting job into account.
        """
        session, task = self._session, context.task
        policy, ledger = session.policy, session.ledger
        hooks = policy.victim_hooks(self.rules.purpose)
        if context.break_gangs or not hooks.ignores_preemptor or policy.reserves(task):
            return 0
        victims = self._surplus_of_one_gang(self._candidates(task, row))
        if not victims or policy.reject_nodes_now(task, session.nodes.at(np.array((row,)))) is not None:
            return 0
        each, many = session.placer.exchange(task, self._queue.name, row, victims[0].request, len(victims))
        victims = victims[: min(many, len(others)) * each]
        if not victims:
            return 0
        allowed = policy.victims(context, victims, first_tier=True)
        many = _common(allowed, victims) // each
        chosen, placed = tuple(victims[: many * each]), tuple(others[:many])
        if not many or not self._permitted(placed):
            return 0
        if self.rules.purpose.across_queues and not policy.preemptive(self._queue, placed):
            return 0  # beyond its share, a queue is compared with those of the victims after each task
        with ledger.statement() as statement:
            ledger.evict_run(chosen, self.rules.purpose.value, self._job.uid)
            enough = policy.allocatable(self._queue, task, many) >= many
            if enough and ledger.pipeline_run(placed, row) is None:
                statement.commit()
                return many
        return 0

    def _surplus_of_one_gang(self, candidates: Sequence[Task]) -> list[Task]:
        """Leading identical candidates above the minimum of their gang; none when candidates are of several gangs."""
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

    def _permitted(self, tasks: Sequence[Task]) -> bool:
        return self.rules.tasks_allowed(self._session, self._queue, tasks)

    def _victim_sets(
        self, context: EvictionContext, candidates: Sequence[Task], row: int
    ) -> Iterator[list[Task]]:
        """Sets of victims that free enough resources, smallest first: usually the first few candidates are enough."""
        policy, placer, task = self._session.policy, self._session.placer, context.task
        few = 1
        while few < len(candidates) and not placer.fits_with(
            task, self._queue.name, row, _sum(candidates[:few])
        ):
            few += 1
        if few < len(candidates):
            victims = policy.victims(context, candidates[:few], first_tier=True)
            if len(victims) == few:
                yield victims
        victims = policy.victims(context, candidates) if candidates else []
        if victims and placer.fits_with(task, self._queue.name, row, _sum(victims)):
            yield self._without_unneeded(context, victims, row)

    def _without_unneeded(self, context: EvictionContext, victims: list[Task], row: int) -> list[Task]:
        """Leaves out victims whose eviction is not needed, where filters other than resources reject the node."""
        table = self._session.nodes.rows([row])
        policy = self._session.policy
        if len(victims) < 2 or (
            policy.reject_nodes_now(context.task, table) is None
            and policy.node_capacity(context.task, table, 1, False) is None
        ):
            return victims
        for victim in victims:
            fewer = [other for other in victims if other is not victim]
            with self._session.ledger.statement():  # a trial, undone on exit
                enough = self._evict_until_it_fits(context, fewer, row)
            if enough:
                victims = fewer
        return victims

    def _evict_until_it_fits(self, context: EvictionContext, victims: Sequence[Task], row: int) -> bool:
        for victim in victims:
            if self._session.ledger.status(victim) not in EVICTABLE:
                continue  # evicted with its gang
            if self._evict(context, victim) and self._fits(context.task, row):
                return True
        return False

    def _evict(self, context: EvictionContext, victim: Task) -> bool:
        """Evicts one task; a gang that would fall below its minimum is evicted as a whole or not at all."""
        session = self._session
        ledger, job = session.ledger, session.snapshot.jobs[victim.job]
        together = [victim]
        if context.break_gangs and not Surplus(ledger).take(job, victim):
            members = [task for task in job.tasks.values() if ledger.status(task) in EVICTABLE]
            if len(members) < ledger.holding(job):
                return False  # a member that is being bound would be left alone
            if len(members) > 1:
                allowed = {task.uid for task in session.policy.victims(context, members)}
                if not all(task.uid in allowed and task.preemptable for task in members):
                    return False
                together = members
                self._full.clear()  # resources become free on other nodes as well
        for task in together:
            ledger.evict(task, self.rules.purpose.value, self._job.uid)
        return True

    def _by_surplus(self, tasks: Sequence[Task]) -> tuple[Sequence[Task], Sequence[Task]]:
        """Tasks above the minimums of their gangs, and the rest; each in the order given."""
        if self.rules.scope is Scope.SAME_JOB:
            return tasks, ()  # each victim is replaced: the gang keeps its size
        spare, jobs = Surplus(self._session.ledger), self._session.snapshot.jobs
        surplus: list[Task] = []
        rest: list[Task] = []
        for task in tasks:
            (surplus if spare.take(jobs[task.job], task) else rest).append(task)
        return surplus, rest

    def _candidates(self, task: Task, row: int) -> list[Task]:
        """Tasks on a node that this one may replace; a best-effort task replaces best-effort tasks only."""
        same_job = self.rules.scope is Scope.SAME_JOB
        return [
            other
            for other in self._index.on(row)
            if (other.job == task.job) is same_job and (not task.best_effort or other.best_effort)
        ]

    def _allowed(self, task: Task) -> bool:
        return self._session.policy.allocatable(self._queue, task, 1) > 0

    def _fits(self, task: Task, row: int) -> bool:
        return self._session.placer.fits(task, self._queue.name, row) and self._allowed(task)


def _sum(tasks: Sequence[Task]) -> Vector:
    total = tasks[0].request.copy()
    for task in tasks[1:]:
        total += task.request
    return total


def _common(left: Sequence[Task], right: Sequence[Task]) -> int:
    """Length of the common prefix of two sequences of tasks."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one is not other:
            break
        count += 1
    return count
