"""The reclaim rule: which statements may evict pods of other queues.

The *served fraction* of a queue in a resource that it deserves is allocated / deserved, at most 1, with `deserved`
fixed for the cycle; resources of which every queue gets all it requests do not count where shares depend on requests.
`least` is the smallest served fraction of the reclaiming queue, over the resources that the job
requests, when the statement opens. A statement is allowed if all of this holds:

1. `least` is below 1, and the queue either stays within its share ("preemptive") or was below it in every requested
   resource and afterwards exceeds in none of them what the victim's queue held before, both relative to their shares.
2. Before each eviction the victim's queue exceeds its share in a resource that victim and reclaiming task both request.
3. For every queue on a victim's path to the root and every resource whose served fraction falls over the whole
   statement, it is afterwards larger than `least`.
4. Every queue on the path keeps its guarantee.
5. An eviction that takes a job below its minimum counts as the eviction of all of its pods.

No served fraction falls to `least` or below while one that was `least` rises, so the sorted list of all of them grows
with each statement: queues cannot reclaim from each other without end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import PODS, STEP, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.ledger_view import LedgerView
from volcano.scheduler.engine.surplus import Surplus
from volcano.scheduler.queue_shares.queue_usage import EPSILON, QueueUsage, RequestItems

# Returns the allocated resources of a queue at some point of the statement.
Held = Callable[[str], Vector]


@dataclass(frozen=True, slots=True)
class ReclaimTerms:
    """The part of the rule that depends on the queue plugin."""

    deserved: Mapping[str, Vector]  # of a queue with its descendants
    guarantee: Mapping[str, Vector]
    tolerance: Mapping[str, float]  # tolerated excess over the share, where a queue declares one
    # Whether a queue stays within its share if it holds this much (second vector), a request (first) included.
    preemptive: Callable[[str, Vector, Vector], bool]
    # Whether a queue is below its share in every one of the requested resources.
    below: Callable[[str, Vector], bool]
    # Whether the victim's queue exceeds its share in a resource that victim and reclaiming task both request.
    exceeds: Callable[[EvictionContext, Task, Held], bool]
    level: int = 0  # number of ancestors whose share counts for the queue


@dataclass(frozen=True, slots=True)
class OpenStatement:
    """State of the queues when a statement opened."""

    job: Job
    before: Mapping[str, Vector]  # allocated
    demand: Vector  # requests of the tasks it is opened for
    least: float
    below: bool


class ReclaimRule:
    """Applies the rule: proposes victims one by one, and checks the statement as a whole before it is committed."""

    def __init__(self, usage: QueueUsage, ledger: LedgerView, terms: ReclaimTerms) -> None:
        self._usage = usage
        self._ledger = ledger
        self._terms = terms
        self._zero = usage.snapshot.resources.zeros()
        self._shares: dict[str, RequestItems] = {}
        self._guarantees = {name: amount for name, amount in terms.guarantee.items() if amount.any()}
        self._open: OpenStatement | None = None

    @property
    def exceeding_job(self) -> str:
        """The job of the open statement, if it may bring its queue beyond its share."""
        return self._open.job.uid if self._open is not None and self._open.below else ""

    def open(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Opens a statement for these tasks; false when their queue has its share of all that they request."""
        demand = self._sum(tasks)
        before = self._usage.allocated.copy()
        fractions = self._fractions(job.queue, demand, lambda name: before.get(name, self._zero))
        least = min(fractions.values(), default=1.0)
        self._open = OpenStatement(job, before, demand, least, self._terms.below(job.queue, demand))
        return least < 1.0 - EPSILON

    def close(self) -> None:
        self._open = None

    # -- victims ---------------------------------------------------------------------------------------------

    def victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Iterator[Task]:
        """Filters candidates in eviction order: those that may be evicted in addition to those before them."""
        search = self._search(context)
        if search is None:
            return
        queues, jobs, accounts = self._usage.snapshot.queues, self._usage.snapshot.jobs, search.accounts
        for uid, run in _identical_runs(candidates):
            job = jobs.get(uid)
            if job is None or job.queue in search.reclaimer or not queues[job.queue].reclaimable:
                continue
            if len(run) > 1 and accounts.spare(job) >= len(run):
                # What holds after the last of them holds after each one before it.
                request = self._usage.request(run[0])
                loss = request * len(run)
                if self._may_lose(search, job, run[0], loss, accounts.held_without(loss - request)):
                    accounts.evict(job, run, loss)
                    yield from run
                    continue
            for task in run:
                if uid in accounts.broken:  # counted with the rest of its gang
                    yield task
                    continue
                loss, breaks = accounts.loss(job, task)
                if self._may_lose(search, job, task, loss, accounts.held):
                    accounts.evict(job, (task,), loss, breaks=breaks)
                    yield task

    def _search(self, context: EvictionContext) -> "_Search | None":
        """Returns the state of a search for victims; None when there can be none."""
        statement = self._statement(context)
        queue = statement.job.queue
        request = (
            statement.demand if context.purpose is Purpose.GANG_RECLAIM else self._usage.request(context.task)
        )
        holds = self._usage.allocated[queue]
        preemptive = self._terms.preemptive(queue, request, holds + request)
        if statement.least >= 1.0 - EPSILON or not (preemptive or statement.below):
            return None
        return _Search(
            context,
            statement,
            frozenset(self._usage.tree.path(queue)),
            preemptive,
            limits=() if preemptive else self._parts(queue, request, holds + request),
            expected=np.maximum(statement.demand - holds + self._before(statement, queue), 0.0),
            accounts=_Accounts(self._usage, self._ledger),
        )

    def _may_lose(self, search: "_Search", job: Job, task: Task, loss: Vector, exceeding: Held) -> bool:
        """Reports whether the queue of a job may lose this much; `exceeding` is what it holds before the last task."""
        if not self._terms.exceeds(search.context, task, exceeding):
            return False
        statement, accounts = search.statement, search.accounts
        if search.limits and not self._within(search.limits, self._before(statement, job.queue), job.queue):
            return False
        path = self._usage.tree.path(job.queue)
        after = {name: accounts.held(name) - loss for name in path}
        if not search.reclaimer.isdisjoint(path):
            after = {
                name: amount + search.expected if name in search.reclaimer else amount
                for name, amount in after.items()
            }
        return self._keeps(statement, after, eager=search.preemptive)

    def _statement(self, context: EvictionContext) -> OpenStatement:
        if self._open is None or self._open.job.uid != context.job.uid:
            self.open(context.job, (context.task,))
        assert self._open is not None
        return self._open

    # -- the whole statement ---------------------------------------------------------------------------------

    def allows(self, job: Job, evicted: Sequence[Task], placed: Sequence[Task]) -> bool:
        """Reports whether the changes made since `open` satisfy the rule."""
        statement, usage = self._open, self._usage
        if not evicted:
            return True
        if statement is None or statement.job.uid != job.uid:
            return False
        requested = self._sum(placed)
        before = self._fractions(job.queue, requested, lambda name: self._before(statement, name))
        now = self._fractions(job.queue, requested, usage.allocated.__getitem__)
        least = min(before.values(), default=1.0)
        if not any(fraction <= least + EPSILON < now[pair] for pair, fraction in before.items()):
            return False  # the queue is no better off where it is served least
        holds = usage.allocated[job.queue]
        preemptive = self._terms.preemptive(job.queue, requested, holds)
        victims = {usage.snapshot.jobs[task.job].queue for task in evicted}
        if not preemptive:
            limits = self._parts(job.queue, requested, holds)
            if not statement.below or not all(
                self._within(limits, self._before(statement, name), name) for name in victims
            ):
                return False
        affected = {name for queue in victims for name in usage.tree.path(queue)}
        after = {name: usage.allocated[name] for name in affected}
        exact = OpenStatement(job, statement.before, requested, least, statement.below)
        return self._keeps(exact, after, eager=preemptive)

    def _sum(self, tasks: Sequence[Task]) -> Vector:
        return sum((self._usage.request(task) for task in tasks), start=self._zero)

    # -- comparisons -----------------------------------------------------------------------------------------

    def _before(self, statement: OpenStatement, name: str) -> Vector:
        return statement.before.get(name, self._zero)

    def _keeps(self, statement: OpenStatement, after: Mapping[str, Vector], *, eager: bool) -> bool:
        """Reports whether the queues keep their guarantees and are served more than the reclaiming queue was.

        A queue with the tolerance 0 returns every excess to a queue that stays within its share (`eager`).
        """
        for name, amount in after.items():
            before = self._before(statement, name)
            guaranteed = self._guarantees.get(name)
            if guaranteed is not None:
                fallen = (amount < before) & (guaranteed > 0)
                if (amount[fallen] + STEP < guaranteed[fallen]).any():
                    return False
            if eager and self._terms.tolerance.get(name) == 0:
                continue
            for column, deserved in self._share_items(name):
                left = amount.item(column)
                if left < min(before.item(column), deserved) - STEP and (
                    left / deserved <= statement.least + EPSILON
                ):
                    return False
        return True

    def _within(self, limits: Sequence[tuple[int, float]], before: Vector, name: str) -> bool:
        """Reports whether a queue held at least these parts of its share; one without a share always did."""
        deserved = self._terms.deserved.get(name, self._zero)
        return all(
            deserved.item(column) < STEP or part <= before.item(column) / deserved.item(column) + EPSILON
            for column, part in limits
        )

    def _parts(self, queue: str, request: Vector, holds: Vector) -> tuple[tuple[int, float], ...]:
        """Returns the parts of its share that a queue holds of the requested resources, by column; may exceed 1."""
        return tuple(
            (column, holds.item(column) / deserved)
            for column, deserved in self._share_items(queue)
            if request.item(column) > 0
        )

    def _fractions(self, queue: str, request: Vector, held: Held) -> dict[tuple[str, int], float]:
        """Returns the served fractions of a queue, and of the ancestors that count, in the requested resources."""
        return {
            (name, column): min(1.0, part)
            for name in self._usage.tree.path(queue)[: self._terms.level + 1]
            for column, part in self._parts(name, request, held(name))
        }

    def _share_items(self, name: str) -> RequestItems:
        """Returns the deserved amounts of a queue by column, as plain numbers."""
        found = self._shares.get(name)
        if found is None:
            deserved = self._terms.deserved.get(name, self._zero)
            columns = np.flatnonzero(deserved >= STEP).tolist()
            found = tuple((column, deserved.item(column)) for column in columns if column != PODS)
            self._shares[name] = found
        return found


