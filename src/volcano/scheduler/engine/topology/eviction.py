"""Eviction in domains: victims are searched for inside a domain that then takes the job; the cheapest domain wins."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.status import READY, Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import Purpose
from volcano.scheduler.engine.domain_table import Numbers
from volcano.scheduler.engine.ledger_view import Eviction, Placement
from volcano.scheduler.engine.topology.cycle import TopologyCycle
from volcano.scheduler.engine.topology.demand import Demand
from volcano.scheduler.engine.topology.rooms import by_shape

MOST_DOMAINS = 8
ACTION_ARGUMENT = "maxDomains"
PLUGIN, PLUGIN_ARGUMENT = "network-topology-aware", "hypernode.gradient.evict.max-hypernodes"

# Makes room for tasks inside a domain; does nothing for those that it cannot make room for.
MakeRoom = Callable[[Sequence[Task], int], None]


class Cost(NamedTuple):
    """Cost of evictions: pods, and the priorities of their jobs."""

    victims: int
    priority: int


def try_evictions(
    session: TopologyCycle, job: Job, purpose: Purpose, evict: Callable[[], None], *, commit: bool
) -> Cost | None:
    """Evicts and pipelines; undone without `commit`, or unless the whole gang is then pipelined: None."""
    policy, jobs = session.policy, session.snapshot.jobs
    with session.ledger.statement() as statement:
        evict()
        evicted = [change.task for change in statement.changes if isinstance(change, Eviction)]
        if not statement.changes or not policy.is_pipelined(job):
            return None
        if purpose.across_queues:
            placements = (change for change in statement.changes if isinstance(change, Placement))
            placed = [task for placement in placements for task in placement.tasks]
            if not policy.reclaim_allowed(job, evicted, placed):
                return None
        if commit:
            statement.commit()
        return Cost(len(evicted), sum(jobs[task.job].priority for task in evicted if task.job in jobs))


def evict_in_cheapest(
    session: TopologyCycle, domains: Sequence[int], attempt: Callable[[int, bool], Cost | None]
) -> bool:
    """Evicts in the domain where it costs least, the lowest of several. `attempt` evicts in one domain, and undoes it
    unless its second argument is true; it returns the cost, or None when the job does not fit there."""
    if len(domains) < 2:
        return any(attempt(domain, True) is not None for domain in domains)
    tiers = session.topology.view.tiers
    found = [
        (cost, int(tiers[domain]), order, domain)
        for order, domain in enumerate(domains)
        if (cost := attempt(domain, False)) is not None
    ]
    return bool(found) and attempt(min(found)[3], True) is not None


class EvictionDomains:
    """Domains that could take a job if everything that may be evicted there were."""

    def __init__(
        self, session: TopologyCycle, queue: str, job: Job, demand: Demand, evictable: Vector
    ) -> None:
        """`evictable` are the requests of the pods that may be evicted, by node: (nodes, resources)."""
        self._session = session
        self._queue = queue
        self._job = job
        self._demand = demand
        self._free: Vector = np.maximum(session.nodes.future_idle + evictable, 0.0)

    def domains(self, tasks: Sequence[Task], action: str) -> list[int]:
        """Domains to try for the job, widest first; of one tier those with most room now first."""
        if self._demand.problem:
            return []
        topology = self._session.topology
        groups = topology.candidates(self._demand.job, topology.view.root, topology.held(self._job))
        lacking = max(self._session.policy.job_starving(self._job), 1)
        found = [domain for group in reversed(groups) for domain in self._able(tasks, group, lacking)]
        return found[: most_domains(self._session, action)]

    def fill(self, tasks: Sequence[Task], domain: int, make_room: MakeRoom) -> None:
        """Makes room inside a domain for what the job lacks; for sub-groups one after the other, each as a whole."""
        session, job = self._session, self._job
        if not job.sub_jobs:
            make_room(tasks, domain)
            return
        parts: dict[str, list[Task]] = {}
        for task in tasks:
            parts.setdefault(job.sub_job_of[task.uid], []).append(task)
        for uid, members in parts.items():
            if session.policy.is_pipelined(job):
                return
            sub_job = job.sub_jobs[uid]
            tally = session.ledger.tally(sub_job)
            lacking = sub_job.min_available - tally.count(READY) - tally.counts[Status.PIPELINED]
            if 0 < lacking <= len(members):
                limit = self._demand.part(sub_job)
                groups = session.topology.candidates(limit, domain, session.topology.held(sub_job))
                self._fill_part(members[:lacking], groups, make_room)

    def _fill_part(self, tasks: Sequence[Task], groups: Sequence[Numbers], make_room: MakeRoom) -> None:
        ledger = self._session.ledger
        for group in groups:
            for domain in self._able(tasks, group, len(tasks))[:MOST_DOMAINS]:
                with ledger.statement() as statement:
                    make_room(tasks, domain)
                    if all(ledger.changed(task) for task in tasks):
                        statement.commit()
                        return

    def _able(self, tasks: Sequence[Task], numbers: Numbers, lacking: int) -> list[int]:
        """Domains that could take so many of the tasks, those with most room now first."""
        shapes, topology = by_shape(tasks), self._session.topology
        possible = np.zeros(len(topology.view), dtype=np.intp)
        for alike in shapes.values():
            possible += np.minimum(topology.view.sums(self._on_nodes(alike[0])), len(alike))
        able = numbers[possible[numbers] >= lacking]
        room = topology.rooms.total(shapes, self._queue, pipelined=True)[able]
        found: list[int] = able[np.lexsort((able, -room))].tolist()
        return found

    def _on_nodes(self, task: Task) -> Numbers:
        """Number of tasks like this one that would fit on each node."""
        asked = task.request > 0
        many = np.ceil(((self._free[:, asked] + STEP) / task.request[asked]).min(axis=1)) - 1
        usable: Mask = self._session.placer.fit(task, self._queue).resolvable
        counts: Numbers = np.where(usable, np.maximum(many, 0), 0).astype(np.intp)
        return counts


def most_domains(session: TopologyCycle, action: str) -> int:
    """How many domains an action tries for one job: its own argument, and that of the plugin for topology."""
    limits = [session.config.arguments(action).integer(ACTION_ARGUMENT, MOST_DOMAINS)]
    for tier in session.config.tiers:
        for plugin in tier:
            if plugin.name == PLUGIN:
                limits.append(plugin.arguments.integer(PLUGIN_ARGUMENT, MOST_DOMAINS))
    return min(limit if limit > 0 else MOST_DOMAINS for limit in limits)


def region(session: TopologyCycle, job: Job, task: Task) -> Mask | None:
    """Nodes of the domain that a job, or the sub-group of a task, holds and must stay in; None for all nodes."""
    demand, topology = session.topology.demand(job), session.topology
    if demand is None:
        return None
    sub_job = job.sub_jobs.get(job.sub_job_of.get(task.uid, ""))
    part = demand.part(sub_job) if sub_job is not None else None
    held = None
    if sub_job is not None and part is not None and part.hard:
        held = topology.held(sub_job)
    if held is None and demand.job is not None and demand.job.hard:
        held = topology.held(job)
    return None if held is None else topology.mask(held)
