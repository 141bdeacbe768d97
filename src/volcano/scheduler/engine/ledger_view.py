"""Ledger view: the state of a cycle as plugins read it. They change it by registering undos for what they keep."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from volcano.model.job import Job, SubJob
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import HOLDING, VALID, Status
from volcano.model.task import Task
from volcano.scheduler.engine.node_columns import NodeColumns
from volcano.scheduler.engine.tally import Tally, Totals

Undo = Callable[[], None]


class Placement(NamedTuple):
    """Tasks of one job, role and shape put on nodes in this cycle: `tasks[i]` on `rows[i]`."""

    tasks: tuple[Task, ...]
    rows: tuple[int, ...]
    status: Status  # ALLOCATED or PIPELINED
    evicting: bool = False  # pods are evicted for it


class Eviction(NamedTuple):
    """A running task marked for eviction in this cycle."""

    task: Task
    row: int
    reason: str
    on_behalf_of: str


Change = Placement | Eviction


class LedgerView:
    """Task statuses, node columns and counts per job, with the changes of this cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.columns = columns = NodeColumns(snapshot)
        self.allocatable = snapshot.allocatable
        self.used = columns.used
        self.releasing = columns.releasing
        self.pipelined = columns.pipelined
        self.nonzero_used = columns.nonzero_used
        # Whether any resources are releasing or pipelined.
        self.has_releasing = bool(snapshot.releasing.any())
        # Log of changed rows. Caches per row remember up to which position they have read it.
        self.touched: list[int] = []
        self.committed: list[Change] = []
        self.evictions = 0  # number of tasks marked for eviction
        self.placing = Status.ALLOCATED  # status that tasks get while `reserve` is called for them
        self.annotations: dict[str, dict[str, str]] = {}
        self._status: dict[str, Status] = {}
        self._row: dict[str, int] = {}
        self._placed: dict[int, dict[str, Task]] = {}
        self._tallies: dict[str, Tally] = {}
        self._phases: dict[str, str] = {}
        self._journal: list[Undo] = []
        # Registers the undo of a change that a plugin made to its own state.
        self.record_undo: Callable[[Undo], None] = self._journal.append
        self._committed_seen = 0
        self._committed_uids: set[str] = set()

    # -- tasks -------------------------------------------------------------------------------------

    def status(self, task: Task) -> Status:
        """Status of the task in this cycle."""
        return self._status.get(task.uid, task.status)

    @property
    def statuses(self) -> Mapping[str, Status]:
        """Statuses that this cycle changed, by task uid."""
        return self._status

    def row(self, task: Task) -> int | None:
        """Row of the node the task is on, or was placed on in this cycle."""
        found = self._row.get(task.uid)
        return self.snapshot.row_of.get(task.node) if found is None else found

    def changed(self, task: Task) -> bool:
        """Whether this cycle changed the status of the task."""
        return task.uid in self._status

    def is_committed(self, task: Task) -> bool:
        """Whether a placement of this task is committed, not only kept."""
        if self._committed_seen < len(self.committed):
            for change in self.committed[self._committed_seen :]:
                if isinstance(change, Placement) and change.status is Status.ALLOCATED:
                    self._committed_uids.update(placed.uid for placed in change.tasks)
            self._committed_seen = len(self.committed)
        return task.uid in self._committed_uids

    def tasks_on(self, row: int) -> Iterator[Task]:
        """All tasks on a node, those placed in this cycle and those being evicted included."""
        yield from self.snapshot.tasks_on[row].values()
        yield from self._placed.get(row, {}).values()

    @property
    def placed_rows(self) -> Collection[int]:
        """Rows on which tasks were placed in this cycle."""
        return self._placed.keys()

    # -- jobs --------------------------------------------------------------------------------------

    def tally(self, job: Job | SubJob) -> Tally:
        """Counts of a job or sub-job."""
        tally = self._tallies.get(job.uid)
        if tally is None:
            tally = Tally.of_job(job) if isinstance(job, Job) else Tally.of_sub_job(job)
            self._tallies[job.uid] = tally
        return tally

    def ready(self, job: Job | SubJob) -> int:
        """Number of tasks that hold resources or have succeeded."""
        return self.tally(job).ready

    def waiting(self, job: Job | SubJob) -> int:
        """Number of pipelined tasks."""
        return self.tally(job).counts[Status.PIPELINED]

    def valid(self, job: Job | SubJob) -> int:
        """Number of tasks that are neither failed nor being deleted."""
        return self.tally(job).count(VALID)

    def holding(self, job: Job | SubJob) -> int:
        """Number of tasks that hold resources."""
        return self.tally(job).count(HOLDING)

    def allocated(self, job: Job) -> Vector:
        """Sum of the requests of the job's tasks, pipelined ones included, evicted ones not. Read-only."""
        return self.tally(job).allocated

    def phase(self, job: Job) -> str:
        """Phase of the PodGroup in this cycle; "Pending" when it has none yet."""
        return self._phases.get(job.uid) or job.phase or "Pending"

    @property
    def phases(self) -> Mapping[str, str]:
        """Phases set in this cycle, by job."""
        return self._phases

    @property
    def touched_jobs(self) -> Iterator[str]:
        """Uids of the jobs and sub-jobs whose counts were read or changed."""
        return iter(self._tallies)

    # -- totals of plugins -------------------------------------------------------------------------

    def totals(self, start: Mapping[str, Vector] | None = None) -> Totals:
        """Totals by name that are restored by an undo, such as the allocation of a queue."""
        return Totals(self.record_undo, self.snapshot.resources.zeros(), start or {})
