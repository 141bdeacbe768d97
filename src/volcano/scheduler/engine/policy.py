"""Policy: the hooks of all configured plugins, one method per hook, each with its reducer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from volcano.model.decisions import ClaimVolume, ReserveClaim
from volcano.model.job import Condition, Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine import reducers
from volcano.scheduler.engine.config import Config, PluginConfig
from volcano.scheduler.engine.faults import GLOBAL_HOOKS, OPEN, guarded, implements
from volcano.scheduler.engine.ledger import Change, Eviction, Placement
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import (
    EvictionContext,
    NodeCapacity,
    Plugin,
    Purpose,
    RejectedNodes,
    Rejection,
)
from volcano.scheduler.engine.reducers import Hook, NamedHook, Tiers
from volcano.scheduler.engine.topology.domains import DomainTable, prefer_full_domains

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

VICTIM_HOOKS = {
    Purpose.PREEMPT: "preemptable",
    Purpose.RECLAIM: "reclaimable",
    Purpose.GANG_PREEMPT: "unified_evictable",
    Purpose.GANG_RECLAIM: "unified_evictable",
}
FIRST = frozenset(("job_order", "task_order"))  # hooks to which `Plugin.orders_first` applies

NO_JOBS: Mapping[str, Job] = {}
NO_ANNOTATIONS: Mapping[str, str] = {}
NOMINATIONS = "nominations"  # key of `snapshot.memory` for unused nominations


def nomination(task: Task) -> str:
    """Returns the key of a task's nomination; another node is another nomination."""
    return f"{task.uid}@{task.nominated}"


def _nominated(job: Job) -> list[Task]:
    return [task for task in job.by_status.get(Status.PENDING, ()) if task.nominated]


