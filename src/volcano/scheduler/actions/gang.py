"""Gang-aware eviction: evicts for a whole pending gang at once, or not at all."""

from collections.abc import Sequence

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP
from volcano.model.task import Task
from volcano.scheduler.engine.bundles import Bundle, bundles
from volcano.scheduler.engine.diagnosis import FitError
from volcano.scheduler.engine.eviction import starving_jobs
from volcano.scheduler.engine.job_queue import pending
from volcano.scheduler.engine.plugin import EvictionContext, Purpose
from volcano.scheduler.engine.session import Session


def evict_for_gangs(session: Session, purpose: Purpose) -> None:
    """Evicts the cheapest set of victims that lets all of a starving job in, job by job in policy order."""
    policy = session.policy
    for queue, job in starving_jobs(session):
        with session.attempt(job):
            tasks = pending(session, job, lambda task: task.shape.preempts)
            tasks.sort(key=lambda task: task.best_effort)
            if not tasks or tasks[0].best_effort:
                continue
            across_queues = purpose.across_queues
            if across_queues and (policy.overused(queue) or not policy.may_reclaim(queue, tasks)):
                continue
            if across_queues and not policy.reclaim_opened(job, tasks):
                continue
            context = EvictionContext(purpose, job, tasks[0], break_gangs=True)
            committed = _search(session, context, queue, tasks, bundles(session, context))
            if across_queues:
                policy.reclaim_closed(job, committed)


def _search(
    session: Session, context: EvictionContext, queue: Queue, tasks: Sequence[Task], found: Sequence[Bundle]
) -> bool:
    """Adds bundles one by one; whenever they free enough, tries the placement."""
    resources = session.resources
    demand = sum((task.request for task in tasks), resources.zeros())
    free = np.maximum(session.nodes.future_idle, 0.0).sum(axis=0)
    asked = demand > 0
    chosen: list[Bundle] = []
    for bundle in [None, *found]:
        if bundle is not None:
            chosen.append(bundle)
            free = free + bundle.gain(resources.zeros())
        if (demand < free + STEP)[asked].all() and _try(session, context, queue, tasks, chosen):
            return True
    return False


def _try(
    session: Session, context: EvictionContext, queue: Queue, tasks: Sequence[Task], chosen: Sequence[Bundle]
) -> bool:
    """Evicts and pipelines; commits only if the job is then pipelined."""
    ledger, policy, job = session.ledger, session.policy, context.job
    with ledger.statement() as statement:
        for bundle in chosen:
            for victim in bundle.tasks:
                ledger.evict(victim, context.purpose.value, job.uid)
        for task in tasks:
            if not _pipeline(session, job, queue, task, evicting=bool(chosen)):
                break
            if policy.job_pipelined(job):
                break
        if (
            statement.changes
            and policy.job_pipelined(job)
            and (not context.purpose.across_queues or policy.reclaim_allowed(job, statement.changes))
        ):
            statement.commit()
            return True
    return False


def _pipeline(session: Session, job: Job, queue: Queue, task: Task, *, evicting: bool) -> bool:
    if session.policy.allocatable(queue, task) <= 0:
        return False
    answer = session.placer.place(task, queue.name)
    if isinstance(answer, FitError):
        session.record_fit_error(job, task, answer)
        return False
    return session.ledger.pipeline(task, answer.row, evicting=evicting) is None
