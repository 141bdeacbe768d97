"""Placement: the best nodes for one task or a run of identical tasks, or the reasons why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volcano.model.resources import STEP, Mask, Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.cycle import Cycle
from volcano.scheduler.engine.diagnosis import FitError, Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable, Rows
from volcano.scheduler.engine.placement.reasons import count_reasons
from volcano.scheduler.engine.placement.runs import ScoreCopies, greedy

NEVER = -np.inf
MANY = 2**31  # tasks: more than any job has
PREDICATE, SCORING = ("stage", "Predicate"), ("stage", "Scoring")


@dataclass(frozen=True, slots=True)
class Choice:
    """Node chosen for a task, on idle resources or, pipelined, on resources being released."""

    row: int
    pipelined: bool = False


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Nodes that one filter rejects for a shape, by their properties alone."""

    plugin: str
    reason: str
    resolvable: bool
    count: int
    code: Code
    mask: Mask  # the nodes that no earlier filter rejected


class Fit:
    """Filter results and scores of all nodes for tasks of one shape in one queue; refreshed with the ledger."""

    __slots__ = (
        "all_passed", "best", "columns", "filtered", "fit_error", "fit_error_at", "future", "has_releasing",
        "infeasible", "limited", "need", "needs", "never", "passed", "refreshed_to", "rejection", "repeats",
        "request", "resolvable", "room_if_empty", "score", "task",
    )  # fmt: skip

    def __init__(self, task: Task, nodes: int) -> None:
        self.task = task
        self.request = task.request
        self.columns = np.flatnonzero(task.request > 0)
        # The request fits where free resources exceed this; resources that are not requested do not matter.
        self.need: Vector = np.where(task.request > 0, task.request - STEP, NEVER)
        # The same as scalars: faster than arrays for a single row.
        self.needs = tuple((column, self.need.item(column)) for column in self.columns.tolist())
        self.rejection: Rejection | None = None
        self.passed: Mask = np.ones(nodes, dtype=np.bool_)  # not rejected by `reject_nodes`
        self.all_passed = True  # whether all nodes passed
        # Passed, or rejected only for reasons that evictions may resolve.
        self.resolvable: Mask = np.ones(nodes, dtype=np.bool_)
        self.filtered: list[FilterResult] = []
        # Nodes that filters exclude for good, each under the first code, whatever other filters reject them for.
        self.never: list[tuple[Code, Mask]] = []
        # Number of tasks that fit on the nodes if all are empty; -1: not computed yet.
        self.room_if_empty = -1
        # By rank, the order in which ties are broken: score of each node, and the same where the request fits
        # now.
        self.score: Vector = np.zeros(nodes)
        self.best: Vector = np.full(nodes, NEVER)
        # By row: whether it fits on future idle resources; while nothing is releasing, those are the idle
        # ones.
        self.future: Mask = np.zeros(nodes, dtype=np.bool_)
        self.has_releasing = False
        self.limited = False  # whether more than counted resources limits how many tasks a node takes
        self.repeats = True  # whether these limits also hold for several tasks placed together
        self.infeasible = False  # fits on no node, neither on idle nor on future idle resources
        self.fit_error: FitError | None = None  # as of `fit_error_at`
        self.fit_error_at = -1
        # length of the ledger's log of touched rows at the last refresh; -1: never refreshed
        self.refreshed_to = -1