class Policy:
    """The combined result of all plugins, tier by tier, for each hook."""

    def __init__(self, session: "Session", config: Config) -> None:
        self.session = session
        self.tiers: list[list[Plugin]] = []
        self._tiers_of_hook: dict[str, Tiers] = {}
        self.settings: dict[Plugin, PluginConfig] = {}
        self._disabled: dict[Plugin, frozenset[str]] = {}
        for tier in config.tiers:
            self.tiers.append([])
            for configured in tier:
                if (configured.name, OPEN) in session.failed_hooks:
                    continue
                plugin = guarded(configured.name, OPEN, configured.plugin)(session, configured.name)
                self.tiers[-1].append(plugin)
                self.settings[plugin] = configured
                failed = {hook for hook in GLOBAL_HOOKS if (plugin.name, hook) in session.failed_hooks}
                self._disabled[plugin] = configured.disabled | failed
        self._hooks: dict[str, list[Hook]] = {}
        self._named_hooks: dict[str, list[NamedHook]] = {}
        self._task_keys: dict[str, tuple[Any, ...]] = {}
        self._nominated_jobs: dict[str, dict[str, Job]] | None = None  # by queue and uid
        self._reserving: dict[Any, list[Plugin]] = {}
        self._ignores_preemptor: dict[Purpose, bool] = {}
        self._victim_hooks: dict[str, tuple[list[Hook], Tiers, Tiers]] = {}
        self._reservers = [plugin for plugin in self.plugins if implements(type(plugin), "reserve")]
        self._protectors = [plugin for plugin in self.plugins if implements(type(plugin), "filter_victims")]

    @property
    def plugins(self) -> list[Plugin]:
        return [plugin for tier in self.tiers for plugin in tier]

    def hooks_by_tier(self, hook: str) -> Tiers:
        """Returns a hook of the plugins that override it and do not disable it, by tier."""
        found = self._tiers_of_hook.get(hook)
        if found is None:
            found = self._tiers_of_hook[hook] = [
                [(plugin.name, self._hook(plugin, hook)) for plugin in tier if self._provides(plugin, hook)]
                for tier in self.tiers
            ]
        return found

    def _provides(self, plugin: Plugin, hook: str) -> bool:
        return (
            implements(type(plugin), hook)
            and hook not in self._disabled[plugin]
            and hook not in plugin.unused_hooks
        )

    def _hook(self, plugin: Plugin, hook: str) -> Hook:
        method: Hook = getattr(plugin, hook)
        return guarded(plugin.name, hook, method) if hook in GLOBAL_HOOKS else method

    def _named(self, hook: str) -> list[NamedHook]:
        """Returns a hook of all plugins in configured order, with the plugins' names."""
        found = self._named_hooks.get(hook)
        if found is None:
            found = self._named_hooks[hook] = [named for tier in self.hooks_by_tier(hook) for named in tier]
        return found

    def hooks(self, hook: str) -> list[Hook]:
        """Returns a hook of all plugins in the order in which they are called."""
        found = self._hooks.get(hook)
        if found is None:
            first = {plugin.name for plugin in self.plugins if plugin.orders_first}
            named = self._named(hook)
            if hook in FIRST:
                named = sorted(named, key=lambda each: each[0] not in first)
            found = self._hooks[hook] = [method for _, method in named]
        return found

    # -- order -------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """Returns a key; the queue with the smallest is served first.

        Queues with nominated tasks go before all: otherwise the evicted pods would take the freed resources back.
        """
        key = reducers.order(self.hooks("queue_order"), queue)
        return (not self._has_nominated(queue.name), *key, queue.created, queue.name)

    def _has_nominated(self, queue: str) -> bool:
        """Reports whether a job of the queue has nominated tasks that are pending and did not fail in this cycle."""
        tally, failed = self.session.ledger.tally, self.session.diagnoses
        return any(
            job.uid not in failed and tally(job).counts[Status.PENDING] > 0
            for job in self._jobs_with_nominations().get(queue, NO_JOBS).values()
        )

    def _jobs_with_nominations(self) -> dict[str, dict[str, Job]]:
        """Returns the jobs for which tasks were evicted, by queue and uid."""
        if self._nominated_jobs is None:
            self._nominated_jobs = {}
            missed = set(self.session.snapshot.memory.get(NOMINATIONS, ()))
            for job in self.session.active_jobs():
                if any(nomination(task) not in missed for task in _nominated(job)):
                    self._nominated_jobs.setdefault(job.queue, {})[job.uid] = job
        return self._nominated_jobs

    def missed_nominations(self) -> list[str]:
        """Returns the nominations of tasks that could have used their node and did not; they expire."""
        snapshot, status = self.session.snapshot, self.session.ledger.status
        missed = []
        for job in self.session.active_jobs():
            for task in _nominated(job):
                row = snapshot.row_of.get(task.nominated)
                being_freed = row is not None and bool(snapshot.releasing[row].any())
                if status(task) is Status.PENDING and not being_freed:
                    missed.append(nomination(task))
        return missed

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """Returns a key; the job with the smallest goes first, then the oldest. Cached until the job changes."""
        tally = self.session.ledger.tally(job)
        key = tally.order
        if key is None:
            nominated = job.uid in self._jobs_with_nominations().get(job.queue, NO_JOBS)
            key = (not nominated, *reducers.order(self.hooks("job_order"), job), job.created, job.uid)
            tally.order = key
        return key

    def order_before_priority(self, job: Job) -> tuple[Any, ...]:
        """Returns the part of the order that goes before the priority: that of plugins with `orders_first`."""
        first = [p for p in self.plugins if p.orders_first and self._provides(p, "job_order")]
        return tuple(plugin.job_order(job) for plugin in first)

    def sub_job_order(self, sub_job: SubJob) -> tuple[Any, ...]:
        return (*reducers.order(self.hooks("sub_job_order"), sub_job), sub_job.index, sub_job.uid)

    def task_order(self, task: Task) -> tuple[Any, ...]:
        """Returns a key; tasks that plugins do not order go by the number at the end of their name, then by age."""
        key = self._task_keys.get(task.uid)
        if key is None:
            keys = [hook(task) for hook in self.hooks("task_order")]
            key = self._task_keys[task.uid] = (*keys, task.index, task.created, task.uid)
        return key

    def victim_order(
        self, context: EvictionContext, candidates: Sequence[Task], *, in_task_order: bool = False
    ) -> list[Task]:
        """Returns the candidates in eviction order: queues, jobs and tasks that are served last go first.

        With `in_task_order`, the tasks of each job are in eviction order already.
        """
        if len(candidates) < 2:
            return list(candidates)
        jobs, queues = self.session.snapshot.jobs, self.session.snapshot.queues
        uids = {task.job for task in candidates}
        ordered = list(candidates) if in_task_order else sorted(candidates, key=self.task_order, reverse=True)
        if len(uids) > 1:
            job_keys = {uid: self.job_order(jobs[uid]) for uid in uids}
            ordered.sort(key=lambda task: job_keys[task.job], reverse=True)
        names = {jobs[uid].queue for uid in uids}
        if not context.purpose.across_queues or len(names) == 1:
            return ordered
        evictor = queues[context.job.queue]
        hooks = self.hooks("victim_queue_order")
        # Later sorts win: first the reverse of queue order, then the order of the plugins.
        queue_keys = {name: self.queue_order(queues[name]) for name in names}
        ordered.sort(key=lambda task: queue_keys[jobs[task.job].queue], reverse=True)
        if hooks:
            victim_keys = {name: reducers.order(hooks, queues[name], evictor) for name in names}
            ordered.sort(key=lambda task: victim_keys[jobs[task.job].queue])
        return ordered

    # -- admission ---------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> Rejection | None:
        return reducers.first_rejection(self._named("job_valid"), job)

    def job_enqueueable(self, job: Job) -> Rejection | None:
        return reducers.tiered_vote(self.hooks_by_tier("job_enqueueable"), job)

    def job_enqueued(self, job: Job) -> None:
        reducers.notify(self.hooks("job_enqueued"), job)

    # -- gangs -------------------------------------------------------------------------------------

    def job_short(self, job: Job) -> int:
        """Returns how many more tasks the job needs at least. Cached until the job changes."""
        tally = self.session.ledger.tally(job)
        short = tally.short
        if short is None:
            short = tally.short = reducers.largest(self.hooks("job_short"), job)
        return short

    def job_ready(self, job: Job) -> bool:
        return self.job_short(job) <= 0

    def sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        return (
            reducers.largest(self.hooks("sub_job_short"), sub_job) <= 0
            if job.sub_jobs
            else self.job_ready(job)
        )

    def job_pipelined(self, job: Job) -> bool:
        return reducers.tiered_vote(self.hooks_by_tier("job_pipelined"), job) is None

    def job_starving(self, job: Job) -> int:
        """Returns for how many more tasks of the job other tasks may be evicted."""
        return reducers.tiered_minimum(self.hooks_by_tier("job_starving"), job)

    def job_blocked(self, job: Job) -> None:
        reducers.notify(self.hooks("job_blocked"), job)

    def job_condition(self, job: Job) -> Condition | None:
        found: Condition | None = reducers.first_result(self.hooks("job_condition"), job)
        return found

    # -- queues ------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        return reducers.any_of(self.hooks("overused"), queue)

    def allocatable(self, queue: Queue, task: Task, count: int = 1) -> int:
        return reducers.limit(self.hooks("allocatable"), queue, task, count)

    def assume(self, task: Task) -> None:
        """Accounts for a task in its queue as if it were placed on some node; for statements that are undone."""
        limiting = {name for name, _ in self._named("allocatable")}
        for name, on_allocate in self._named("on_allocate"):
            if name in limiting:
                on_allocate((task,), ())

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        return reducers.first_rejection(self._named("why_not_allocatable"), queue, task)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        return reducers.all_of(self.hooks("preemptive"), queue, tasks)

    # -- reclaim -----------------------------------------------------------------------------------

    def may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Reports whether each plugin finds the queue within its share with these tasks, or below it without them."""
        below = dict(self._named("below_deserved"))
        return all(
            preemptive(queue, tasks) or (name in below and below[name](queue, tasks))
            for name, preemptive in self._named("preemptive")
        )

    def reclaim_opened(self, job: Job, tasks: Sequence[Task]) -> bool:
        return reducers.all_of(self.hooks("reclaim_opened"), job, tasks)

    def reclaim_allowed(self, job: Job, changes: Sequence[Change]) -> bool:
        """Reports whether a statement with these changes may be committed."""
        evicted = [change.task for change in changes if isinstance(change, Eviction)]
        placed = [task for change in changes if isinstance(change, Placement) for task in change.tasks]
        return reducers.all_of(self.hooks("reclaim_allowed"), job, evicted, placed)

    def reclaim_closed(self, job: Job, committed: bool) -> None:
        reducers.notify(self.hooks("reclaim_closed"), job, committed)

    # -- nodes -------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        return reducers.first_rejection(self._named("pre_predicate"), task)

    def reject_nodes(self, task: Task, nodes: NodeTable) -> list[tuple[str, RejectedNodes]]:
        return list(reducers.rejected_nodes(self._named("reject_nodes"), task, nodes))

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> list[tuple[str, RejectedNodes]] | None:
        """Returns None when placements do not matter for tasks of this shape."""
        found: list[tuple[str, RejectedNodes]] | None = None
        for name, hook in self._named("reject_nodes_now"):
            rejected = hook(task, nodes)
            if rejected is not None:
                found = found or []
                found.extend((name, each) for each in rejected)
        return found

    def node_capacity(
        self, task: Task, nodes: NodeTable, most: int = 1, *, future: bool = False
    ) -> list[tuple[str, NodeCapacity]] | None:
        """Returns the limits of all plugins; None when none limits tasks of this shape."""
        found = None
        for name, hook in self._named("node_capacity"):
            limit: NodeCapacity | None = hook(task, nodes, most, future)
            if limit is not None:
                found = found or []
                found.append((name, limit))
        return found

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        return reducers.total(self.hooks("score_nodes"), task, nodes)

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        """Returns None when the feasible nodes need not be compared for tasks of this shape."""
        scores: Vector | None = None
        for hook in self.hooks("score_nodes_together"):
            points: Vector | None = hook(task, nodes)
            if points is not None:
                scores = points if scores is None else scores + points
        return scores

    def best_node(self, task: Task, nodes: NodeTable, scores: Vector) -> int | None:
        row: int | None = reducers.first_result(self.hooks("best_node"), task, nodes, scores)
        return row

    # -- domains -----------------------------------------------------------------------------------

    def score_domains(self, job: Job | SubJob, tasks: Sequence[Task], domains: DomainTable) -> Vector:
        """Returns a score per domain; without plugins that have a preference, full domains are preferred."""
        scores: Vector | None = None
        for hook in self.hooks("score_domains"):
            points: Vector | None = hook(job, tasks, domains)
            if points is not None:
                scores = points if scores is None else scores + points
        return prefer_full_domains(tasks, domains) if scores is None else scores

    # -- notifications of the ledger ---------------------------------------------------------------

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        reducers.notify(self.hooks("on_allocate"), tasks, rows)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        reducers.notify(self.hooks("on_deallocate"), tasks, rows)

    def reserves(self, task: Task) -> bool:
        return bool(self._reserving_for(task))

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        """Reserves for all plugins or for none, and merges their annotations."""
        annotations: dict[str, str] = {}
        done: list[Plugin] = []
        for plugin in self._reserving_for(task):
            reserved = plugin.reserve(task, row)
            if isinstance(reserved, Rejection):
                for earlier in reversed(done):
                    earlier.release(task, row)
                return reserved.by(plugin.name)
            done.append(plugin)
            annotations.update(reserved)
        return annotations

    def release(self, task: Task, row: int) -> None:
        for plugin in reversed(self._reserving_for(task)):
            plugin.release(task, row)

    def claims(self, task: Task) -> tuple[ClaimVolume | ReserveClaim, ...]:
        """Returns the volume and resource claims to be written before the task is bound."""
        reserving = self._reserving_for(task)
        return tuple(claim for plugin in reserving for claim in plugin.claims(task)) if reserving else ()

    def node_annotations(self, task: Task) -> Mapping[str, str]:
        """Returns annotations to be set on the node before the task is bound to it."""
        hooks = self.hooks("node_annotations")
        return (
            {name: text for hook in hooks for name, text in hook(task).items()} if hooks else NO_ANNOTATIONS
        )

    def _reserving_for(self, task: Task) -> list[Plugin]:
        found = self._reserving.get(task.shape)
        if found is None:
            found = [plugin for plugin in self._reservers if plugin.reserves(task)]
            self._reserving[task.shape] = found
        return found

    # -- victims -----------------------------------------------------------------------------------

    def victims(
        self, context: EvictionContext, candidates: Sequence[Task], *, first_tier: bool = False
    ) -> list[Task]:
        """Returns the candidates that may be evicted, in the given order: first all filters, then the tiers' votes.

        With `first_tier`, only the first tier with votes is called.
        """
        filters, tiers, first = self._hooks_for_victims(VICTIM_HOOKS[context.purpose])
        left = reducers.filtered(filters, context, candidates)
        if not left:
            return []
        return reducers.tiered_intersection(first if first_tier else tiers, context, left)

    def _hooks_for_victims(self, vote: str) -> tuple[list[Hook], Tiers, Tiers]:
        """Returns the filters, the votes by tier, and the first tier with votes."""
        found = self._victim_hooks.get(vote)
        if found is None:
            filters: list[Hook] = [
                p.filter_victims for p in self._protectors if vote not in self._disabled[p]
            ]
            tiers = self.hooks_by_tier(vote)
            found = self._victim_hooks[vote] = (filters, tiers, [tier for tier in tiers if tier][:1])
        return found

    def ignores_preemptor(self, purpose: Purpose) -> bool:
        """Reports whether the filters and the first tier's votes do not depend on what the preemptor holds already."""
        known = self._ignores_preemptor.get(purpose)
        if known is None:
            vote = VICTIM_HOOKS[purpose]
            voting = ([plugin for plugin in tier if self._provides(plugin, vote)] for tier in self.tiers)
            deciding = [*next((tier for tier in voting if tier), ()), *self._protectors]
            known = not any(plugin.depends_on_preemptor for plugin in deciding)
            self._ignores_preemptor[purpose] = known
        return known

    def only_lower_priority(self, purpose: Purpose) -> bool:
        """Reports whether a filter protects the tasks of other jobs whose priority is not lower."""
        vote = VICTIM_HOOKS[purpose]
        return any(
            purpose in p.only_lower_priority and vote not in self._disabled[p] for p in self._protectors
        )

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        return reducers.tiered_union(self.hooks_by_tier("victim_tasks"), candidates)
