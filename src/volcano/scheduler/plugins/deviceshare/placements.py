"""Cards in one cycle: what pods hold, what placements of the cycle take, and their exact undo."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from volcano.kube.devices.vgpu import mig_id
from volcano.model.resources import Mask, Vector
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.plugins.deviceshare.card_table import CardTable, Rows, Usage
from volcano.scheduler.plugins.deviceshare.choice import Picked, copies, largest_network, pick, score_of_copy
from volcano.scheduler.plugins.deviceshare.facts import BINPACK, SPREAD, Demand, Share
from volcano.scheduler.plugins.deviceshare.mig import Ints

Restore = Callable[[], None]


class Taken(NamedTuple):
    """What a placement of this cycle took: shares by container, and how to give them back."""

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

    def usages(self, *, future: bool) -> list[Usage]:
        """Usages that a placement has to fit: an allocated task leaves what is promised to pipelined ones."""
        if self.later is None:
            return [self.now]
        return [self.later] if future else [self.now, self.later]

    def fits(
        self, demand: Demand, shape: Shape, rows: Rows, *, future: bool, without: Mask | None = None
    ) -> Picked:
        allowed = self.allowed(shape)[rows]
        if without is not None:
            allowed &= ~without
        return pick(self.table, self.usages(future=future), rows, demand, allowed)

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

    def repeats(self, demand: Demand) -> bool:
        """Whether it can be computed how many pods with this demand fit on a node."""
        return demand.single and not self.table.has_instances

    def score(self, demand: Demand, shape: Shape, rows: Rows, copy: Ints) -> Vector:
        """Score of nodes by the policy, with `copy` more pods of this demand on them."""
        table = self.table
        allowed = self.allowed(shape)[rows]
        if self.kind.policy == SPREAD:
            unused = (allowed & (self.now.users[rows] == 0)).sum(axis=1)
            left = np.maximum(unused - copy * demand.parts[0].number, 0)
            spread: Vector = 100.0 * left / np.maximum((table.capacity.memory[rows] > 0).sum(axis=1), 1)
            return spread
        if self.kind.policy != BINPACK:
            return np.zeros(len(rows))
        if self.repeats(demand):
            usages = self.usages(future=False)
            room = copies(table, usages, rows, demand, allowed)
            return score_of_copy(table, usages[0], rows, demand, room, copy)
        picked = pick(table, self.usages(future=False), rows, demand, allowed)
        found: Vector = np.where(picked.enough, picked.score, 0.0)
        if demand.connected:
            found += 10.0 * largest_network(table.capacity.at(rows), allowed)
        return found

    # -- changes -----------------------------------------------------------------------------------

    def take(
        self, task: Task, row: int, demand: Demand, *, pipelined: bool, without: Mask | None
    ) -> Taken | None:
        """Takes cards for a task; None, with nothing changed, when they do not suffice."""
        if pipelined:
            self.separate()
        picked = self.fits(demand, task.shape, np.array((row,)), future=pipelined, without=without)
        if not picked.enough[0]:
            return None
        shares = self._shares(row, demand, picked, future=pipelined)
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
        arrays = [*self.now.arrays, *(self.later.arrays if self.later is not None else ())]
        for mark in self.marks.values():
            arrays += (mark.now, mark.later)
        saved = [(array, array[row].copy()) for array in arrays]
        separate = self.later is not None

        def restore() -> None:
            for array, line in saved:
                array[row] = line
            if not separate and self.later is not None:
                for array, line in zip(self.later.arrays, self.now.arrays, strict=True):
                    array[row] = line[row]

        return restore

    def _shares(
        self, row: int, demand: Demand, picked: Picked, *, future: bool
    ) -> tuple[tuple[Share, ...], ...]:
        """The shares that were chosen on a row, with the ids of MIG instances."""
        cards, usage = self.table.cards[row], self.usages(future=future)[0]
        states: dict[int, int] = {}
        found = []
        for part, columns, memory in zip(demand.parts, picked.cards, picked.memory, strict=True):
            shares = []
            for column, amount in zip(columns[0].tolist(), memory[0].tolist(), strict=True):
                card = cards[column]
                uuid = card.uuid
                if card.geometry:
                    state = states.get(column, int(usage.state[row, column]))
                    need = part.memory if not part.percent else card.memory * part.percent // 100
                    choice = self.table.states.choice(need, state)
                    uuid, states[column] = mig_id(card.uuid, choice.group, choice.position), choice.after
                shares.append(Share(uuid, amount, part.cores))
            found.append(tuple(shares))
        return tuple(found)

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
