"""Ledger: everything a cycle provisionally changes, and how to undo it bit for bit."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """Who hears of changes: the policy, on behalf of the plugins."""

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
    evicting: bool = False  # room was made for it by eviction


class Eviction(NamedTuple):
    """A running task marked for eviction in this cycle."""

    task: Task
    row: int
    reason: str
    on_behalf_of: str


Change = Placement | Eviction


class Statement:
    """Changes that stand or fall together. Left without a word, they are undone, newest first."""

    __slots__ = ("_ledger", "_start", "changes", "outcome")

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._start = 0
        self.changes: list[Change] = []
        self.outcome = UNDO

    def commit(self) -> None:
        """The changes stand; those of an inner statement become the outer one's."""
        self.outcome = COMMIT

    def keep(self) -> None:
        """The changes are held for the rest of the cycle and never written: a job that is pipelined, not ready."""
        self.outcome = KEEP

    def __enter__(self) -> "Statement":
        self._start = self._ledger.begin(self)
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self._ledger.end(self, self._start, UNDO if failed is not None else self.outcome)


class Ledger:
    """The one thing that moves in a cycle: task statuses, node columns, counts per job."""

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
        )  # whether anything is releasing or pipelined anywhere
        # Rows in the order they changed. Whoever keeps something per row remembers how far it has read.
        self.touched: list[int] = []
        self._handler: LedgerEventHandler | None = None
        self.committed: list[Change] = []
        self.annotations: dict[str, dict[str, str]] = {}
        self._status: dict[str, Status] = {}
        self._row: dict[str, int] = {}
        self._placed: dict[int, dict[str, Task]] = {}
        self._tallies: dict[str, Tally] = {}
        self._phases: dict[str, str] = {}
        self._journal: list[Undo] = []
        # Registers how to take back a change that a plugin just made to its own state.
        self.record_undo: Callable[[Undo], None] = self._journal.append
        self._open: list[Statement] = []
        self._committed_seen = 0
        self._committed_uids: set[str] = set()

    def add_event_handler(self, handler: LedgerEventHandler) -> None:
        """Sets the handler of placements and evictions; there is one, the policy."""
        self._handler = handler

    # -- questions about tasks ---------------------------------------------------------------------

    def status(self, task: Task) -> Status:
        """Where the task stands now, in this cycle."""
        return self._status.get(task.uid, task.status)

    @property
    def statuses(self) -> Mapping[str, Status]:
        """The statuses that this cycle changed, by task."""
        return self._status

    def row(self, task: Task) -> int | None:
        """The row of the node the task is on, or was put on in this cycle."""
        found = self._row.get(task.uid)
        return self.snapshot.row_of.get(task.node) if found is None else found

    def changed(self, task: Task) -> bool:
        """Whether this cycle gave the task another status than the snapshot says."""
        return task.uid in self._status

    def is_committed(self, task: Task) -> bool:
        """Whether a placement of this task will be written, not merely held."""
        if self._committed_seen < len(self.committed):
            for change in self.committed[self._committed_seen :]:
                if isinstance(change, Placement) and change.status is Status.ALLOCATED:
                    self._committed_uids.update(placed.uid for placed in change.tasks)
            self._committed_seen = len(self.committed)
        return task.uid in self._committed_uids

    def tasks_on(self, row: int) -> Iterator[Task]:
        """Every task that is on a node, or was put there in this cycle; those being evicted included."""
        yield from self.snapshot.tasks_on[row].values()
        yield from self._placed.get(row, {}).values()

    # -- questions about jobs ----------------------------------------------------------------------

    def tally(self, job: Job | SubJob) -> Tally:
        """The counts of a job or sub-job, as of now."""
        tally = self._tallies.get(job.uid)
        if tally is None:
            tally = Tally.of_job(job) if isinstance(job, Job) else Tally.of_sub_job(job)
            self._tallies[job.uid] = tally
        return tally

    def ready(self, job: Job | SubJob) -> int:
        """How many tasks hold resources or have succeeded."""
        return self.tally(job).ready

    def waiting(self, job: Job | SubJob) -> int:
        """How many tasks are pipelined."""
        return self.tally(job).counts[Status.PIPELINED]

    def valid(self, job: Job | SubJob) -> int:
        """How many tasks exist that are neither failed nor going."""
        return self.tally(job).count(VALID)

    def holding(self, job: Job | SubJob) -> int:
        """How many tasks hold resources."""
        return self.tally(job).count(HOLDING)

    def allocated(self, job: Job) -> Vector:
        """What the job's tasks hold, pipelined ones included and evicted ones not. Never change it in place."""
        return self.tally(job).allocated

    def phase(self, job: Job) -> str:
        """The PodGroup's phase, as of now; "Pending" when it has none yet."""
        return self._phases.get(job.uid) or job.phase or "Pending"

    def set_phase(self, job: Job, phase: str) -> None:
        """Admits a job; not part of any statement."""
        self._phases[job.uid] = phase

    @property
    def phases(self) -> Mapping[str, str]:
        """The phases set in this cycle, by job."""
        return self._phases

    @property
    def touched_jobs(self) -> Iterator[str]:
        """The jobs (and sub-jobs) somebody asked about or changed."""
        return iter(self._tallies)

    # -- running totals of plugins -----------------------------------------------------------------

    def totals(self, start: Mapping[str, Vector] | None = None) -> Totals:
        """Totals by name that an undo restores: a queue's allocation, a job's share."""
        return Totals(self, start or {})

    # -- changes -----------------------------------------------------------------------------------

    def allocate(self, task: Task, row: int) -> Rejection | None:
        """Puts a task on idle resources; a refusal (a volume, a device) leaves everything as it was."""
        return self._place((task,), (row,), Status.ALLOCATED, evicting=False)

    def pipeline(self, task: Task, row: int, *, evicting: bool = False) -> Rejection | None:
        """Promises a task what is being released on a node."""
        return self._place((task,), (row,), Status.PIPELINED, evicting=evicting)

    def pipeline_run(self, tasks: tuple[Task, ...], row: int) -> Rejection | None:
        """Promises pending tasks of one job, role and shape what evictions release on a node, as one change."""
        return self._place(tasks, (row,) * len(tasks), Status.PIPELINED, evicting=True)

    def allocate_run(self, tasks: Sequence[Task], rows: Sequence[int]) -> Rejection | None:
        """Puts pending tasks of one job, role and shape on nodes, `tasks[i]` on `rows[i]`, as one change."""
        return self._place(tuple(tasks), tuple(rows), Status.ALLOCATED, evicting=False)

    def evict(self, task: Task, reason: str, on_behalf_of: str = "") -> None:
        """Marks a running task for eviction; its resources are releasing from now on."""
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
        for task in tasks:
            self._status[task.uid] = Status.RELEASING
            self._change(Eviction(task, row, reason, on_behalf_of))

        def undo() -> None:
            line[:] = saved
            self.touched.append(row)
            for task in tasks:
                self._set_back(task, before)

        self._journal.append(undo)
        if self._handler is not None:
            self._handler.on_deallocate(tasks, (row,) * many)

    def unplace(self, task: Task) -> None:
        """Takes back, for good, a task that an earlier action of this cycle pipelined and kept."""
        row = self._row[task.uid]
        self.pipelined[row] -= task.request
        self.touched.append(row)
        before = self._status.pop(task.uid)
        del self._row[task.uid]
        self._placed[row].pop(task.uid, None)
        self._count(task, 1, before, task.status, -1)
        if self._handler is not None:
            self._handler.on_deallocate((task,), (row,))

    # -- statements --------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """Changes inside are undone, newest first, unless the statement was committed or kept."""
        return Statement(self)

    def begin(self, statement: Statement) -> int:
        """Opens a statement; returns where its part of the journal starts."""
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
        """What a statement changed so far, to be done again later with `replay` after an undo."""
        return tuple(statement.changes)

    def replay(self, plan: Sequence[Change]) -> bool:
        """Makes planned changes again; False, with nothing changed by the failing one, when one is refused."""
        for change in plan:
            match change:
                case Placement(tasks, rows, status, evicting):
                    refused = self._place(tasks, rows, status, evicting=evicting)
                case Eviction(task, _, reason, on_behalf_of):
                    self.evict(task, reason, on_behalf_of)
                    refused = None
            if refused is not None:
                return False
        return True

    # -- inside ------------------------------------------------------------------------------------

    def _place(
        self, tasks: tuple[Task, ...], rows: tuple[int, ...], status: Status, *, evicting: bool
    ) -> Rejection | None:
        start = len(self._journal)
        refused = self._reserve(tasks, rows)
        if refused is not None:
            self._undo_to(start)
            return refused
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
        """Books tasks of one shape on rows; the undo puts the saved rows back."""
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
        """Moves tasks like this one from one status to another in their job's tally; `sign` is where resources go."""
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
