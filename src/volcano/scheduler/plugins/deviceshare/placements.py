"""Cards in one cycle: what pods hold, what placements of the cycle take, and their exact undo."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from volcano.model.resources import Mask, Vector
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.plugins.deviceshare.card_table import CardTable, Rows, Usage
from volcano.scheduler.plugins.deviceshare.choice import copies, largest_network, pick, score_of_copy
from volcano.scheduler.plugins.deviceshare.facts import BINPACK, SPREAD, Demand, Share
from volcano.scheduler.plugins.deviceshare.mig import Ints
from volcano.scheduler.plugins.deviceshare.single_choice import pick_one

Restore = Callable[[], None]


FEW = 10  # rows up to which one by one is faster than arrays


class Fitting(NamedTuple):
    """Rows whose cards suffice, and the sum of the percentages of memory in use on the chosen cards."""

    enough: Mask
    score: Vector


class Taken(NamedTuple):
    """Record of a placement of this cycle: shares by container, and how to give them back."""

    row: int
    shares: tuple[tuple[Share, ...], ...]
    restore: Restore

    @property
    def all(self) -> tuple[Share, ...]:
        return tuple(share for shares in self.shares for share in shares)


class Mark:
    """Cards held by some pods, such as those of one PodGroup: number of their shares, (nodes, cards)."""

    __slots__ = ("later", "matches", "now")

    def __init__(self, matches: Callable[[Task], bool], now: Ints, later: Ints) -> None:
        self.matches = matches
        self.now = now
        self.later = later


class Placements:
    """Cards of one kind as of the placements and evictions of a cycle so far."""

    def __init__(self, table: CardTable) -> None:
        self.table = table
        self.kind = table.kind
        self.now = table.used.copy()
        # Once pods that are being deleted are gone and pipelined ones placed; None while that makes no difference.
        self.later: Usage | None = table.kept.copy() if table.releasing.any() else None
        self.taken: dict[str, Taken] = {}
        self.marks: dict[str, Mark] = {}
        self._allowed: dict[Shape, Mask] = {}
        self._lines: dict[Shape, list[list[bool]]] = {}

    # -- questions ---------------------------------------------------------------------------------

    def allowed(self, shape: Shape) -> Mask:
        """(nodes, cards): cards that pods of a shape may use as far as placements do not matter."""
        found = self._allowed.get(shape)
        if found is None:
            table, kind = self.table, self.kind
            if kind.names_cards(shape):
                found = np.zeros(table.shape, dtype=np.bool_)
                for row, cards in enumerate(table.cards):
                    found[row, : len(cards)] = [not kind.excluded(shape, card) for card in cards]
            else:
                _, *sorts = table.sorts
                found = np.array([False, *(not kind.excluded(shape, card) for card in sorts)])[table.sort]
            self._allowed[shape] = found
        return found

    def _allowed_lines(self, shape: Shape) -> list[list[bool]]:
        """As `allowed`, in lists: faster for a few rows."""
        found = self._lines.get(shape)
        if found is None:
            found = self._lines[shape] = self.allowed(shape).tolist()
        return found

    def usages(self, *, future: bool) -> list[Usage]:
        """Usages that a placement has to fit: an allocated task leaves what is promised to pipelined ones."""
        if self.later is None:
            return [self.now]
        return [self.later] if future else [self.now, self.later]

    def fits(
        self, demand: Demand, shape: Shape, rows: Rows, *, future: bool, without: Mask | None = None
    ) -> Fitting:
        """Rows whose cards suffice for one more pod, and their scores."""
        table, usages = self.table, self.usages(future=future)
        if len(rows) > FEW or without is not None:
            allowed = self.allowed(shape)[rows]
            if without is not None:
                allowed &= ~without
            picked = pick(table, usages, rows, demand, allowed)
            return Fitting(picked.enough, picked.score)
        lines = self._allowed_lines(shape)
        found = [pick_one(table, usages, row, demand, lines[row]) for row in rows.tolist()]
        return Fitting(
            np.array([one is not None for one in found], dtype=np.bool_),
            np.array([0.0 if one is None else one.score for one in found]),
        )

    def fits_empty(self, demand: Demand, shape: Shape) -> Mask:
        """Rows whose cards would suffice if they were unused."""
        table = self.table
        rows = np.flatnonzero(table.has_cards)
        found = np.zeros(len(table.cards), dtype=np.bool_)
        found[rows] = pick(table, [table.unused()], rows, demand, self.allowed(shape)[rows]).enough
        return found

    def room(self, demand: Demand, shape: Shape, rows: Rows, *, future: bool) -> Ints:
        """How many times a single share fits on each card of these rows."""
        return copies(self.table, self.usages(future=future), rows, demand, self.allowed(shape)[rows])

    def least_memory(self, demand: Demand, shape: Shape) -> int:
        """Memory that a pod gets at least, whichever cards it gets."""
        cards = self.table.capacity.memory[self.allowed(shape)]
        smallest = int(cards.min(initial=1 << 60)) if len(cards) else 0
        return sum(
            part.number * (smallest * part.percent // 100 if part.percent else part.memory)
            for part in demand.parts
        )

    def repeats(self, demand: Demand) -> bool:
        """Whether it can be computed how many pods with this demand fit on a node."""
        return demand.single and not self.table.has_instances

    def score(
        self, demand: Demand, shape: Shape, rows: Rows, copy: Ints | None, fitting: Fitting | None = None
    ) -> Vector:
        """Score of nodes by the policy, with `copy` more pods of this demand on them; `fitting` if it is known."""
        table, policy = self.table, self.kind.policy
        if policy == SPREAD:
            unused = (self.allowed(shape)[rows] & (self.now.users[rows] == 0)).sum(axis=1)
            left = unused if copy is None else np.maximum(unused - copy * demand.parts[0].number, 0)
            spread: Vector = 100.0 * left / np.maximum((table.capacity.memory[rows] > 0).sum(axis=1), 1)
            return spread
        if policy != BINPACK:
            return np.zeros(len(rows))
        if copy is not None:
            usages, allowed = self.usages(future=False), self.allowed(shape)[rows]
            room = copies(table, usages, rows, demand, allowed)
            return score_of_copy(table, usages[0], rows, demand, room, copy)
        fitting = fitting or self.fits(demand, shape, rows, future=False)
        found: Vector = np.where(fitting.enough, fitting.score, 0.0)
        if demand.connected:
            found += 10.0 * largest_network(table.capacity.at(rows), self.allowed(shape)[rows])
        return found

    # -- changes -----------------------------------------------------------------------------------

    def take(
        self, task: Task, row: int, demand: Demand, *, pipelined: bool, without: Mask | None
    ) -> Taken | None:
        """Takes cards for a task; None, with nothing changed, when they do not suffice."""
        if pipelined:
            self.separate()
        allowed = self._allowed_lines(task.shape)[row]
        if without is not None:
            allowed = [may and not closed for may, closed in zip(allowed, without[0].tolist(), strict=True)]
        picked = pick_one(self.table, self.usages(future=pipelined), row, demand, allowed)
        if picked is None:
            return None
        shares = tuple(tuple(part) for part in picked.shares)
        changed = [usage for usage in (None if pipelined else self.now, self.later) if usage is not None]
        flat = [share for each in shares for share in each]
        restore = self._saving(row)
        for usage in changed:
            self.table.add(usage, row, flat)
        self._mark(task, row, flat, 1, now=not pipelined)
        taken = self.taken[task.uid] = Taken(row, shares, restore)
        return taken

    def release(self, task: Task) -> None:
        """Undoes `take`, in the reverse order of all changes."""
        self.taken.pop(task.uid).restore()

    def give_back(self, task: Task, row: int) -> Restore:
        """Counts what a task holds as free for pipelined ones; returns how to undo that."""
        self.separate()
        restore = self._saving(row)
        taken = self.taken.pop(task.uid, None)
        shares = taken.all if taken is not None else tuple(self.kind.shares(task))
        assert self.later is not None
        self.table.subtract(self.later, row, shares)
        self._mark(task, row, shares, -1, now=False)

        def undo() -> None:
            restore()
            if taken is not None:
                self.taken[task.uid] = taken

        return undo

    def separate(self) -> None:
        """From now on, what is free later differs from what is free now."""
        if self.later is None:
            self.later = self.now.copy()

    def _saving(self, row: int) -> Restore:
        """Saves the state of one row; the result restores it."""
        now, later = self.now.cells, self.later.cells if self.later is not None else None
        line = now[:, row].copy()
        line_later = line if later is None else later[:, row].copy()
        marks = [
            (array, array[row].copy()) for mark in self.marks.values() for array in (mark.now, mark.later)
        ]

        def restore() -> None:
            now[:, row] = line
            if later is not None:
                later[:, row] = line_later
            elif self.later is not None:  # separate since then
                self.later.cells[:, row] = line
            for array, saved in marks:
                array[row] = saved

        return restore

    # -- marks -------------------------------------------------------------------------------------

    def follow(
        self,
        key: str,
        matches: Callable[[Task], bool],
        tasks: Callable[[], Iterable[tuple[int, Task, Status]]],
    ) -> Mark:
        """Follows the cards of the tasks that match; `tasks` are those on nodes so far, with row and status."""
        found = self.marks.get(key)
        if found is None:
            shape = self.table.shape
            found = Mark(matches, np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))
            for row, task, status in tasks():
                taken = self.taken.get(task.uid)
                shares = taken.all if taken is not None else self.kind.shares(task)
                if not shares or not matches(task):
                    continue
                if status is not Status.PIPELINED:
                    self._count(found.now, row, shares, 1)
                if status is not Status.RELEASING:
                    self._count(found.later, row, shares, 1)
            self.marks[key] = found
        return found

    def _mark(self, task: Task, row: int, shares: Sequence[Share], sign: int, *, now: bool) -> None:
        for mark in self.marks.values():
            if mark.matches(task):
                if now:
                    self._count(mark.now, row, shares, sign)
                self._count(mark.later, row, shares, sign)

    def _count(self, array: Ints, row: int, shares: Sequence[Share], sign: int) -> None:
        columns: Mapping[str, int] = self.table.column[row]
        for share in shares:
            column = columns.get(share.uuid.partition("[")[0])
            if column is not None:
                array[row, column] += sign
