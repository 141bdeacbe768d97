"""Ledger: the provisional changes of a cycle, and their exact undo."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from volcano.model.job import Job, SubJob
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import HOLDING, VALID, Status
from volcano.model.task import Task
from volcano.scheduler.engine.node_columns import NodeColumns
from volcano.scheduler.engine.plugin import Rejection
from volcano.scheduler.engine.tally import Tally, Totals

Undo = Callable[[], None]
UNDO, COMMIT, KEEP = "undo", "commit", "keep"


class LedgerEventHandler(Protocol):
    """Receives the changes of the ledger: the policy, on behalf of the plugins."""

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None: ...

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None: ...

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection: ...

    def release(self, task: Task, row: int) -> None: ...

    def reserves(self, task: Task) -> bool: ...


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


class Statement:
    """Changes that are kept or undone together; undone, newest first, unless `commit` or `keep` is called."""

    __slots__ = ("_ledger", "_start", "changes", "outcome")

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._start = 0
        self.changes: list[Change] = []
        self.outcome = UNDO

    def commit(self) -> None:
        """Makes the changes final; those of an inner statement are added to the outer one."""
        self.outcome = COMMIT

    def keep(self) -> None:
        """Keeps the changes for the rest of the cycle without writing them: the job is pipelined, not ready."""
        self.outcome = KEEP

    def __enter__(self) -> "Statement":
        self._start = self._ledger.begin(self)
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self._ledger.end(self, self._start, UNDO if failed is not None else self.outcome)


class Ledger:
    """The mutable state of a cycle: task statuses, node columns, counts per job."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.columns = columns = NodeColumns(snapshot)
        self.allocatable = snapshot.allocatable
        self.used = columns.used
        self.releasing = columns.releasing
        self.pipelined = columns.pipelined
        self.nonzero_used = columns.nonzero_used
        self.has_releasing = bool(
            snapshot.releasing.any()
        )  # whether any resources are releasing or pipelined
        # Log of changed rows. Caches per row remember up to which position they have read it.
        self.touched: list[int] = []
        self._handler: LedgerEventHandler | None = None
        self.committed: list[Change] = []
        self.evictions = 0  # number of tasks marked for eviction
        self.placing = Status.ALLOCATED  # status that tasks get while `reserve` is called for them
        self._held: list[tuple[int, Vector]] = []  # kept free: row and amount
        self.annotations: dict[str, dict[str, str]] = {}
        self._status: dict[str, Status] = {}
        self._row: dict[str, int] = {}
        self._placed: dict[int, dict[str, Task]] = {}
        self._tallies: dict[str, Tally] = {}
        self._phases: dict[str, str] = {}
        self._journal: list[Undo] = []
        # Registers the undo of a change that a plugin made to its own state.
        self.record_undo: Callable[[Undo], None] = self._journal.append
        self._open: list[Statement] = []
        self._committed_seen = 0
        self._committed_uids: set[str] = set()

    def add_event_handler(self, handler: LedgerEventHandler) -> None:
        """Sets the handler of placements and evictions; there is one, the policy."""
        self._handler = handler

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

    def set_phase(self, job: Job, phase: str) -> None:
        """Sets the phase; not part of any statement."""
        self._phases[job.uid] = phase

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
        return Totals(self, start or {})

    # -- changes -----------------------------------------------------------------------------------

    def allocate(self, task: Task, row: int) -> Rejection | None:
        """Places a task on idle resources; a rejection (a volume, a device) leaves everything unchanged."""
        return self._place((task,), (row,), Status.ALLOCATED, evicting=False)

    def pipeline(self, task: Task, row: int, *, evicting: bool = False) -> Rejection | None:
        """Places a task on resources that are being released."""
        return self._place((task,), (row,), Status.PIPELINED, evicting=evicting)

    def pipeline_run(self, tasks: tuple[Task, ...], row: int) -> Rejection | None:
        """Places pending tasks of one job, role and shape on resources that evictions release, as one change."""
        return self._place(tasks, (row,) * len(tasks), Status.PIPELINED, evicting=True)

    def allocate_run(self, tasks: Sequence[Task], rows: Sequence[int]) -> Rejection | None:
        """Places pending tasks of one job, role and shape, `tasks[i]` on `rows[i]`, as one change."""
        return self._place(tuple(tasks), tuple(rows), Status.ALLOCATED, evicting=False)

    def evict(self, task: Task, reason: str, on_behalf_of: str = "") -> None:
        """Marks a running task for eviction; its resources count as releasing."""
        self.evict_run((task,), reason, on_behalf_of)

    def evict_run(self, tasks: tuple[Task, ...], reason: str, on_behalf_of: str = "") -> None:
        """As `evict`, for tasks of one job, role, shape and status on one node."""
        first, many = tasks[0], len(tasks)
        row, before = self.row(first), self.status(first)
        assert row is not None
        self.has_releasing = True
        line = self.columns.cells[row]
        saved = line.copy()
        releasing = line[self.columns.layout.releasing]
        releasing += first.request if many == 1 else first.request * many
        self.touched.append(row)
        self._count(first, many, before, Status.RELEASING, -1)
        self.evictions += many
        for task in tasks:
            self._status[task.uid] = Status.RELEASING
            self._change(Eviction(task, row, reason, on_behalf_of))

        def undo() -> None:
            line[:] = saved
            self.evictions -= many
            self.touched.append(row)
            for task in tasks:
                self._set_back(task, before)

        self._journal.append(undo)
        if self._handler is not None:
            self._handler.on_deallocate(tasks, (row,) * many)

    def unplace(self, task: Task) -> None:
        """Removes the placement of a task that an earlier action of this cycle pipelined and kept."""
        row = self._row[task.uid]
        self.pipelined[row] -= task.request
        self.touched.append(row)
        before = self._status.pop(task.uid)
        del self._row[task.uid]
        self._placed[row].pop(task.uid, None)
        self._count(task, 1, before, task.status, -1)
        if self._handler is not None:
            self._handler.on_deallocate((task,), (row,))

    def hold(self, request: Vector, rows: Sequence[int]) -> None:
        """Keeps resources on rows from being used until `release_held`; outside statements and unknown to plugins."""
        for row in rows:
            self.pipelined[row] += request
            self._held.append((row, request))
        self.touched += rows
        self.has_releasing = self.has_releasing or bool(rows)

    def release_held(self) -> None:
        for row, request in self._held:
            self.pipelined[row] -= request
            self.touched.append(row)
        self._held.clear()

    # -- statements --------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """A statement, as a `with` block: changes are undone, newest first, unless it is committed or kept."""
        return Statement(self)

    def begin(self, statement: Statement) -> int:
        """Opens a statement; returns the start of its part of the journal."""
        self._open.append(statement)
        return len(self._journal)

    def end(self, statement: Statement, start: int, outcome: str) -> None:
        """Closes the innermost statement."""
        self._open.pop()
        if outcome is UNDO:
            self._undo_to(start)
        elif outcome is COMMIT and statement.changes:
            (self._open[-1].changes if self._open else self.committed).extend(statement.changes)
        if not self._open:
            self._journal.clear()

    def plan(self, statement: Statement) -> tuple[Change, ...]:
        """Changes of a statement so far, to `replay` after an undo."""
        return tuple(statement.changes)

    def replay(self, plan: Sequence[Change]) -> bool:
        """Applies planned changes again; False when one is rejected."""
        for change in plan:
            match change:
                case Placement(tasks, rows, status, evicting):
                    rejection = self._place(tasks, rows, status, evicting=evicting)
                case Eviction(task, _, reason, on_behalf_of):
                    self.evict(task, reason, on_behalf_of)
                    rejection = None
            if rejection is not None:
                return False
        return True

    # -- implementation ----------------------------------------------------------------------------

    def _place(
        self, tasks: tuple[Task, ...], rows: tuple[int, ...], status: Status, *, evicting: bool
    ) -> Rejection | None:
        start = len(self._journal)
        self.placing = status
        rejection = self._reserve(tasks, rows)
        if rejection is not None:
            self._undo_to(start)
            return rejection
        first, before = tasks[0], self.status(tasks[0])
        self._occupy(first, rows, status)
        self._count(first, len(tasks), before, status, 1)
        statuses, where, placed = self._status, self._row, self._placed
        for task, row in zip(tasks, rows, strict=True):
            uid = task.uid
            statuses[uid] = status
            where[uid] = row
            on_row = placed.get(row)
            if on_row is None:
                on_row = placed[row] = {}
            on_row[uid] = task

        def undo() -> None:
            for task, row in zip(tasks, rows, strict=True):
                where.pop(task.uid, None)
                placed[row].pop(task.uid, None)
                self._set_back(task, before)

        self._journal.append(undo)
        self._change(Placement(tasks, rows, status, evicting))
        if self._handler is not None:
            self._handler.on_allocate(tasks, rows)
        return None

    def _occupy(self, first: Task, rows: tuple[int, ...], status: Status) -> None:
        """Adds tasks of one shape to rows; the undo restores the saved rows."""
        request, nonzero = first.request, first.shape.nonzero_request
        waits = status is Status.PIPELINED
        cells, layout = self.columns.cells, self.columns.layout
        at: int | list[int]
        if len(rows) == 1:
            at = rows[0]
            line = cells[at]
            saved = line.copy()
            taken = line[layout.pipelined if waits else layout.used]
            taken += request
            if not waits:
                counted = line[layout.nonzero_used]
                counted += nonzero
            self.touched.append(at)
        else:
            counts = Counter(rows)
            at, many = list(counts), np.array(list(counts.values()), dtype=np.float64)[:, None]
            saved = cells[at]
            lines = saved.copy()
            lines[:, layout.pipelined if waits else layout.used] += many * request
            if not waits:
                lines[:, layout.nonzero_used] += many * nonzero
            cells[at] = lines
            self.touched += at
        self.has_releasing = self.has_releasing or waits

        def undo() -> None:
            cells[at] = saved
            if isinstance(at, int):
                self.touched.append(at)
            else:
                self.touched += at

        self._journal.append(undo)

    def _reserve(self, tasks: Sequence[Task], rows: Sequence[int]) -> Rejection | None:
        handler = self._handler
        if handler is None or not handler.reserves(tasks[0]):
            return None
        for task, row in zip(tasks, rows, strict=True):
            answer = handler.reserve(task, row)
            if isinstance(answer, Rejection):
                return answer
            self.annotations[task.uid] = dict(answer)

            def undo(task: Task = task, row: int = row) -> None:
                self.annotations.pop(task.uid, None)
                handler.release(task, row)

            self._journal.append(undo)
        return None

    def _count(self, task: Task, many: int, before: Status, after: Status, sign: int) -> None:
        """Moves tasks like this one from one status to another in their job's tally; `sign` adds or subtracts
        requests."""
        job = self.snapshot.jobs.get(task.job)
        if job is None:
            return
        tally = self.tally(job)
        saved = tally.allocated
        step = task.request if many == 1 else task.request * many
        tally.allocated = saved + step if sign > 0 else saved - step
        tally.move(task, many, before, after)
        part = self.tally(job.sub_jobs[job.sub_job_of[task.uid]]) if job.sub_jobs else None
        if part is not None:
            part.move(task, many, before, after)

        def undo() -> None:
            tally.allocated = saved
            tally.move(task, many, after, before)
            if part is not None:
                part.move(task, many, after, before)

        self._journal.append(undo)

    def _set_back(self, task: Task, status: Status) -> None:
        if status is task.status:
            self._status.pop(task.uid, None)
        else:
            self._status[task.uid] = status

    def _change(self, change: Change) -> None:
        (self._open[-1].changes if self._open else self.committed).append(change)

    def _undo_to(self, start: int) -> None:
        journal = self._journal
        while len(journal) > start:
            journal.pop()()
