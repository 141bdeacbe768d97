"""Plugin: every question a plugin may answer. Overriding a method is the whole registration.

A plugin called `task-topology` in the configuration is the one `Plugin` subclass in `plugins/task_topology.py`. How the
answers of several plugins combine is declared in `policy.py`, one line per question.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from volcano.model.decisions import ClaimVolume
from volcano.model.job import Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import Mask, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin_metrics import Reading

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

MAX_SCORE: Final = 100.0

# Something to sort by: anything that compares with its like. Smaller goes first.
OrderKey = Any


class Abstain(Enum):
    """The answer of a plugin that has no opinion on these candidates."""

    ABSTAIN = "abstain"


ABSTAIN: Final = Abstain.ABSTAIN


class Vote(IntEnum):
    """An answer where one refusal decides at once and one permit decides its tier."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Rejection:
    """No, and why: the sentence for people, and the resource that lacks, as data, where there is one."""

    message: str
    reason: str = "Unschedulable"
    resource: str = ""
    need: float = 0.0
    have: float = 0.0
    plugin: str = ""  # filled in by the policy

    def by(self, plugin: str) -> "Rejection":
        return self if self.plugin else replace(self, plugin=plugin)


@dataclass(frozen=True, slots=True)
class RejectedNodes:
    """Nodes ruled out for one reason. `mask` is true for the rows of the table that was asked about."""

    mask: Mask
    reason: str  # as Kubernetes words it: "node(s) had untolerated taint {key: value}"
    curable: bool = True  # whether evicting somebody could change the answer
    plugin: str = ""  # filled in by the policy


class Purpose(Enum):
    """On whose terms room is being made."""

    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    GANG_PREEMPT = "gangpreempt"
    GANG_RECLAIM = "gangreclaim"

    def __init__(self, action: str) -> None:
        self.across_queues = action.endswith("reclaim")


@dataclass(frozen=True, slots=True)
class Hunt:
    """A search for victims: what for, on behalf of which task and job.

    `breaking` is true in the second round, when surplus members were not enough and gangs may be broken.
    """

    purpose: Purpose
    job: Job
    task: Task
    breaking: bool = False


