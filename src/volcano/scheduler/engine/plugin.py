"""Plugin: base class of the scheduler's plugins; overriding a hook registers it.

The plugin `task-topology` of a configuration is the one `Plugin` subclass in `plugins/task_topology.py`. How the
results of several plugins combine is declared in `policy.py`, one method per hook.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from volcano.model.decisions import ClaimVolume, ReserveClaim
from volcano.model.job import Condition, Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import Mask, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.diagnosis import Amount
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable, Rows
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.engine.topology.domains import DomainTable

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

MAX_SCORE: Final = 100.0

# Any sortable value; the smallest goes first.
OrderKey = Any


class Abstain(Enum):
    """The result of a hook that does not vote on these candidates."""

    ABSTAIN = "abstain"


ABSTAIN: Final = Abstain.ABSTAIN


class Vote(IntEnum):
    """A vote: one REJECT decides at once, one PERMIT decides its tier."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why something is rejected: a message and its code, and the missing resource where there is one."""

    message: str
    code: Code = Code.REJECTED_BY_PLUGIN
    resource: str = ""
    need: float = 0.0
    have: float = 0.0
    plugin: str = ""  # set by the policy
    queue: str = ""  # the queue whose limit or state is the reason
    amounts: tuple[Amount, ...] = ()  # need, have and limit per resource

    def by(self, plugin: str) -> "Rejection":
        return self if self.plugin else replace(self, plugin=plugin)


def closed(queue: Queue, message: str = "") -> Rejection:
    """Rejection by a queue that is not open."""
    text = message or f"queue {queue.name} is {queue.state.lower()}"
    return Rejection(text, Code.QUEUE_CLOSED, queue=queue.name)


@dataclass(frozen=True, slots=True)
class RejectedNodes:
    """Nodes rejected for one reason. `mask` has one element per row of the table passed to the hook."""

    mask: Mask
    reason: str  # as kube-scheduler has it: "node(s) had untolerated taint {key: value}"
    resolvable: bool = True  # whether evictions could make the nodes feasible
    now_only: bool = False  # feasible once what is being released there is free: a task may be pipelined
    plugin: str = ""  # set by the policy
    code: Code = Code.REJECTED_BY_PLUGIN


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """How many more tasks of one shape each row of a table takes, by what is placed there, beside counted resources.

    `counts` are at most the number asked for; a mask will do for one. With `repeats`, they hold for several tasks
    placed together, and `score_nodes` takes into account how many of them a hypothetical row has. `explain` returns why
    rows take none.
    """

    counts: Rows | Mask
    explain: Callable[[], Iterable[RejectedNodes]]
    repeats: bool = True


class Purpose(Enum):
    """The action that evicts."""

    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    GANG_PREEMPT = "gangpreempt"
    GANG_RECLAIM = "gangreclaim"

    def __init__(self, action: str) -> None:
        self.across_queues = action.endswith("reclaim")


@dataclass(frozen=True, slots=True)
class EvictionContext:
    """A search for victims: its purpose, and the preemptor (job and task).

    `breaking` is true in the second round, when surplus members were not enough and gangs may be broken.
    """

    purpose: Purpose
    job: Job
    task: Task
    break_gangs: bool = False


