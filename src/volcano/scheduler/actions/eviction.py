"""Eviction for starving jobs: the driver that preempt and reclaim share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.eviction.victim_index import Scope, VictimIndex
from volcano.scheduler.engine.eviction.victim_search import EvictionRules, NodeCursors, VictimSearch
from volcano.scheduler.engine.placement.job_queue import JobQueue, TaskQueue, pending
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.demand import Demand
from volcano.scheduler.engine.topology.eviction import Cost, EvictionDomains, evict_in_cheapest, try_evictions


def evict_for_starving_jobs(session: Session, rules: EvictionRules) -> Mapping[str, VictimIndex]:
    """Evicts for each starving job in policy order; returns the victim indexes it built, by queue.

    Surplus members of gangs are evicted first; gangs are broken only when that was not enough.
    """
    indexes: dict[str, VictimIndex] = {}
    infeasible: set[object] = set()
    cursors = NodeCursors()
    passes = (rules, replace(rules, break_gangs=True))
    for queue, job in starving_jobs(session):
        if not rules.job_allowed(session, queue, job):
            continue
        index = indexes.get(queue.name)
        if index is None:
            index = indexes[queue.name] = VictimIndex.of_scope(session, queue.name, rules.scope)
        with session.attempt(job):
            tasks = pending(session, job, lambda task: task.shape.preempts)
            shapes = frozenset(task.shape for task in tasks)
            key = _equivalence(session, queue, job, shapes, rules)
            if not tasks or key in infeasible:
                continue
            demand = session.topology.demand(job)
            if demand is not None:
                found = any(
                    _evict_in_domain(session, queue, job, tasks, index, each, demand) for each in passes
                )
            else:
                searches = (
                    VictimSearch(session, job, queue, index, each, cursors, shapes) for each in passes
                )
                found = any(evict_for_job(session, job, tasks, search) for search in searches)
            if not found:
                infeasible.add(key)
    return indexes


def _evict_in_domain(
    session: Session,
    queue: Queue,
    job: Job,
    tasks: list[Task],
    index: VictimIndex,
    rules: EvictionRules,
    demand: Demand,
) -> bool:
    """Evicts in the cheapest domain that then takes the job."""
    shapes = frozenset(task.shape for task in tasks)
    found = EvictionDomains(session, queue.name, job, demand, index.requests())

    def search(domain: int) -> VictimSearch:
        mask = session.topology.mask(domain)
        return VictimSearch(session, job, queue, index, rules, shapes=shapes, within=mask)

    def make_room(some: Sequence[Task], domain: int) -> None:
        if not job.sub_jobs:
            _make_room(session, job, list(some), search(domain))
            return
        inside = search(domain)
        for task in some:
            if not session.ledger.changed(task) and not inside.make_room((task,)):
                return

    def attempt(domain: int, commit: bool) -> Cost | None:
        return _attempt(
            session, job, tasks, rules, lambda: found.fill(tasks, domain, make_room), commit=commit
        )

    domains = found.domains(tasks, rules.purpose.value)
    return evict_in_cheapest(session, domains, attempt)


def _equivalence(
    session: Session, queue: Queue, job: Job, shapes: frozenset[Shape], rules: EvictionRules
) -> object:
    """Key of jobs for which the search fails alike, as long as nothing else is committed."""
    # Across queues, the priority of the job is not compared with that of its victims.
    priority = job.priority if rules.scope is Scope.SAME_QUEUE else 0
    demand, held = session.topology.demand(job), None
    if demand is not None:
        held = job.uid if job.sub_jobs else session.topology.held(job)
    limit = demand.job if demand is not None else None
    return queue.name, priority, shapes, limit, held, len(session.ledger.committed)


def evict_for_job(session: Session, job: Job, tasks: list[Task], search: VictimSearch) -> bool:
    """Makes room for the tasks while the job starves; commits only if the whole gang is then pipelined."""
    positions = search.cursors.positions()
    fill = partial(_make_room, session, job, tasks, search)
    committed = _attempt(session, job, tasks, search.rules, fill, commit=True) is not None
    if not committed:
        search.cursors.restore(positions)
    return committed


def _attempt(
    session: Session,
    job: Job,
    tasks: Sequence[Task],
    rules: EvictionRules,
    fill: Callable[[], None],
    *,
    commit: bool,
) -> Cost | None:
    """Evicts and pipelines; undone without `commit`, or unless the whole gang is then pipelined: None."""
    policy, across_queues = session.policy, rules.purpose.across_queues
    if across_queues and not policy.reclaim_opened(job, tasks[: policy.job_starving(job)]):
        return None
    cost = try_evictions(session, job, rules.purpose, fill, commit=commit)
    if across_queues:
        policy.reclaim_closed(job, commit and cost is not None)
    return cost


def _make_room(session: Session, job: Job, tasks: list[Task], search: VictimSearch) -> None:
    ledger, policy = session.ledger, session.policy
    failed: set[object] = set()
    at = 0
    while at < len(tasks) and (wanted := policy.job_starving(job)):
        task = tasks[at]
        if task.shape in failed or ledger.changed(task):
            at += 1
            continue
        made = search.make_room(_identical(job, tasks, at, wanted))
        if not made:
            failed.add(task.shape)
        at += max(made, 1)


def _identical(job: Job, tasks: list[Task], start: int, most: int) -> list[Task]:
    """Tasks from `start` on, at most so many, that the victim search cannot tell apart."""
    first = tasks[start]
    if job.sub_jobs or most == 1:
        return [first]
    end, limit = start + 1, min(start + most, len(tasks))
    while (
        end < limit
        and tasks[end].shape is first.shape
        and tasks[end].role == first.role
        and tasks[end].priority == first.priority
    ):
        end += 1
    return tasks[start:end]


def starving_jobs(session: Session) -> Iterator[tuple[Queue, Job]]:
    """Jobs that lack resources they are entitled to, with their queues, in policy order."""
    task_queues = []
    for job in session.active_jobs():
        if not session.ledger.tally(job).counts[Status.PENDING]:
            continue
        with session.inquiry(job):
            if is_starving(session, job):
                task_queues.append(TaskQueue(job, []))
    for queue, task_queue in JobQueue(session, task_queues).drain(lambda queue: queue.open):
        yield queue, task_queue.job


def is_starving(session: Session, job: Job) -> bool:
    if session.ledger.phase(job) == "Pending" or job.group.malformed or not session.valid(job):
        return False
    return job.count(Status.PENDING) > 0 and session.policy.job_starving(job) > 0
