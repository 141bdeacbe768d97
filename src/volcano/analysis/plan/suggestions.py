"""Suggestions: changes that would start a waiting job now, the cheapest first, each verified by a re-run."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from volcano.analysis.plan.changes import (
    AddNode,
    JobFinishes,
    MoveToQueue,
    SetPriorityClass,
    SetReplicas,
    SetRequest,
    Tolerate,
    WidenTier,
)
from volcano.analysis.rerun.pools import Pool, pools
from volcano.analysis.rerun.rerun import Rerun, evicts, run, starts, without_evictions
from volcano.analysis.rerun.state import Change, ClusterState
from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.decisions import Evict
from volcano.model.job import Job
from volcano.model.node import UNUSABLE_TAINTS, Taint
from volcano.model.resources import PODS, Vector, positive
from volcano.model.snapshot import Snapshot
from volcano.model.status import EVICTABLE, Status
from volcano.model.task import Task
from volcano.scheduler.engine.config import Config

LIMIT, BUDGET = 5, 12  # suggestions, and re-runs with all jobs to verify them
MOST_ALONE = 40  # re-runs with one job, which are fast
PER_KIND = 3  # alternatives of one kind that are tried
MANY_SEARCHES = 2_000  # of victims, one for each node and kind of job that waits
MEBI = 1024.0**2
UNITS = {
    "cpu": (4000.0, 1000.0, 500.0, 250.0, 100.0, 10.0),
    "memory": tuple(MEBI * size for size in (16_384, 4_096, 1_024, 512, 256, 64, 16, 1)),
}
SYSTEM_CLASSES = ("system-",)
Found = TypeVar("Found")
# Costs by kind, of which the fraction says how far a change goes; each victim costs more than any fraction.
TOLERATION, TIER, QUEUE, REPLICAS, REQUEST, PRIORITY, FINISH, NODES = range(10, 90, 10)
PER_VICTIM = 1.0


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that starts the job, verified; `victims` are the pods that are evicted for it."""

    change: Change
    victims: tuple[Evict, ...]
    cost: float
    # False where so many jobs wait that it was verified without evictions for others than those that evict pods now.
    exact: bool = True

    def sentence(self) -> str:
        """The change for people, with the number of pods that it evicts."""
        notes = []
        if self.victims:
            notes.append("evicts 1 pod" if len(self.victims) == 1 else f"evicts {len(self.victims)} pods")
        if not self.exact:
            notes.append("not counting evictions for other jobs")
        return f"{self.change.sentence()} ({'; '.join(notes)})" if notes else self.change.sentence()


def suggest(
    state: ClusterState,
    config: Config,
    job: str,
    *,
    limit: int = LIMIT,
    budget: int = BUDGET,
    unchanged: Rerun | None = None,
) -> list[Suggestion]:
    """Changes of one thing that start a waiting job now: at most `limit`, the cheapest first, verified with at most
    `budget` re-runs of all jobs that wait. None for a job that is unknown or starts without a change. `unchanged` is
    the re-run of the state as it is, where there is one already."""
    if state.group(job) is None or not any(task.status is Status.PENDING for task in state.tasks(job)):
        return []
    unchanged = unchanged or run(state, config)
    if starts(unchanged, job):
        return []
    search = _Search(state, config, job, budget, unchanged)
    for candidates in (
        search.tolerations,
        search.tiers,
        search.queues,
        search.replicas,
        search.priorities,
        search.nodes,
        search.finishing,
        search.requests,
    ):
        candidates()
    return sorted(search.found, key=lambda found: found.cost)[:limit]


