"""Hooks of plugins in eight protocols, each hook with the reducer that combines the results of several plugins."""

from collections.abc import Iterable, Mapping, Sequence

from volcano.model.decisions import ClaimVolume, ReserveClaim
from volcano.model.job import Condition, Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import (
    ABSTAIN,
    Abstain,
    EvictionContext,
    NodeCapacity,
    OrderKey,
    RejectedNodes,
    Vote,
)
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.domain_table import DomainTable
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.reducers import (
    Reducer,
    all_of,
    any_of,
    chain,
    chain_or_none,
    combine,
    filtered,
    first_rejection,
    first_result,
    largest,
    least_capacity,
    limit,
    merge,
    notify,
    order,
    separately,
    tiered_intersection,
    tiered_minimum,
    tiered_union,
    tiered_vote,
    total,
    total_or_none,
)


class Order:
    """Sort keys: the smaller goes first; equal keys leave the decision to the next plugin."""

    @combine(order)
    def queue_order(self, queue: Queue) -> OrderKey:
        """Returns the sort key of a queue. Called again after each job, because placements change shares."""

    @combine(order)
    def job_order(self, job: Job) -> OrderKey:
        """Returns the sort key of a job within its queue. May depend on the ledger's state of this job only."""

    @combine(order)
    def sub_job_order(self, sub_job: SubJob) -> OrderKey:
        """Returns the sort key of a sub-group within its job."""

    @combine(order)
    def task_order(self, task: Task) -> OrderKey:
        """Returns the sort key of a task within its job. Called once per task and cycle."""

    @combine(order)
    def victim_queue_order(self, queue: Queue, evictor: Queue) -> OrderKey:
        """Returns the sort key of a queue to reclaim from for `evictor`; by default, reverse queue order."""


class Admission:
    """Whether jobs are valid, and whether their pods are created."""

    @combine(first_rejection)
    def job_valid(self, job: Job) -> Rejection | None:
        """Rejects jobs that cannot be scheduled at all, such as those with too few tasks for their minimum."""
        return None

    @combine(tiered_vote)
    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        """Votes on creating a job's pods. A Rejection is a REJECT with its reason."""
        return Vote.ABSTAIN

    @combine(notify)
    def job_enqueued(self, job: Job) -> None:
        """Called when a job was admitted, to account for what it will request. Never undone."""


class Gang:
    """When a job may start, and what it may do until then."""

    @combine(largest)
    def job_short(self, job: Job) -> int:
        """Returns how many more tasks, at least, must be placed before the job may start; 0 when it may start.

        The job is ready when all plugins return 0. A lower bound is enough: the hook is called again after that many.
        """
        return 0

    @combine(largest)
    def sub_job_short(self, sub_job: SubJob) -> int:
        """As `job_short`, for one sub-group. Only called for jobs with sub-group policies."""
        return 0

    @combine(tiered_vote)
    def job_pipelined(self, job: Job) -> Vote | Rejection:
        """Votes on whether the job would be ready once the resources being released are free."""
        return Vote.ABSTAIN

    @combine(tiered_minimum)
    def job_starving(self, job: Job) -> int:
        """Returns for how many more tasks of the job other tasks may be evicted; True means: call again after one."""
        return 0

    @combine(notify)
    def job_blocked(self, job: Job) -> None:
        """Called after allocate found no place for the minimum of a job; nothing of the job is placed then."""

    @combine(first_result)
    def job_condition(self, job: Job) -> Condition | None:
        """Returns the condition Reserved of the PodGroup while something is reserved for the job."""
        return None


class QueueQuota:
    """Limits of queues, and resources that they may reclaim from other queues."""

    @combine(any_of)
    def overused(self, queue: Queue) -> bool:
        """Reports whether the queue holds all it deserves; allocate and reclaim skip it then."""
        return False

    @combine(limit)
    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Returns how many of `count` identical tasks the queue may still get within its limits."""
        return count

    @combine(first_rejection)
    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        """Returns the missing resource after `allocatable` returned 0."""
        return None

    @combine(all_of)
    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Reports whether the queue may reclaim resources of other queues for these tasks."""
        return True

    @combine(separately)
    def below_deserved(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Reports whether the queue may reclaim although these tasks bring it beyond its share.

        Asked when the plugin's own `preemptive` returned false. Only plugins that override `preemptive` are asked.
        """
        return False

    @combine(all_of)
    def reclaim_opened(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Called before a statement that evicts pods of other queues for these tasks of a job; false prevents it."""
        return True

    @combine(all_of)
    def reclaim_allowed(self, job: Job, evicted: Sequence[Task], placed: Sequence[Task]) -> bool:
        """Reports whether that statement, with all its changes made, may be committed."""
        return True

    @combine(notify)
    def reclaim_closed(self, job: Job, committed: bool) -> None:
        """Called after that statement was committed or undone."""


class Filter:
    """Nodes that a task may not use."""

    @combine(first_rejection)
    def pre_predicate(self, task: Task) -> Rejection | None:
        """Rejects a task on every node, before any is filtered. Depends on the shape, not on placements."""
        return None

    @combine(chain)
    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes]:
        """Rejects nodes by facts alone (labels, taints). Called once per shape and queue, for all nodes; cached."""
        return ()

    @combine(chain_or_none)
    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        """Rejects nodes by what is placed where: ports, pod affinity, spread, volume limits.

        Returns None when placements do not matter to the task, nor the task to the pods already placed; this must then
        hold for every task of its job, role and shape for as long as only such tasks are placed. Called for each task
        otherwise, also on one-row tables.
        """
        return None

    @combine(least_capacity)
    def node_capacity(self, task: Task, nodes: NodeTable, most: int, future: bool) -> NodeCapacity | None:
        """Returns how many tasks of this shape fit on each node, at most `most`: devices that are not plain counts.

        None when that does not limit the shape. With `future`, once everything that is being released is free. Placing
        a task may change the result for its own node only; rows are asked for again only when the ledger changed them.
        """
        return None


