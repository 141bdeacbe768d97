"""Eviction for starving jobs: the driver that preempt and reclaim share."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.job_queue import JobQueue, TaskQueue, pending
from volcano.scheduler.engine.victim_index import Scope, VictimIndex
from volcano.scheduler.engine.victim_search import EvictionRules, NodeCursors, VictimSearch

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session


def evict_for_starving_jobs(session: "Session", rules: EvictionRules) -> Mapping[str, VictimIndex]:
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
            searches = (VictimSearch(session, job, queue, index, each, cursors, shapes) for each in passes)
            if not any(evict_for_job(session, job, tasks, search) for search in searches):
                infeasible.add(key)
    return indexes


def _equivalence(
    session: "Session", queue: Queue, job: Job, shapes: frozenset[Shape], rules: EvictionRules
) -> object:
    """Key of jobs for which the search fails alike, as long as nothing else is committed."""
    # Across queues, the priority of the job is not compared with that of its victims.
    priority = job.priority if rules.scope is Scope.SAME_QUEUE else 0
    return queue.name, priority, shapes, len(session.ledger.committed)


def evict_for_job(session: "Session", job: Job, tasks: list[Task], search: VictimSearch) -> bool:
    """Makes room for the tasks while the job starves; commits only if the whole gang is then pipelined."""
    policy, across_queues = session.policy, search.purpose.across_queues
    if across_queues and not policy.reclaim_opened(job, tasks[: policy.job_starving(job)]):
        return False
    positions = search.cursors.positions()
    with session.ledger.statement() as statement:
        _make_room(session, job, tasks, search)
        committed = (
            bool(statement.changes)
            and policy.job_pipelined(job)
            and (not across_queues or policy.reclaim_allowed(job, statement.changes))
        )
        if committed:
            statement.commit()
    if across_queues:
        policy.reclaim_closed(job, committed)
    if not committed:
        search.cursors.restore(positions)
    return committed


def _make_room(session: "Session", job: Job, tasks: list[Task], search: VictimSearch) -> None:
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


def starving_jobs(session: "Session") -> Iterator[tuple[Queue, Job]]:
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


def is_starving(session: "Session", job: Job) -> bool:
    if session.ledger.phase(job) == "Pending" or job.group.malformed or not session.valid(job):
        return False
    return job.count(Status.PENDING) > 0 and session.policy.job_starving(job) > 0