class Plugin:
    """One opinion. The base class holds no logic: an inherited method means the plugin has nothing to say."""

    name: str = ""  # the configured name, set by the session
    arguments: ClassVar[
        tuple[Argument, ...]
    ] = ()  # what the file may say; a wrong type is refused, an unknown name warned of
    leads: ClassVar[bool] = (
        False  # its order of jobs and tasks goes before that of every other plugin, whatever the tier
    )

    # Whether its votes and vetoes on victims depend on what the taker holds already. Where nobody's do, and each
    # weighs candidates in the order they would go, several like tasks get their room together.
    weighs_taker: ClassVar[bool] = True
    # Questions it has nothing to say to in this cycle, although it has the method; to be set when it is opened.
    silent: frozenset[str] = frozenset()

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.snapshot = session.snapshot
        self.ledger = session.ledger
        self.resources = session.snapshot.resources
        self.nodes: NodeTable = session.nodes  # every node

    # -- the frame ---------------------------------------------------------------------------------

    def open(self, arguments: Arguments) -> None:
        """Reads the arguments (checked already) and prepares; called once per cycle, before any question.

        Must not walk all jobs or tasks: use `snapshot.totals`, `snapshot.active`, and work on demand.
        """

    def close(self) -> None:
        """Called once, after the last action; metrics are set here."""

    def measure(self) -> Iterable[Reading]:
        """What people may want to see of this cycle; only what was computed anyway."""
        return ()

    def remember(self) -> Any:
        """What this plugin wants to find in `snapshot.memory[name]` in the next cycle; None for nothing."""

    # -- order: smaller keys go first; equal keys leave the decision to the next plugin ------------

    def queue_order(self, queue: Queue) -> OrderKey:
        """Which queue is served first. Asked again after each job, because placing changes shares."""

    def job_order(self, job: Job) -> OrderKey:
        """Which job of a queue goes first. The key may depend on the ledger's state of this job only."""

    def sub_job_order(self, sub_job: SubJob) -> OrderKey:
        """Which sub-group of a job goes first."""

    def task_order(self, task: Task) -> OrderKey:
        """Which task of a job goes first. Asked once per task and cycle."""

    def victim_queue_order(self, queue: Queue, evictor: Queue) -> OrderKey:
        """From which queue to take first on behalf of `evictor`; without an opinion, reverse queue order."""

    # -- admission ---------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> Rejection | None:
        """Whether the job can be scheduled at all, such as having enough tasks for its minimum."""

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        """Whether a job's pods may be created. A Rejection says why."""
        return Vote.ABSTAIN

    def job_enqueued(self, job: Job) -> None:
        """The job was admitted: count what it will ask for. Cannot be undone."""

    # -- gangs -------------------------------------------------------------------------------------

    def job_short(self, job: Job) -> int:
        """At least how many more tasks must be placed before the job may start; 0 when it may start now.

        The job is ready when every plugin says 0. A lower bound is enough: it is asked again after so many.
        """
        return 0

    def sub_job_short(self, sub_job: SubJob) -> int:
        """As `job_short`, for one sub-group. Only asked for jobs with sub-group policies."""
        return 0

    def job_pipelined(self, job: Job) -> Vote:
        """Whether the job would be ready once what is being released is free."""
        return Vote.ABSTAIN

    def job_starving(self, job: Job) -> int:
        """Whether the job lacks something it is entitled to, so that others may be evicted for it.

        A number says for how many more tasks; with True it is asked again after each.
        """
        return 0

    # -- queues ------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Whether the queue has all it deserves and is left out of allocate and reclaim."""
        return False

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """How many of `count` tasks like this one the queue may still take: its capability, its deserved share."""
        return count

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        """After `allocatable` answered 0: what lacks, for people."""

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue may take room from other queues for these tasks."""
        return True

    # -- nodes: which will do ----------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        """What rules the task out on every node, before any is looked at. Depends on the shape, not on placements."""

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes]:
        """Nodes ruled out by facts alone: labels, taints. Asked once per shape and queue, for all nodes; cached."""
        return ()

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        """Nodes ruled out by what is placed where: ports, pod affinity, spread, volume limits.

        None when the task cares about none of it, and neither do the pods that are there about it; this must then
        hold for every task of its job, role and shape for as long as only such tasks are placed. Asked for each task
        otherwise, also on one-row tables.
        """
        return None

    # -- nodes: which is best ----------------------------------------------------------------------

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        """A score per row that depends on that row alone (its facts and columns) and on the task's shape.

        Works on any table, also one of hypothetical rows: use `nodes.used`, not the ledger. Rows are scored again only
        when the ledger changed them, and runs of identical tasks are scored together.
        """
        raise NotImplementedError

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        """A score that compares nodes: normalised, spreading, near other pods. `nodes` are the feasible ones.

        None when all would score the same; this must hold as in `reject_nodes_now`.
        """
        return None

    def best_node(self, task: Task, nodes: NodeTable, scores: Vector) -> int | None:
        """Overrules the scores: the row of `session.nodes` to take."""

    # -- reservations ------------------------------------------------------------------------------

    def reserves(self, task: Task) -> bool:
        """Whether `reserve` has anything to do for tasks of this shape; only asked of plugins that override it."""
        return True

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        """Sets aside what the task needs on the node beyond counted resources: volumes, devices.

        Returns annotations to bind with. A refusal means the node is not taken after all.
        """
        return {}

    def release(self, task: Task, row: int) -> None:
        """Undoes `reserve`."""

    def claims(self, task: Task) -> Sequence[ClaimVolume]:
        """The volume claims to be settled before a reserved task is bound."""
        return ()

    # -- what happened -----------------------------------------------------------------------------

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one job, role and shape were placed (or pipelined): `tasks[i]` on the node at `rows[i]`.

        Totals kept in `ledger.totals()` are restored by an undo; anything else must be undone through
        `ledger.record_undo(callback)`. `on_deallocate` is not called for an undo.
        """

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one job, role and shape were marked for eviction: `tasks[i]` on the node at `rows[i]`."""

    # -- victims -----------------------------------------------------------------------------------

    def filter_victims(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task]:
        """Those of the candidates that may be taken at all: a veto, asked of every plugin before any vote.

        Candidates come in the order they would be evicted, so that running totals ("still over its share after that?")
        can be kept while walking.
        """
        return candidates

    def preemptable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Which running tasks of the same queue may make room (vote of a tier)."""
        return ABSTAIN

    def reclaimable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Which running tasks of other queues may make room (vote of a tier)."""
        return ABSTAIN

    def unified_evictable(self, hunt: Hunt, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        """Which running tasks gangpreempt or gangreclaim (see `hunt.purpose`) may take (vote of a tier)."""
        return ABSTAIN

    def victim_tasks(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Which running tasks the shuffle action should evict."""
        return ()


HOOKS: Final = frozenset(
    name for name, value in vars(Plugin).items() if callable(value) and not name.startswith("_")
)