class Plugin:
    """Base class of plugins: its hooks do nothing, and only hooks that a subclass overrides are called.

    Public methods of a subclass must be hooks; helpers start with an underscore.
    """

    arguments: ClassVar[tuple[Argument, ...]] = ()  # a wrong type is an error, an unknown name a warning
    # Whether its job_order and task_order go before those of all other plugins, whatever the tier.
    orders_first: ClassVar[bool] = False
    # Whether its hooks about victims depend on what the preemptor holds already. If none of the plugins' do, and each
    # evaluates candidates in eviction order, victims for several identical tasks are searched for at once.
    depends_on_preemptor: ClassVar[bool] = True
    # Purposes for which its filter_victims protects the tasks of other jobs whose priority is not lower than that of
    # the preemptor. Victims are then not searched for where no job has a lower priority.
    only_lower_priority: ClassVar[frozenset[Purpose]] = frozenset()
    # Whether its decisions change with time alone, or with what other programs answer: while jobs wait, cycles are then
    # repeated in every period, not only after changes of the cluster.
    depends_on_time: ClassVar[bool] = False
    # Whether it measures what jobs hold over time: each change of jobs needs a cycle, also while none waits. The
    # running scheduler has one anyway, to report status.
    follows_usage: ClassVar[bool] = False
    # Hooks that have no effect in this cycle and are not called; to be set in `open`.
    unused_hooks: frozenset[str] = frozenset()

    def __init__(self, session: "Session", name: str) -> None:
        self.name = name  # as configured
        self.session = session
        self.snapshot = session.snapshot
        self.ledger = session.ledger
        self.resources = session.snapshot.resources
        self.nodes: NodeTable = session.nodes  # every node

    # -- session ----------------------------------------------------------------------------------

    def open(self, arguments: Arguments) -> None:
        """Reads the arguments (already validated) and prepares the cycle; called before any other hook.

        Must not iterate over all jobs or tasks: use `snapshot.totals` and `snapshot.active`, and compute on demand.
        """

    def close(self) -> None:
        """Called once, after the last action."""

    def measure(self) -> Iterable[MetricSample]:
        """Returns metrics of this cycle; only values that were computed anyway."""
        return ()

    def remember(self) -> Any:
        """Returns state for `snapshot.memory[name]` of the next cycle; None for nothing."""

    # -- order: smaller keys go first; equal keys leave the decision to the next plugin -----------

    def queue_order(self, queue: Queue) -> OrderKey:
        """Returns the sort key of a queue. Called again after each job, because placements change shares."""

    def job_order(self, job: Job) -> OrderKey:
        """Returns the sort key of a job within its queue. May depend on the ledger's state of this job only."""

    def sub_job_order(self, sub_job: SubJob) -> OrderKey:
        """Returns the sort key of a sub-group within its job."""

    def task_order(self, task: Task) -> OrderKey:
        """Returns the sort key of a task within its job. Called once per task and cycle."""

    def victim_queue_order(self, queue: Queue, evictor: Queue) -> OrderKey:
        """Returns the sort key of a queue to reclaim from for `evictor`; by default, reverse queue order."""

    # -- admission --------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> Rejection | None:
        """Rejects jobs that cannot be scheduled at all, such as those with too few tasks for their minimum."""

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        """Votes on creating a job's pods. A Rejection is a REJECT with its reason."""
        return Vote.ABSTAIN

    def job_enqueued(self, job: Job) -> None:
        """Called when a job was admitted, to account for what it will request. Never undone."""

    # -- gangs ------------------------------------------------------------------------------------

    def job_short(self, job: Job) -> int:
        """Returns how many more tasks, at least, must be placed before the job may start; 0 when it may start.

        The job is ready when all plugins return 0. A lower bound is enough: the hook is called again after that many.
        """
        return 0

    def sub_job_short(self, sub_job: SubJob) -> int:
        """As `job_short`, for one sub-group. Only called for jobs with sub-group policies."""
        return 0

    def job_pipelined(self, job: Job) -> Vote:
        """Votes on whether the job would be ready once the resources being released are free."""
        return Vote.ABSTAIN

    def job_starving(self, job: Job) -> int:
        """Returns for how many more tasks of the job other tasks may be evicted; True means: call again after one."""
        return 0

    def job_blocked(self, job: Job) -> None:
        """Called after allocate found no place for the minimum of a job; nothing of the job is placed then."""

    def job_condition(self, job: Job) -> Condition | None:
        """Returns the condition Reserved of the PodGroup while something is reserved for the job."""

    # -- queues -----------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Reports whether the queue holds all it deserves; allocate and reclaim skip it then."""
        return False

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Returns how many of `count` identical tasks the queue may still get within its limits."""
        return count

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        """Returns the missing resource after `allocatable` returned 0."""

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Reports whether the queue may reclaim resources of other queues for these tasks."""
        return True

    # -- reclaim ----------------------------------------------------------------------------------

    def below_deserved(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Reports whether the queue may reclaim although these tasks bring it beyond its share.

        Asked when `preemptive` returned false. Only plugins that override `preemptive` are asked.
        """
        return False

    def reclaim_opened(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Called before a statement that evicts pods of other queues for these tasks of a job; false prevents it."""
        return True

    def reclaim_allowed(self, job: Job, evicted: Sequence[Task], placed: Sequence[Task]) -> bool:
        """Reports whether that statement, with all its changes made, may be committed."""
        return True

    def reclaim_closed(self, job: Job, committed: bool) -> None:
        """Called after that statement was committed or undone."""

    # -- nodes: filters ---------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        """Rejects a task on every node, before any is filtered. Depends on the shape, not on placements."""

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes]:
        """Rejects nodes by facts alone (labels, taints). Called once per shape and queue, for all nodes; cached."""
        return ()

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        """Rejects nodes by what is placed where: ports, pod affinity, spread, volume limits.

        Returns None when placements do not matter to the task, nor the task to the pods already placed; this must then
        hold for every task of its job, role and shape for as long as only such tasks are placed. Called for each task
        otherwise, also on one-row tables.
        """
        return None

    def node_capacity(self, task: Task, nodes: NodeTable, most: int, future: bool) -> NodeCapacity | None:
        """Returns how many tasks of this shape fit on each node, at most `most`: devices that are not plain counts.

        None when that does not limit the shape. With `future`, once everything that is being released is free. Placing
        a task may change the result for its own node only; rows are asked for again only when the ledger changed them.
        """
        return None

    # -- nodes: scores ----------------------------------------------------------------------------

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        """Returns a score per row that depends on that row alone (its facts and columns) and on the task's shape.

        Works on any table, also one of hypothetical rows: use `nodes.used`, not the ledger. Rows are scored again only
        when the ledger changed them, and runs of identical tasks are scored together.
        """
        raise NotImplementedError

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        """Returns scores that compare nodes: normalised, spreading, near other pods. `nodes` are the feasible ones.

        None when all would score the same; this must hold as in `reject_nodes_now`.
        """
        return None

    def best_node(self, task: Task, nodes: NodeTable, scores: Vector) -> int | None:
        """Overrides the scores: returns the row of `session.nodes` to use."""

    def score_domains(self, job: Job | SubJob, tasks: Sequence[Task], domains: DomainTable) -> Vector | None:
        """Returns a score per domain, the highest first, for domains of one tier that may take the tasks of a job.

        `job` is the sub-group where sub-groups are placed on their own, `tasks` are those of its tasks that are to be
        placed, the minimum first. Each domain has enough free resources for the minimum, idle or being released.
        The scores of several plugins are added up; without any, `prefer_full_domains` of engine.topology.domains
        decides. Equal scores go by the name of the domain. None when the plugin has no preference.
        """
        return None

    # -- reservations -----------------------------------------------------------------------------

    def reserves(self, task: Task) -> bool:
        """Reports whether `reserve` has an effect for tasks of this shape; only called if `reserve` is overridden."""
        return True

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        """Reserves what the task needs on the node beyond counted resources: volumes, devices.

        Returns annotations to bind with. With a Rejection the node is not used.
        """
        return {}

    def release(self, task: Task, row: int) -> None:
        """Undoes `reserve`."""

    def claims(self, task: Task) -> Sequence[ClaimVolume | ReserveClaim]:
        """Returns the volume and resource claims to be written before a reserved task is bound."""
        return ()

    def node_annotations(self, task: Task) -> Mapping[str, str]:
        """Returns annotations to be set on the node before a reserved task is bound there: locks."""
        return {}

    # -- notifications ----------------------------------------------------------------------------

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Called when tasks of one job, role and shape were placed (or pipelined): `tasks[i]` on node `rows[i]`.

        Totals kept in `ledger.totals()` are restored by an undo; anything else must be undone through
        `ledger.record_undo(callback)`. `on_deallocate` is not called for an undo.
        """

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Called when tasks of one job, role and shape were marked for eviction: `tasks[i]` on node `rows[i]`."""

    # -- victims ----------------------------------------------------------------------------------

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the candidates that may be evicted at all; called for every plugin before any vote.

        Candidates come in eviction order, so that running totals ("still over its share after that?") can be kept
        while iterating.
        """
        return candidates

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Returns the running tasks of the same queue that may be preempted (vote of a tier)."""
        return ABSTAIN

    def reclaimable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Returns the running tasks of other queues that may be reclaimed (vote of a tier)."""
        return ABSTAIN

    def unified_evictable(
        self, context: EvictionContext, candidates: Sequence[Task]
    ) -> Sequence[Task] | Abstain:
        """Returns the running tasks that gangpreempt or gangreclaim (`context.purpose`) may evict (vote of a tier)."""
        return ABSTAIN

    def victim_tasks(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Returns the running tasks that the shuffle action should evict."""
        return ()


# Names of all hooks.
HOOKS: Final = frozenset(
    name for name, value in vars(Plugin).items() if callable(value) and not name.startswith("_")
)