@dataclass(frozen=True, slots=True)
class _Search:
    """One search for victims within a statement."""

    context: EvictionContext
    statement: OpenStatement
    reclaimer: frozenset[str]  # the reclaiming queue and its ancestors
    preemptive: bool
    limits: tuple[tuple[int, float], ...]  # parts of its share that the queue will hold, if beyond it
    expected: Vector  # requests of the statement's tasks that are not placed yet
    accounts: "_Accounts"


class _Accounts:
    """Allocated resources of queues, and members of gangs, after the evictions considered so far."""

    def __init__(self, usage: QueueUsage, ledger: LedgerView) -> None:
        self._usage = usage
        self._ledger = ledger
        self._running: dict[str, Vector] = {}
        self._surplus = Surplus(ledger)
        self._lost: dict[str, Vector] = {}  # by job
        self.broken: set[str] = set()  # jobs that are below their minimum

    def held(self, queue: str) -> Vector:
        found = self._running.get(queue)
        return self._usage.allocated[queue] if found is None else found

    def held_without(self, amount: Vector) -> Held:
        return lambda queue: self.held(queue) - amount

    def spare(self, job: Job) -> int:
        """Returns how many members a job without minimums of roles can lose; 0 for other jobs."""
        return self._surplus.members(job) if not job.group.min_task_member else 0

    def loss(self, job: Job, task: Task) -> tuple[Vector, bool]:
        """Returns what evicting a task costs its queue, and whether it takes the job below its minimum."""
        if self._surplus.has(job, task):
            return self._usage.request(task), False
        remaining = self._ledger.allocated(job)
        lost = self._lost.get(job.uid)
        return remaining if lost is None else remaining - lost, True

    def evict(self, job: Job, tasks: Sequence[Task], loss: Vector, *, breaks: bool = False) -> None:
        for name in self._usage.tree.path(job.queue):
            self._running[name] = self.held(name) - loss
        if breaks:
            self.broken.add(job.uid)
            return
        for task in tasks:
            self._surplus.take(job, task)
        lost = self._lost.get(job.uid)
        self._lost[job.uid] = loss if lost is None else lost + loss


def _identical_runs(tasks: Sequence[Task]) -> Iterator[tuple[str, Sequence[Task]]]:
    """Divides tasks into runs of one job and shape."""
    start = 0
    for end in range(1, len(tasks) + 1):
        first = tasks[start]
        if end == len(tasks) or tasks[end].job != first.job or tasks[end].shape is not first.shape:
            yield first.job, tasks[start:end]
            start = end


def without_uncontended(
    shares: Mapping[str, Vector], deserved: Mapping[str, Vector], requested: Mapping[str, Vector]
) -> dict[str, Vector]:
    """Returns shares without the resources of which every queue deserves all it requests.

    A share of such a resource is the request itself, and there is no competition for it: a queue that returns its
    excess of another resource would count as served less and less, and keep a part of the excess.
    """
    short = [requested[name] >= deserved[name] + STEP for name in requested if name in deserved]
    contended = np.any(short, axis=0) if short else False
    return {name: np.where(contended, amount, 0.0) for name, amount in shares.items()}
