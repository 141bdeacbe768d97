"""Gang-aware eviction: evicts for a whole pending gang at once, or not at all."""

from collections.abc import Sequence

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.task import Task
from volcano.scheduler.actions.eviction import starving_jobs
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.eviction.bundles import Bundle, GangVictims
from volcano.scheduler.engine.placement.job_queue import pending
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.demand import Demand
from volcano.scheduler.engine.topology.eviction import Cost, EvictionDomains, evict_in_cheapest, try_evictions


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
            demand, victims = session.topology.demand(job), GangVictims(session, context)
            if demand is None:
                search = GangSearch(session, context, queue, tasks)
                committed = search.evict(victims.bundles(), commit=True) is not None
            else:
                committed = _evict_in_domain(session, context, queue, tasks, demand, victims)
            if across_queues:
                policy.reclaim_closed(job, committed)


def _evict_in_domain(
    session: Session,
    context: EvictionContext,
    queue: Queue,
    tasks: Sequence[Task],
    demand: Demand,
    victims: GangVictims,
) -> bool:
    """Evicts in the cheapest domain that then takes the job."""
    found = EvictionDomains(session, queue.name, context.job, demand, victims.requests())

    def attempt(domain: int, commit: bool) -> Cost | None:
        search = GangSearch(session, context, queue, tasks, found, domain)
        rows = session.topology.view.rows_of(domain).tolist()
        return search.evict(victims.bundles(rows), commit=commit)

    return evict_in_cheapest(session, found.domains(tasks, context.purpose.value), attempt)


class GangSearch:
    """Search for the victims of one gang, in the whole cluster or inside a domain."""

    def __init__(
        self,
        session: Session,
        context: EvictionContext,
        queue: Queue,
        tasks: Sequence[Task],
        domains: EvictionDomains | None = None,
        domain: int | None = None,
    ) -> None:
        self._session = session
        self._context = context
        self._queue = queue
        self._tasks = tasks
        self._domains = domains
        self._domain = domain

    @property
    def _job(self) -> Job:
        return self._context.job

    def evict(self, found: Sequence[Bundle], *, commit: bool) -> Cost | None:
        """Adds bundles one by one; whenever they free enough, tries the placement. None when none is enough."""
        zeros = self._session.resources.zeros()
        demand, free = self._needed(), self._free()
        asked = demand > 0
        chosen: list[Bundle] = []
        for bundle in [None, *found]:
            if bundle is not None:
                chosen.append(bundle)
                free = free + bundle.gain(zeros)
            if (demand < free + STEP)[asked].all():
                cost = self._try(chosen, commit=commit)
                if cost is not None:
                    return cost
        return None

    def _needed(self) -> Vector:
        """Resources without which the gang cannot be placed; in a domain, those of its minimum only."""
        requests = np.array([task.request for task in self._tasks])
        if self._domain is not None:
            requests = np.sort(requests, axis=0)[: max(self._session.policy.job_starving(self._job), 1)]
        total: Vector = requests.sum(axis=0)
        return total

    def _free(self) -> Vector:
        free = np.maximum(self._session.nodes.future_idle, 0.0)
        if self._domain is not None:
            free = free[self._session.topology.view.rows_of(self._domain)]
        total: Vector = free.sum(axis=0)
        return total

    def _try(self, chosen: Sequence[Bundle], *, commit: bool) -> Cost | None:
        """Evicts and pipelines; commits only if the job is then pipelined."""
        ledger, purpose = self._session.ledger, self._context.purpose

        def evict() -> None:
            for bundle in chosen:
                for victim in bundle.tasks:
                    ledger.evict(victim, purpose.value, self._job.uid)
            self._place_gang(evicting=bool(chosen))

        return try_evictions(self._session, self._job, purpose, evict, commit=commit)

    def _place_gang(self, *, evicting: bool) -> None:
        """Pipelines tasks until the job is pipelined or one does not fit."""
        if self._domains is None or self._domain is None:
            self._pipeline_all(self._tasks, None, evicting=evicting)
            return

        def make_room(tasks: Sequence[Task], domain: int) -> None:
            within = self._session.topology.mask(domain)
            self._pipeline_all(tasks, within, evicting=evicting)

        self._domains.fill(self._tasks, self._domain, make_room)

    def _pipeline_all(self, tasks: Sequence[Task], within: Mask | None, *, evicting: bool) -> None:
        """Pipelines tasks; those of a sub-group all, others until the job is pipelined."""
        policy, as_group = self._session.policy, bool(self._job.sub_jobs) and within is not None
        for task in tasks:
            if not self._pipeline(task, within, evicting=evicting):
                return
            if not as_group and policy.is_pipelined(self._job):
                return

    def _pipeline(self, task: Task, within: Mask | None, *, evicting: bool) -> bool:
        session, queue = self._session, self._queue
        if session.policy.allocatable(queue, task, 1) <= 0:
            return False
        choice = session.placer.find(task, queue.name, within=within)
        if choice is None:
            if within is None:
                session.diagnoses.record_fit_error(
                    self._job, task, session.placer.fit_error(task, queue.name)
                )
            return False
        return session.ledger.pipeline(task, choice.row, evicting=evicting) is None
