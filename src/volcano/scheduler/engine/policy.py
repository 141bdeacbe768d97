"""Policy: the hooks of all configured plugins, each combined by its reducer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from volcano.model.decisions import ClaimVolume, ReserveClaim
from volcano.model.job import Job, SubJob
from volcano.model.queue import Queue
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose, Vote
from volcano.scheduler.engine.config import Config, PluginConfig
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.faults import GLOBAL_HOOKS, OPEN, FailedHooks, guarded
from volcano.scheduler.engine.hooks import REDUCERS, Order, PluginHooks
from volcano.scheduler.engine.nominations import Nominations
from volcano.scheduler.engine.plugin import Plugin, PluginSession, implements
from volcano.scheduler.engine.reducers import Hook, Hooks, filtered, tiered_intersection

VICTIM_HOOKS = {
    Purpose.PREEMPT: "preemptable",
    Purpose.RECLAIM: "reclaimable",
    Purpose.GANG_PREEMPT: "unified_evictable",
    Purpose.GANG_RECLAIM: "unified_evictable",
}


class VictimHooks(NamedTuple):
    """The hooks about victims for one purpose."""

    filters: Hooks
    votes: Hooks
    first: Hooks  # of the first tier with votes
    ignores_preemptor: (
        bool  # whether filters and the first votes do not depend on what the preemptor holds already
    )
    only_lower_priority: bool  # whether a filter protects the tasks of other jobs whose priority is not lower


class Policy(PluginHooks):
    """The hooks of a plugin, called for all plugins. The methods below add what no plugin decides."""

    def __init__(
        self, session: PluginSession, config: Config, failed: FailedHooks, nominations: Nominations
    ) -> None:
        self._session = session
        self._nominations = nominations
        self.tiers: list[list[Plugin]] = []
        self.settings: dict[Plugin, PluginConfig] = {}
        self._disabled: dict[Plugin, frozenset[str]] = {}
        for tier in config.tiers:
            self.tiers.append([])
            for configured in tier:
                if (configured.name, OPEN) in failed:
                    continue
                plugin = guarded(configured.name, OPEN, configured.plugin)(session, configured.name)
                self.tiers[-1].append(plugin)
                self.settings[plugin] = configured
                failing = {hook for hook in GLOBAL_HOOKS if (plugin.name, hook) in failed}
                self._disabled[plugin] = configured.disabled | failing
        self.plugins = list(self.settings)
        self._hooks: dict[str, Hooks] = {}
        self._task_keys: dict[str, tuple[Any, ...]] = {}
        self._reserving: dict[Shape, list[Plugin]] = {}
        self._victim_hooks: dict[Purpose, VictimHooks] = {}

    def hooks(self, hook: str) -> Hooks:
        """Returns a hook of the plugins that override it and do not disable it."""
        found = self._hooks.get(hook)
        if found is None:
            first = [p.name for p in self.plugins if p.orders_first] if hook in vars(Order) else ()
            tiers = [[(p.name, _call(p, hook)) for p in self._providing(tier, hook)] for tier in self.tiers]
            found = self._hooks[hook] = Hooks(tiers, first=first)
        return found

    def by_plugin(self, hook: str, *subject: Any) -> Iterator[tuple[str, Any]]:
        """Iterates over the results of the plugins, with their names."""
        return ((name, call(*subject)) for name, call in self.hooks(hook).named)

    def _combined(self, hook: str) -> Callable[..., Any]:
        return partial(REDUCERS[hook], self.hooks(hook))

    def _providing(self, plugins: Sequence[Plugin], hook: str) -> list[Plugin]:
        return [
            plugin
            for plugin in plugins
            if implements(type(plugin), hook)
            and hook not in self._disabled[plugin]
            and hook not in plugin.unused_hooks
        ]

    # -- order -------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """Returns a key; the queue with the smallest is served first.

        Queues with nominated tasks go before all: otherwise the evicted pods would take the freed resources back.
        """
        key = self._combined("queue_order")(queue)
        return (not self._nominations.has_queue(queue.name), *key, queue.created, queue.name)

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """Returns a key; the job with the smallest goes first, then the oldest. Cached until the job changes."""
        tally = self._session.ledger.tally(job)
        if tally.order is None:
            key = self._combined("job_order")(job)
            tally.order = (not self._nominations.has_job(job), *key, job.created, job.uid)
        return tally.order

    def sub_job_order(self, sub_job: SubJob) -> tuple[Any, ...]:
        return (*self._combined("sub_job_order")(sub_job), sub_job.index, sub_job.uid)

    def task_order(self, task: Task) -> tuple[Any, ...]:
        """Returns a key; tasks that plugins do not order go by the number at the end of their name, then by age."""
        key = self._task_keys.get(task.uid)
        if key is None:
            keys = [call(task) for call in self.hooks("task_order").calls]
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
        jobs, queues = self._session.snapshot.jobs, self._session.snapshot.queues
        uids = {task.job for task in candidates}
        ordered = list(candidates) if in_task_order else sorted(candidates, key=self.task_order, reverse=True)
        if len(uids) > 1:
            job_keys = {uid: self.job_order(jobs[uid]) for uid in uids}
            ordered.sort(key=lambda task: job_keys[task.job], reverse=True)
        names = {jobs[uid].queue for uid in uids}
        if not context.purpose.across_queues or len(names) == 1:
            return ordered
        evictor = queues[context.job.queue]
        # Later sorts win: first the reverse of queue order, then the order of the plugins.
        queue_keys = {name: self.queue_order(queues[name]) for name in names}
        ordered.sort(key=lambda task: queue_keys[jobs[task.job].queue], reverse=True)
        if self.hooks("victim_queue_order"):
            victim_keys = {name: self.victim_queue_order(queues[name], evictor) for name in names}
            ordered.sort(key=lambda task: victim_keys[jobs[task.job].queue])
        return ordered

    # -- gangs and queues --------------------------------------------------------------------------

    def job_short(self, job: Job) -> int:
        """Returns how many more tasks the job needs at least. Cached until the job changes."""
        tally = self._session.ledger.tally(job)
        if tally.short is None:
            tally.short = self._combined("job_short")(job)
        return tally.short

    def job_ready(self, job: Job) -> bool:
        return self.job_short(job) <= 0

    def sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        return self.sub_job_short(sub_job) <= 0 if job.sub_jobs else self.job_ready(job)

    def is_pipelined(self, job: Job) -> bool:
        """Reports whether the job would be ready once the resources being released are free."""
        return self.job_pipelined(job) is Vote.PERMIT

    def may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Reports whether each plugin finds the queue within its share with these tasks, or below it without them."""
        below = dict(self.hooks("below_deserved").named)
        return all(
            preemptive(queue, tasks) or (name in below and below[name](queue, tasks))
            for name, preemptive in self.hooks("preemptive").named
        )

    # -- reservations: only plugins that reserve anything for tasks of this shape are called -----------

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
        return tuple(claim for plugin in self._reserving_for(task) for claim in plugin.claims(task))

    def _reserving_for(self, task: Task) -> list[Plugin]:
        found = self._reserving.get(task.shape)
        if found is None:
            found = [p for p in self.plugins if implements(type(p), "reserve") and p.reserves(task)]
            self._reserving[task.shape] = found
        return found

    # -- victims -----------------------------------------------------------------------------------

    def victims(
        self, context: EvictionContext, candidates: Sequence[Task], *, first_tier: bool = False
    ) -> list[Task]:
        """Returns the candidates that may be evicted, in the given order: first all filters, then the tiers' votes.

        With `first_tier`, only the first tier with votes is called.
        """
        about = self.victim_hooks(context.purpose)
        left = filtered(about.filters, context, candidates)
        votes = about.first if first_tier else about.votes
        return tiered_intersection(votes, context, left) if left else []

    def victim_hooks(self, purpose: Purpose) -> VictimHooks:
        """Returns the hooks for a purpose. A plugin whose vote is switched off filters nothing either."""
        found = self._victim_hooks.get(purpose)
        if found is None:
            vote = VICTIM_HOOKS[purpose]
            enabled = [plugin for plugin in self.plugins if vote not in self._disabled[plugin]]
            filtering = [plugin for plugin in enabled if implements(type(plugin), "filter_victims")]
            voting = next((some for tier in self.tiers if (some := self._providing(tier, vote))), [])
            found = self._victim_hooks[purpose] = VictimHooks(
                Hooks([[(plugin.name, plugin.filter_victims) for plugin in filtering]]),
                self.hooks(vote),
                Hooks([[(plugin.name, getattr(plugin, vote)) for plugin in voting]]),
                not any(plugin.depends_on_preemptor for plugin in (*voting, *filtering)),
                any(purpose in plugin.only_lower_priority for plugin in filtering),
            )
        return found


def _call(plugin: Plugin, hook: str) -> Hook:
    method: Hook = getattr(plugin, hook)
    return guarded(plugin.name, hook, method) if hook in GLOBAL_HOOKS else method


# All hooks that the policy adds nothing to are combined when they are first called.
for _hook in REDUCERS.keys() - vars(Policy).keys():
    _property = cached_property(partial(lambda hook, policy: policy._combined(hook), _hook))
    _property.__set_name__(Policy, _hook)
    setattr(Policy, _hook, _property)
