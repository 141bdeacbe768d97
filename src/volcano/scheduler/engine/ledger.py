"""Ledger: the provisional changes of a cycle, and their exact undo."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.hooks import Reserve
from volcano.scheduler.engine.ledger_view import Change, Eviction, LedgerView, Placement

UNDO, COMMIT, KEEP = "undo", "commit", "keep"


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


class Ledger(LedgerView):
    """The mutable state of a cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        # Receives the changes on behalf of the plugins: the policy.
        self.handler = Reserve()
        self._held: list[tuple[int, Vector]] = []  # kept free: row and amount
        self._open: list[Statement] = []

    def set_phase(self, job: Job, phase: str) -> None:
        """Sets the phase; not part of any statement."""
        self._phases[job.uid] = phase

    # -- changes -----------------------------------------------------------------------------------

    def allocate(self, task: Task, row: int) -> Rejection | None:
        """Places a task on idle resources; a rejection (a volume, a device) leaves everything unchanged."""
        return self._record((task,), (row,), Status.ALLOCATED, evicting=False)

    def pipeline(self, task: Task, row: int, *, evicting: bool = False) -> Rejection | None:
        """Places a task on resources that are being released."""
        return self._record((task,), (row,), Status.PIPELINED, evicting=evicting)

    def pipeline_run(self, tasks: tuple[Task, ...], row: int) -> Rejection | None:
        """Places pending tasks of one job, role and shape on resources that evictions release, as one change."""
        return self._record(tasks, (row,) * len(tasks), Status.PIPELINED, evicting=True)

    def allocate_run(self, tasks: Sequence[Task], rows: Sequence[int]) -> Rejection | None:
        """Places pending tasks of one job, role and shape, `tasks[i]` on `rows[i]`, as one change."""
        return self._record(tuple(tasks), tuple(rows), Status.ALLOCATED, evicting=False)

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
        self.handler.on_deallocate(tasks, (row,) * many)

    def unplace(self, task: Task) -> None:
        """Removes the placement of a task that an earlier action of this cycle pipelined and kept."""
        row = self._row[task.uid]
        self.pipelined[row] -= task.request
        self.touched.append(row)
        before = self._status.pop(task.uid)
        del self._row[task.uid]
        self._placed[row].pop(task.uid, None)
        self._count(task, 1, before, task.status, -1)
        self.handler.on_deallocate((task,), (row,))

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

    # -- implementation ----------------------------------------------------------------------------

    def _record(
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
        self.handler.on_allocate(tasks, rows)
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
        handler = self.handler
        if not handler.reserves(tasks[0]):
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