class Placer:
    """Finds nodes for tasks. Caches results per shape and queue, and updates only rows that changed."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._nodes: NodeTable = cycle.nodes
        self._fits: dict[tuple[Shape, str], Fit] = {}
        self._by_rank: Rows = cycle.permutation  # rank → row
        self._rank: Rows = np.empty_like(cycle.permutation)  # row → rank
        self._rank[cycle.permutation] = np.arange(len(cycle.permutation))
        # the first row, if any: enough to find out whether a hook applies to a task
        self._probe = cycle.nodes.rows(np.arange(min(len(cycle.nodes), 1)))

    # -- one task ----------------------------------------------------------------------------------

    def find(
        self, task: Task, queue: str, *, within: Mask | None = None, idle_only: bool = False
    ) -> Choice | None:
        """The best node for a task, on idle resources if possible; `within` limits the search. With `idle_only`, not on
        resources being released."""
        fit = self.fit(task, queue)
        if fit.rejection is not None or fit.infeasible:
            return None
        now = self._rejected_now(task, fit, within)
        if now is None and within is None:
            row = self._best_idle(task, fit)
            if row is not None:
                return Choice(row)
        for pipelined in (False,) if idle_only else (False, True):
            feasible = fit.passed & (self._future(fit) if pipelined else self._idle(fit))
            if now is not None:
                feasible &= ~now[pipelined]
            if within is not None:
                feasible &= within
            rows = np.flatnonzero(feasible)
            if len(rows):
                return Choice(self._best_of(task, fit, rows), pipelined)
        fit.infeasible = now is None and within is None and not idle_only
        return None

    def passed(self, task: Task, queue: str) -> Mask | None:
        """Nodes that the filters by node properties let pass; None when the task is rejected on all. Read-only."""
        key = (task.shape, queue)
        fit = self._fits.get(key)
        if fit is None:
            fit = self._fits[key] = self._filtered(task)
        return fit.passed if fit.rejection is None else None

    def fits(self, task: Task, queue: str, row: int) -> bool:
        """Whether the task fits on the future idle resources of a node; cheap for a row that has just
        changed."""
        fit = self._fits.get((task.shape, queue)) or self.fit(task, queue)
        if fit.rejection is not None or not fit.passed[row]:
            return False
        if not self._row_fits(fit, row):
            return False
        policy, table = self._cycle.policy, self._nodes.at(np.array((row,)))
        limit = policy.node_capacity(task, table, 1, True) if fit.limited else None
        if limit is not None and not limit.counts[0]:
            return False
        if not policy.hooks("reject_nodes_now"):
            return True
        answers = policy.reject_nodes_now(task, table)
        return answers is None or not any(reject.mask[0] and not reject.now_only for reject in answers)

    def is_static(self, task: Task) -> bool:
        """Whether no filter of nodes depends on the pods that are placed there."""
        policy = self._cycle.policy
        return not policy.hooks("reject_nodes_now") or policy.reject_nodes_now(task, self._probe) is None

    def resolvable(self, task: Task, queue: str) -> Rows:
        """Rows where evictions could make the task fit, best first, whatever is placed there now."""
        fit = self.fit(task, queue)
        if fit.rejection is not None:
            return np.empty(0, dtype=np.intp)
        rows = np.flatnonzero(fit.resolvable & self._large_enough(fit))
        if not len(rows):
            return rows
        table = self._nodes.rows(rows)
        for reject in self._cycle.policy.reject_nodes_now(task, table) or ():
            if not reject.resolvable and not reject.now_only:
                rows, table = rows[~reject.mask], table.rows(~reject.mask)
                break
        ranks = self._rank[rows]
        order = np.lexsort((ranks, -fit.score[ranks]))
        return rows[order]

    def fits_with(self, task: Task, queue: str, row: int, extra: Vector) -> bool:
        """Whether the request fits on a node once `extra` more is released there."""
        return self._row_fits(self._fits.get((task.shape, queue)) or self.fit(task, queue), row, extra)

    def exchange(self, task: Task, queue: str, row: int, gain: Vector, victims: int) -> tuple[int, int]:
        """Number of victims, each freeing `gain`, that one such task needs, and for how many tasks in a row
        this holds. Placed one after the other on a row, each must need exactly as many as the first."""
        fit, ledger = self._fits.get((task.shape, queue)) or self.fit(task, queue), self._cycle.ledger
        each = 1
        while each <= victims and not self._row_fits(fit, row, gain * each):
            each += 1
        tries = victims // each
        free = ledger.allocatable[row] - ledger.used[row] + ledger.releasing[row] - ledger.pipelined[row]
        before = free + np.arange(tries)[:, None] * (gain * each - fit.request)  # (tasks, resources)
        enough = (fit.need < before + gain * each).all(axis=1)
        too_many = (fit.need < before + gain * (each - 1)).all(axis=1)
        holds = enough & ~too_many
        return each, tries if holds.all() else int(holds.argmin())

    def _row_fits(self, fit: Fit, row: int, extra: Vector | None = None) -> bool:
        """Whether the request fits on the future idle resources of a row, plus `extra`."""
        ledger = self._cycle.ledger
        allocatable, used = ledger.allocatable.item, ledger.used.item
        releasing, pipelined = ledger.releasing.item, ledger.pipelined.item
        for column, need in fit.needs:
            free = (
                allocatable(row, column) - used(row, column) + releasing(row, column) - pipelined(row, column)
            )
            if not need < (free if extra is None else free + extra.item(column)):
                return False
        return True

    # -- runs --------------------------------------------------------------------------------------

    def find_run(self, tasks: Sequence[Task], queue: str, *, within: Mask | None = None) -> list[int]:
        """Rows with idle resources for as many of these tasks (of one job, role and shape) as can be placed
        together; `within` limits the search. The result is the same as placing them one by one. Empty when
        they cannot be placed in a run: use `find`.
        """
        task = tasks[0]
        policy = self._cycle.policy
        fit = self.fit(task, queue)
        if fit.rejection is not None or fit.infeasible or not fit.repeats:
            return []
        if policy.reject_nodes_now(task, self._probe) is not None:
            return []
        if policy.score_nodes_together(task, self._nodes) is not None:
            idle = self._idle(fit)
            rows = np.flatnonzero(idle if within is None else idle & within)
            if policy.score_nodes_together(task, self._nodes.rows(rows)) is not None:
                return []
        best = fit.best if within is None else np.where(within[self._by_rank], fit.best, NEVER)
        capacity = self._capacity(fit)
        if fit.limited:
            self._limit_run(fit, capacity, len(tasks))
        return greedy(len(tasks), best, self._by_rank, capacity, self._score_copies(task))

    def _limit_run(self, fit: Fit, capacity: Rows, most: int) -> None:
        """Lowers the capacity of rows to what plugins allow."""
        rows = np.flatnonzero(self._idle(fit))
        limit = self._cycle.policy.node_capacity(fit.task, self._nodes.at(rows), most, False)
        if limit is not None:
            capacity[rows] = np.minimum(capacity[rows], limit.counts)

    def _capacity(self, fit: Fit) -> Rows:
        """Number of tasks that fit on idle resources that are not promised to pipelined tasks, per row."""
        idle = self._nodes.idle
        if self._cycle.ledger.has_releasing:
            idle = np.minimum(idle, self._nodes.future_idle)
        free = (idle[:, fit.columns] + STEP) / fit.request[fit.columns]
        many: Rows = (np.ceil(free.min(axis=1)) - 1).astype(np.intp)
        return many

    def _score_copies(self, task: Task) -> ScoreCopies:
        nodes, shape, policy = self._nodes, task.shape, self._cycle.policy

        def score(rows: Rows, copies: Rows) -> Vector:
            table = nodes.at(rows).with_copies(shape.request, shape.nonzero_request, copies)
            return policy.score_nodes(task, table)

        return score

    # -- fit errors --------------------------------------------------------------------------------

    def fit_error(self, task: Task, queue: str) -> FitError:
        """Reasons why no node fits: each node is counted under the first filter that rejects it."""
        fit = self.fit(task, queue)
        policy = self._cycle.policy
        if policy.hooks("reject_nodes_now") and policy.reject_nodes_now(task, self._probe) is not None:
            return self._count_reasons(task, fit)  # may differ between jobs with pods of one shape
        if fit.fit_error is None or fit.fit_error_at != fit.refreshed_to:
            fit.fit_error, fit.fit_error_at = self._count_reasons(task, fit), fit.refreshed_to
        return fit.fit_error

    def _count_reasons(self, task: Task, fit: Fit) -> FitError:
        if fit.rejection is not None:
            return FitError(len(self._nodes), rejection=fit.rejection)
        return count_reasons(self._cycle, task, fit, self._future(fit), self.never(fit))

    def never(self, fit: Fit) -> dict[Code, Mask]:
        """Nodes that could not host the task if they were empty and in order, by cause."""
        found: dict[Code, Mask] = {}
        left = np.ones(len(self._nodes), dtype=np.bool_)
        for code, mask in (*fit.never, (Code.NODE_TOO_SMALL, ~self._large_enough(fit))):
            fresh = mask & left
            if fresh.any():
                found[code] = found[code] | fresh if code in found else fresh
                left &= ~mask
        return found

    def room_if_empty(self, task: Task, queue: str) -> int:
        """Most tasks of this shape that the nodes could host together if they were empty and in order."""
        fit = self.fit(task, queue)
        if fit.room_if_empty < 0:
            fit.room_if_empty = int(self.rooms_if_empty(task, queue).sum())
        return fit.room_if_empty

    def rooms_if_empty(self, task: Task, queue: str) -> Rows:
        """The same for each node; no limit where nodes are not the reason."""
        fit = self.fit(task, queue)
        columns = fit.columns
        if fit.rejection is not None or not len(columns):
            return np.full(len(self._nodes), MANY)
        room = (self._nodes.allocatable[:, columns] + STEP) / fit.request[columns]
        many = np.ceil(room.min(axis=1)) - 1
        for mask in self.never(fit).values():
            many = np.where(mask, 0.0, many)
        rooms: Rows = many.astype(np.intp)
        return rooms

    # -- cache per shape ---------------------------------------------------------------------------

    def fit(self, task: Task, queue: str) -> Fit:
        """Filter results and scores for tasks of this shape, up to date."""
        key = (task.shape, queue)
        fit = self._fits.get(key)
        if fit is None:
            fit = self._fits[key] = self._filtered(task)
        if fit.rejection is None:
            self._refresh(fit)
        return fit

    def _filtered(self, task: Task) -> Fit:
        """Calls the filters that depend on node properties alone."""
        policy, nodes = self._cycle.policy, self._nodes
        fit, timings = Fit(task, len(nodes)), self._cycle.timings
        begun = timings.now()
        fit.rejection = policy.pre_predicate(task)
        if fit.rejection is not None:
            return fit
        for plugin, rejects in policy.by_plugin("reject_nodes", task, nodes):
            for reject in rejects:
                mask = reject.mask & fit.passed
                fresh = int(mask.sum())
                if fresh:
                    found = FilterResult(plugin, reject.reason, reject.resolvable, fresh, reject.code, mask)
                    fit.filtered.append(found)
                if not reject.code.rank and reject.mask.any():
                    fit.never.append((reject.code, reject.mask))
                fit.passed &= ~reject.mask
                if not reject.resolvable:
                    fit.resolvable &= ~reject.mask
        fit.all_passed = bool(fit.passed.all())
        timings.add(PREDICATE, begun)
        return fit

    def _refresh(self, fit: Fit) -> None:
        """Updates the rows that changed since the last refresh."""
        ledger = self._cycle.ledger
        if fit.refreshed_to == len(ledger.touched) and fit.has_releasing is ledger.has_releasing:
            return
        rows = self._changed(fit)
        fit.refreshed_to, fit.has_releasing = len(ledger.touched), ledger.has_releasing
        if not len(rows):
            return
        table = self._nodes.at(rows)
        idle = table.allocatable - table.used
        fits_now = later = np.logical_and.reduce(fit.need < idle, axis=1)
        if fit.has_releasing:
            idle = idle + (table.releasing - table.pipelined)
            fit.future[rows] = later = np.logical_and.reduce(fit.need < idle, axis=1)
            fits_now = fits_now & later  # idle resources may be promised to pipelined tasks
        if self._cycle.policy.hooks("node_capacity"):
            fits_now, later = self._limited(fit, table, fits_now, later)
            if fit.has_releasing:
                fit.future[rows] = later
        if fit.infeasible:
            fit.infeasible = not later.any()
        timings = self._cycle.timings
        begun = timings.now()
        ranks = self._rank[rows]
        fit.score[ranks] = score = self._cycle.policy.score_nodes(fit.task, table)
        timings.add(SCORING, begun)
        fit.best[ranks] = np.where(fits_now, score, NEVER)

    def _limited(self, fit: Fit, table: NodeTable, now: Mask, later: Mask) -> tuple[Mask, Mask]:
        """Leaves out the rows that plugins find full, now and once everything releasing is released."""
        policy = self._cycle.policy
        limit = policy.node_capacity(fit.task, table, 1, False)
        if limit is None:
            return now, later
        fit.limited = True
        now = now & (limit.counts > 0)
        fit.repeats = fit.repeats and limit.repeats
        if not fit.has_releasing:
            return now, now
        limit = policy.node_capacity(fit.task, table, 1, True)
        if limit is not None:
            later = later & (limit.counts > 0)
        return now & later, later

    def _changed(self, fit: Fit) -> Rows:
        """Rows to update: all that passed on the first refresh and when `has_releasing` changes."""
        ledger = self._cycle.ledger
        if fit.refreshed_to < 0 or fit.has_releasing is not ledger.has_releasing:
            return np.flatnonzero(fit.passed)
        changed = set(ledger.touched[fit.refreshed_to :])  # the same few rows are touched repeatedly
        rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
        return rows if fit.all_passed else rows[fit.passed[rows]]

    def _idle(self, fit: Fit) -> Mask:
        """Rows where the request fits on idle resources."""
        fits: Mask = (fit.best != NEVER)[self._rank]
        return fits

    def _future(self, fit: Fit) -> Mask:
        """Rows where the request fits on future idle resources."""
        return fit.future if fit.has_releasing else self._idle(fit)

    # -- selection ---------------------------------------------------------------------------------

    def _rejected_now(self, task: Task, fit: Fit, within: Mask | None) -> tuple[Mask, Mask] | None:
        """Rows rejected because of the pods placed there, for placements on idle resources and for pipelined ones;
        None when the task has no such constraints."""
        policy = self._cycle.policy
        if policy.reject_nodes_now(task, self._probe) is None:
            return None
        feasible = fit.passed & self._future(fit)
        rows = np.flatnonzero(feasible if within is None else feasible & within)
        answers = policy.reject_nodes_now(task, self._nodes.rows(rows)) or ()
        filtered = np.zeros(len(self._nodes), dtype=np.bool_)
        filtered_later = filtered.copy()
        for reject in answers:
            filtered[rows] |= reject.mask
            if not reject.now_only:
                filtered_later[rows] |= reject.mask
        return filtered, filtered_later

    def _best_idle(self, task: Task, fit: Fit) -> int | None:
        """The best idle row when nodes need not be compared with each other; None when they have to be, or
        none is idle."""
        best = int(fit.best.argmax()) if len(fit.best) else 0
        if not len(fit.best) or fit.best[best] == NEVER:
            return None
        # If the score is the same for all nodes, it is the same for the feasible ones.
        if self._cycle.policy.score_nodes_together(task, self._nodes) is not None:
            rows = np.flatnonzero(self._idle(fit))
            together = self._cycle.policy.score_nodes_together(task, self._nodes.rows(rows))
            if together is not None:
                return self._highest(rows, fit.score[self._rank[rows]] + together)
        return int(self._by_rank[best])

    def _best_of(self, task: Task, fit: Fit, rows: Rows) -> int:
        """The best of these rows by all scores."""
        if len(rows) == 1:
            return int(rows[0])
        scores = fit.score[self._rank[rows]]
        together = self._cycle.policy.score_nodes_together(task, self._nodes.rows(rows))
        return self._highest(rows, scores if together is None else scores + together)

    def _highest(self, rows: Rows, scores: Vector) -> int:
        top = rows[scores == scores.max()]
        return int(top[self._rank[top].argmin()])

    def _large_enough(self, fit: Fit) -> Mask:
        """Rows whose node could hold the request if it were empty."""
        free = self._nodes.allocatable[:, fit.columns]
        lacking: Mask = fit.request[fit.columns] >= free + STEP
        large: Mask = ~np.any(lacking, axis=1)
        return large