class _Search:
    """Candidates of each kind, and the re-runs that are left.

    A candidate is first tried with this job alone, which is fast, and then with all jobs that wait: some of them may be
    faster to take what a change frees.
    """

    def __init__(self, state: ClusterState, config: Config, job: str, budget: int, unchanged: Rerun) -> None:
        self._state = state
        self._config = config
        self._placing = without_evictions(config)
        self._job = job
        self._left, self._left_alone = budget, MOST_ALONE
        self._snapshot = state.snapshot()
        group = state.group(job)
        assert group is not None
        self._group = group
        self._tasks = [task for task in state.tasks(job) if task.status is Status.PENDING]
        evicting = {victim.on_behalf_of for victim in unchanged.victims} | {job}
        self._evicting = evicting if evicts(config) and _many_searches(self._snapshot, config) else None
        self.found: list[Suggestion] = []

    # -- re-runs -----------------------------------------------------------------------------------

    def _alone(self, change: Change, *, evict: bool = False) -> ClusterState | None:
        """The state after a change, if the job starts in it while no other job is tried."""
        if self._left_alone <= 0:
            return None
        self._left_alone -= 1
        state = self._state.changed((change,))
        config = self._config if evict else self._placing
        rerun = run(state, config, stop_when_started=self._job, only=(self._job,))
        return state if starts(rerun, self._job) else None

    def _tried(self, change: Change, *, evict: bool = False) -> Rerun | None:
        """The re-run with a change, if the job starts with it and re-runs are left."""
        state = self._alone(change, evict=evict) if self._left > 0 else None
        if state is None:
            return None
        self._left -= 1
        rerun = run(state, self._config, stop_when_started=self._job, evicting=self._evicting)
        return rerun if starts(rerun, self._job) else None

    def _try(self, change: Change, cost: float, *, evict: bool = False) -> bool:
        rerun = self._tried(change, evict=evict)
        if rerun is not None:
            self._add(change, cost, rerun)
        return rerun is not None

    def _add(self, change: Change, cost: float, rerun: Rerun) -> None:
        victims = rerun.victims_of(self._job)
        exact = self._evicting is None
        self.found.append(Suggestion(change, victims, cost + PER_VICTIM * len(victims), exact))

    def _try_first(self, changes: Iterator[tuple[Change, float]]) -> None:
        """Tries some alternatives until one starts the job."""
        for change, cost in islice(changes, PER_KIND):
            if self._try(change, cost):
                return

    def _smallest(self, least: int, most: int, change: Callable[[int], Change], cost: float) -> None:
        """The largest number in a range that starts the job, by bisection: the smallest change of its kind. The range
        for all jobs ends where that for the job alone does."""
        alone = _largest(least, most, lambda number: self._alone(change(number)))
        if alone is None:
            return
        verified = self._tried(change(alone[0]))
        if verified is not None:
            self._add(change(alone[0]), cost, verified)
            return
        found = _largest(least, alone[0] - 1, lambda number: self._tried(change(number)))
        if found is not None:
            self._add(change(found[0]), cost, found[1])

    # -- candidates --------------------------------------------------------------------------------

    def tolerations(self) -> None:
        """Tolerations for taints of nodes that the pods do not tolerate, those of most nodes first."""
        counts: dict[Taint, int] = {}
        for node in self._snapshot.nodes:
            for taint in node.taints:
                if taint.rejects and not taint.key.startswith(UNUSABLE_TAINTS) and not node.control_plane:
                    counts[taint] = counts.get(taint, 0) + 1
        known = {t for task in self._tasks for t in task.shape.constraints.tolerations}
        new = [taint for taint in counts if not any(t.key in ("", taint.key) for t in known)]
        new.sort(key=lambda taint: (-counts[taint], taint))
        self._try_first((Tolerate(self._job, taint), TOLERATION) for taint in new)

    def tiers(self) -> None:
        """Higher tiers of the network than the job allows."""
        topology = self._group.topology
        if topology is None or topology.mode != "hard":
            return
        known = sorted({hypernode.tier for hypernode in self._snapshot.hypernodes.values()})
        present = topology.highest_tier
        wider: list[int | None] = [tier for tier in known if present is not None and tier > present]
        self._try_first((WidenTier(self._job, tier), TIER) for tier in (*wider, None))

    def queues(self) -> None:
        """Other open queues without children, those that use the smallest part of the cluster first."""
        snapshot = self._snapshot
        parents = {queue.parent for queue in snapshot.queues.values()}
        others = [
            name
            for name, queue in snapshot.queues.items()
            if name not in (ROOT_QUEUE, self._group.queue) and queue.open and name not in parents
        ]
        total = np.maximum(snapshot.total, 1.0)
        others.sort(key=lambda name: (float((snapshot.totals[name].requested / total).max()), name))
        self._try_first((MoveToQueue(self._job, name), QUEUE) for name in others)
        if others and evicts(self._config) and not any(isinstance(f.change, MoveToQueue) for f in self.found):
            self._try(MoveToQueue(self._job, others[0]), QUEUE, evict=True)

    def replicas(self) -> None:
        """Fewer pods of the largest task."""
        role, members = self._largest_role()
        running = sum(task.role == role for task in self._state.tasks(self._job)) - len(members)
        before = running + len(members)
        if before < 2 or not members:
            return
        least = max(1, running)
        self._smallest(least, before - 1, lambda count: SetReplicas(self._job, role, count, before), REPLICAS)

    def requests(self) -> None:
        """A smaller request of the resource that the pods need most of, in round numbers."""
        role, members = self._largest_role()
        if not members or members[0].shape.numa is not None:
            return
        column = self._scarce_column(members[0])
        before = float(members[0].request[column])
        if before <= 0:
            return
        name = self._snapshot.resources.names[column]
        unit = _unit(name, before)

        def smaller(units: int) -> SetRequest:
            return SetRequest(self._job, role, name, units * unit, before)

        most = int(np.ceil(before / unit)) - 1
        if most >= 1:
            self._smallest(1, most, smaller, REQUEST)

    def priorities(self) -> None:
        """Higher priority classes, the lowest that suffices; the highest is tried first, as no other could."""
        value = self._state.priority(self._group.priority_class)
        higher = sorted(
            (number, name)
            for name, number in self._snapshot.priorities.items()
            if number > value and not name.startswith(SYSTEM_CLASSES)
        )
        if not higher:
            return
        classes = [name for _, name in higher]
        highest = self._tried(SetPriorityClass(self._job, classes[-1]), evict=True)
        if highest is None:
            return
        for name in classes[:-1][: PER_KIND - 1]:
            if self._try(SetPriorityClass(self._job, name), PRIORITY, evict=True):
                return
        self._add(SetPriorityClass(self._job, classes[-1]), PRIORITY, highest)

    def nodes(self) -> None:
        """One more node of a pool, or a few more."""
        wanted = self._largest_role()[1]
        if not wanted:
            return
        need = wanted[0].request
        fitting = [
            pool for pool in pools(self._snapshot) if (self._snapshot.allocatable[pool.rows[0]] >= need).all()
        ]
        for pool in fitting[:PER_KIND]:
            if self._try_nodes(pool):
                return

    def _try_nodes(self, pool: Pool) -> bool:
        """The smallest number of nodes up to a limit; a few are tried before many."""

        def alone(count: int) -> ClusterState | None:
            return self._alone(AddNode(pool.name, pool.example, count))

        most = next((count for count in (1, 2, 4, 8) if alone(count) is not None), 0)
        if not most:
            return False
        fewer = next((count for count in range(most // 2 + 1, most) if alone(count) is not None), most)
        return self._try(AddNode(pool.name, pool.example, fewer), NODES + fewer / 10)

    def finishing(self) -> None:
        """A running job that finishes: those that hold just enough first."""
        missing = self._missing()
        columns = missing > 0
        sizes = {
            uid: float((job.allocated[columns] / missing[columns]).min())
            for uid, job in self._snapshot.jobs.items()
            if uid != self._job and not job.group.implicit and (job.allocated > 0).any()
        }
        enough = sorted((size, uid) for uid, size in sizes.items() if size >= 1.0)
        others = sorted((-size, uid) for uid, size in sizes.items() if size < 1.0)
        order = [uid for _, uid in (*enough, *others)]
        self._try_first((JobFinishes(uid, self._state.job_name(uid)), FINISH) for uid in order)

    # -- amounts -----------------------------------------------------------------------------------

    def _largest_role(self) -> tuple[str, list[Task]]:
        """The task with most waiting pods."""
        roles: dict[str, list[Task]] = {}
        for task in self._tasks:
            roles.setdefault(task.role, []).append(task)
        if not roles:
            return "", []
        role = max(roles, key=lambda name: (len(roles[name]), name))
        return role, roles[role]

    def _missing(self) -> Vector:
        """What the smallest gang of the job requests beyond what is free in the whole cluster; at least one pod."""
        waiting = sorted(self._tasks, key=lambda task: task.index)
        gang: Sequence[Task] = waiting[: max(self._group.min_member, 1)] or waiting
        need = sum((task.request for task in gang), start=self._snapshot.resources.zeros())
        free = positive(self._snapshot.allocatable - self._snapshot.used).sum(axis=0)
        missing = positive(need - free)
        return missing if (missing > 0).any() else gang[0].request

    def _scarce_column(self, task: Task) -> int:
        """The column of the request that is the largest part of what the cluster has."""
        total = np.maximum(self._snapshot.total, 1.0)
        parts = task.request / total
        parts[PODS] = 0.0
        return int(parts.argmax())


def _unit(resource: str, amount: float) -> float:
    """The largest unit of which an amount has at least eight; a whole one of resources that are not divided."""
    units = UNITS.get(resource, (1000.0,))
    return next((unit for unit in units if amount >= 8 * unit), units[-1])


def _largest(least: int, most: int, attempt: Callable[[int], Found | None]) -> tuple[int, Found] | None:
    """The largest number in a range for which something is found, if it is for all smaller ones; the smallest is tried
    first, as it often fails."""
    best: tuple[int, Found] | None = None
    wanted = least
    while least <= most:
        found = attempt(wanted)
        if found is None:
            most = wanted - 1
        else:
            best, least = (wanted, found), wanted + 1
        wanted = (least + most + 1) // 2
    return best


def _many_searches(snapshot: Snapshot, config: Config) -> bool:
    """Whether searching victims for all jobs that wait takes long: it is done once for jobs of one queue that are
    alike, on each node, and not at all where only jobs of lower priority may be evicted and there are none."""
    lowest: dict[str, float] = {}  # priority of the jobs with pods that may be evicted, by queue
    for job in snapshot.jobs.values():
        if any(map(job.count, EVICTABLE)):
            lowest[job.queue] = min(job.priority, lowest.get(job.queue, math.inf))
    across = any(name in config.actions for name in ("reclaim", "gangreclaim"))
    by_priority = any(plugin.name == "priority" for tier in config.tiers for plugin in tier)

    def is_searched(job: Job) -> bool:
        inside = not by_priority or lowest.get(job.queue, math.inf) < job.priority
        return inside or (across and bool(lowest.keys() - {job.queue}))

    waiting = (snapshot.jobs[uid] for uid in snapshot.active if uid in snapshot.jobs)
    kinds = {
        (job.queue, job.priority, task.shape)
        for job in waiting
        if is_searched(job)
        for task in job.by_status.get(Status.PENDING, ())
    }
    return len(kinds) * len(snapshot.nodes) > MANY_SEARCHES