class Score:
    """Nodes and domains that a task or job prefers."""

    @combine(total)
    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        """Returns a score per row that depends on that row alone (its facts and columns) and on the task's shape.

        Works on any table, also one of hypothetical rows: use `nodes.used`, not the ledger. Rows are scored again only
        when the ledger changed them, and runs of identical tasks are scored together.
        """
        raise NotImplementedError

    @combine(total_or_none)
    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        """Returns scores that compare nodes: normalised, spreading, near other pods. `nodes` are the feasible ones.

        None when all would score the same; this must hold as in `reject_nodes_now`.
        """
        return None

    @combine(total_or_none)
    def score_domains(self, job: Job | SubJob, tasks: Sequence[Task], domains: DomainTable) -> Vector | None:
        """Returns a score per domain, the highest first, for domains of one tier that may take the tasks of a job.

        `job` is the sub-group where sub-groups are placed on their own, `tasks` are those of its tasks that are to be
        placed, the minimum first. Each domain has enough free resources for the minimum, idle or being released.
        Without any scores, `prefer_full_domains` of engine.domain_table decides. Equal scores go by the name of the
        domain. None when the plugin has no preference.
        """
        return None


class Reserve:
    """Counts and reservations that are made when tasks are placed, and undone with their placement."""

    @combine(notify)
    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Called when tasks of one job, role and shape were placed (or pipelined): `tasks[i]` on node `rows[i]`.

        Totals kept in `ledger.totals()` are restored by an undo; anything else must be undone through
        `ledger.record_undo(callback)`. `on_deallocate` is not called for an undo.
        """

    @combine(notify)
    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Called when tasks of one job, role and shape were marked for eviction: `tasks[i]` on node `rows[i]`."""

    @combine(any_of)
    def reserves(self, task: Task) -> bool:
        """Reports whether `reserve` has an effect for tasks of this shape; only called if `reserve` is overridden."""
        return True

    @combine(merge)
    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        """Reserves what the task needs on the node beyond counted resources: volumes, devices.

        Returns annotations to bind with. With a Rejection the node is not used, and what other plugins reserved is
        released.
        """
        return {}

    @combine(notify)
    def release(self, task: Task, row: int) -> None:
        """Undoes `reserve`; plugins are called in reverse order."""

    @combine(chain)
    def claims(self, task: Task) -> Sequence[ClaimVolume | ReserveClaim]:
        """Returns the volume and resource claims to be written before a reserved task is bound."""
        return ()

    @combine(merge)
    def node_annotations(self, task: Task) -> Mapping[str, str]:
        """Returns annotations to be set on the node before a reserved task is bound there: locks."""
        return {}


class Victims:
    """Running tasks that may, or should, be evicted."""

    @combine(filtered)
    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the candidates that may be evicted at all; called for every plugin before any vote.

        Candidates come in eviction order, so that running totals ("still over its share after that?") can be kept
        while iterating.
        """
        return candidates

    @combine(tiered_intersection)
    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Returns the running tasks of the same queue that may be preempted (vote of a tier)."""
        return ABSTAIN

    @combine(tiered_intersection)
    def reclaimable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Returns the running tasks of other queues that may be reclaimed (vote of a tier)."""
        return ABSTAIN

    @combine(tiered_intersection)
    def unified_evictable(
        self, context: EvictionContext, candidates: Sequence[Task]
    ) -> Sequence[Task] | Abstain:
        """Returns the running tasks that gangpreempt or gangreclaim (`context.purpose`) may evict (vote of a tier)."""
        return ABSTAIN

    @combine(tiered_union)
    def victim_tasks(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the running tasks that the shuffle action should evict."""
        return ()


PROTOCOLS = (Order, Admission, Gang, QueueQuota, Filter, Score, Reserve, Victims)
REDUCERS: Mapping[str, Reducer] = {
    name: hook.reducer
    for protocol in PROTOCOLS
    for name, hook in vars(protocol).items()
    if hasattr(hook, "reducer")
}


class PluginHooks(Order, Admission, Gang, QueueQuota, Filter, Score, Reserve, Victims):
    """All hooks but those that open and close the session."""
