"""Futures of a cluster, from drawn run times: which waiting job starts when."""

import bisect
import heapq
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from volcano.analysis.estimate.forecast_input import NONE, Arrivals, Rows, Rules, Running, Waiting
from volcano.analysis.estimate.run_times import Draws
from volcano.model.resources import STEP, Mask, Vector
from volcano.scheduler.plugins.reservation import Need, assign, fitting

MOST_EVENTS, EVENTS_PER_JOB = 400, 4  # in one future: so many, and for each job that waits
SHORTEST = 1.0
BETTER = 1.0  # seconds by which another plan of a reservation has to be earlier

Amounts = list[tuple[int, float]]  # column of the resource, amount
# Time, job whose end made it possible, whether run times of finished jobs matter.
Start = tuple[float, str, bool]


@dataclass(order=True, slots=True)
class _End:
    time: float
    uid: str = field(compare=False)
    rows: Rows = field(compare=False)
    amounts: Vector = field(compare=False)
    latest: float = field(compare=False)  # by its walltime
    by_history: bool = field(compare=False)
    queue: str = field(compare=False)


@dataclass(slots=True)
class _Kept:
    """Nodes kept for a job from `start` on; at once without a known start."""

    number: int
    start: float
    known: bool
    rows: Rows
    amounts: Vector


class Future:
    """Jobs are admitted and start in order as soon as they may; others pass a job that does not fit, unless nodes are
    kept for it that they would use for too long."""

    def __init__(
        self,
        free: Vector,
        waiting: Sequence[Waiting],
        now: float,
        rules: Rules,
        arrivals: Arrivals,
        random: np.random.Generator,
    ) -> None:
        """`free` belongs to the future."""
        self._free = free
        self._jobs: list[Waiting] = []
        self._arrivals = arrivals
        self._next_arrival = now
        self._now = now
        self._rules = rules
        # Generators of their own: the run times of jobs do not depend on how many others arrive.
        self._random, for_run_times = random.spawn(2)
        self._draws = Draws(for_run_times)
        # Few numbers that are looked at often: lists are faster than arrays.
        self._room: dict[str, list[float]] = {name: room.tolist() for name, room in rules.room.items()}
        self._open: dict[str, list[float]] = {
            name: (room - rules.promised.get(name, 0.0)).tolist() for name, room in rules.room.items()
        }
        if rules.admissible is not None:
            self._open[""] = rules.admissible.tolist()
        self._requests: list[Amounts] = []
        self._minimums: list[Amounts] = []
        self._admitted: list[bool] = []
        self._rank: list[float] = []  # jobs with a lower one go first
        self._ends: list[_End] = []
        self._starts: dict[int, Start] = {}
        self._left: list[int] = []  # those that wait, in order
        self._by_history = False
        self._kept: list[_Kept] = []
        self._remembered: dict[tuple[tuple[int, ...], int], tuple[Rows, int]] = {}
        # Pods of each distinct need that fit, by row; updated when rows change.
        self._needs: list[tuple[Vector, Mask]] = []
        self._need_of: list[list[tuple[int, int]]] = []  # by job: number of the need, count
        self._counts: list[Rows] = []
        self._totals: list[int] = []
        self._known_needs: dict[tuple[bytes, bytes], int] = {}
        for job in waiting:
            self._enter(job, float(len(self._jobs)))
        self._first_of_arrivals = [self._rank_of_arrival(each.priority) for each in arrivals.examples]
        # Neither the rate of arrivals nor their kinds are known exactly: each future has its own.
        count = len(arrivals.examples)
        self._rate = arrivals.rate * float(self._random.gamma(count)) / count if count else 0.0
        self._selected = self._random.integers(count, size=count) if count else np.empty(0, dtype=np.intp)
        # Gangs that were admitted although others hold the resources.
        self._permitted = (
            {n for n in self._left if self._admitted[n] and not self.fits(n)} if rules.reservations else set()
        )

    def _enter(self, job: Waiting, rank: float) -> None:
        """Adds a job to those that wait."""
        number = len(self._jobs)
        self._jobs.append(job)
        self._rank.append(rank)
        self._requests.append(_amounts(job.total))
        self._minimums.append([] if job.minimum is None else _amounts(job.minimum))
        self._admitted.append(job.admitted or job.minimum is None or self._rules.admissible is None)
        self._need_of.append([(self._need(request, nodes), count) for request, count, nodes in job.needs])
        bisect.insort(self._left, number, key=self._rank.__getitem__)

    def _need(self, request: Vector, nodes: Mask) -> int:
        """Number of a distinct request on distinct nodes."""
        key = (request.tobytes(), nodes.tobytes())
        found = self._known_needs.get(key)
        if found is None:
            found = self._known_needs[key] = len(self._needs)
            self._needs.append((request, nodes))
            self._counts.append(np.where(nodes, fitting(self._free, request), 0))
            self._totals.append(int(self._counts[-1].sum()))
        return found

    def _rank_of_arrival(self, priority: int) -> float:
        """Where jobs of a priority that arrive go: before the jobs of lower priority that wait."""
        return next(
            (n - 0.5 for n, job in enumerate(self._jobs) if job.priority < priority), float(len(self._jobs))
        )

    # -- events -------------------------------------------------------------------------------------------------------

    def run(self, running: Sequence[Running], wanted: Collection[int] | None = None) -> dict[int, Start]:
        """Starts of the jobs that wait, by their position; ends when the wanted ones have started."""
        sought = set(self._left if wanted is None else wanted)
        for job in running:
            end = self._drawn_end(job)
            if end is not None:
                latest = math.inf if job.limit is None else job.started + job.limit
                made = _End(end, job.uid, job.rows, job.amounts, latest, _by_history(job), job.queue)
                heapq.heappush(self._ends, made)
        self._place(self._now, "", first=True)
        self._next_arrival = self._later(self._now)
        for _ in range(MOST_EVENTS + EVENTS_PER_JOB * len(self._jobs)):
            if not self._ends or sought <= self._starts.keys():
                break
            if self._next_arrival < self._ends[0].time:
                self._arrive(self._next_arrival)
                continue
            first = heapq.heappop(self._ends)
            self._release(first)
            while self._ends and self._ends[0].time <= first.time:
                self._release(heapq.heappop(self._ends))
            self._place(first.time, first.uid)
        return self._starts

    def _later(self, now: float) -> float:
        """When the next job arrives."""
        return now + float(self._random.exponential(1 / self._rate)) if self._rate else math.inf

    def _arrive(self, now: float) -> None:
        """One more job waits; only it can start, because nothing else changed."""
        index = int(self._selected[self._random.integers(len(self._selected))])
        example = replace(self._arrivals.examples[index], created=now)
        self._enter(example, self._first_of_arrivals[index] + 1e-6 * len(self._jobs))
        self._next_arrival = self._later(now)
        self._place(now, "", only=len(self._jobs) - 1)

    def _drawn_end(self, job: Running) -> float | None:
        if job.expected is None:
            return None
        elapsed = max(self._now - job.started, 0.0)
        return job.started + self._draws.run_time_after(elapsed, job.expected, job.limit)

    def _release(self, end: _End) -> None:
        np.add.at(self._free, end.rows, end.amounts)
        amounts = _amounts(end.amounts.sum(axis=0))
        for name in self._rules.limited_by.get(end.queue, NONE):
            _add(self._room[name], amounts)
            _add(self._open[name], amounts)
        if "" in self._open:
            _add(self._open[""], amounts)
        self._by_history = self._by_history or end.by_history
        self._refresh(np.unique(end.rows))

    def _refresh(self, rows: Rows) -> None:
        for number, (request, nodes) in enumerate(self._needs):
            counts = self._counts[number]
            new = np.where(nodes[rows], fitting(self._free[rows], request), 0)
            self._totals[number] += int(new.sum() - counts[rows].sum())
            counts[rows] = new

    # -- admission ----------------------------------------------------------------------------------------------------

    def _admit(self, numbers: Sequence[int]) -> None:
        """Admits jobs in order while what was admitted fits, and as many others as get reservations."""
        closed: set[str] = set()
        for number in numbers:
            job = self._jobs[number]
            if self._admitted[number] or job.queue in closed:
                continue
            wanted = self._minimums[number]
            limits = (*self._rules.limited_by.get(job.queue, NONE), "")
            if not all(_within(wanted, self._open[name]) for name in limits):
                if len(self._permitted) >= self._rules.reservations or not self._may_take(number):
                    if job.queue in self._rules.in_order:
                        closed.add(job.queue)
                    continue
                self._permitted.add(number)
            self._admitted[number] = True
            for name in limits:
                _add(self._open[name], wanted, -1.0)

    # -- starts -------------------------------------------------------------------------------------------------------

    def _place(self, now: float, cause: str, *, first: bool = False, only: int | None = None) -> None:
        """Starts all jobs that may start now, in order; the `first` time none that the scheduler rejects. With `only`,
        this one, because nothing changed for the others."""
        candidates = self._left if only is None or self._concerns_others(only) else [only]
        self._admit(candidates)
        self._remembered.clear()
        closed: set[str] = set()
        current: set[int] = set()  # jobs whose reservation was planned for this time
        for number in candidates:
            job = self._jobs[number]
            if not self._admitted[number] or job.queue in closed:
                continue
            if (first and job.rejected) or not self._fits_beside(number, now, current):
                if job.queue in self._rules.in_order:
                    closed.add(job.queue)
                if len(self._kept) < self._rules.reservations and all(k.number != number for k in self._kept):
                    self._keep(number, now, current)
                continue
            self._start(number, now, cause)
        self._left = [number for number in self._left if number not in self._starts]

    def _concerns_others(self, number: int) -> bool:
        """Whether jobs before one that arrived have to be looked at: no job passes another one in its queue, or nodes
        may have to be kept for them by now."""
        return self._jobs[number].queue in self._rules.in_order or len(self._kept) < self._rules.reservations

    def fits(self, number: int) -> bool:
        """Whether enough is free for a job, and its queue may take it."""
        totals = self._totals
        for need, count in self._need_of[number]:
            if totals[need] < count:
                return False
        return self._may_take(number)

    def _may_take(self, number: int) -> bool:
        """Whether the queues of a job stay within their capability with it."""
        limits = self._rules.limited_by.get(self._jobs[number].queue, NONE)
        return all(_within(self._requests[number], self._room[name]) for name in limits)

    def _fits_beside(self, number: int, now: float, current: set[int]) -> bool:
        """Whether a job fits, and on nodes that are not kept for others as long as it runs."""
        if not self.fits(number):
            return False
        others = [kept for kept in self._kept if self._rank[kept.number] < self._rank[number]]
        if not others:
            return True
        applying = self._applying(number, now, others, current)
        return all(self._beside(applying, need)[1] >= count for need, count in self._need_of[number])

    def _applying(self, number: int, now: float, others: Sequence[_Kept], current: set[int]) -> list[_Kept]:
        """Reservations of others that a job would outlast, planned for this time."""
        limit = self._jobs[number].limit
        for kept in others:
            if kept.number not in current:
                self._plan_again(kept, now)
                current.add(kept.number)
        return [kept for kept in others if not kept.known or limit is None or now + limit > kept.start]

    def _beside(self, applying: Sequence[_Kept], need: int) -> tuple[Rows, int]:
        """Pods of a need that fit beside reservations, by row and in all; remembered until something changes."""
        key = (tuple(kept.number for kept in applying), need)
        found = self._remembered.get(key)
        if found is None:
            counts = self._counts[need].copy()
            for kept in applying:
                free = (self._free_at(kept.start) if kept.known else self._free)[kept.rows]
                room = fitting(free - kept.amounts, self._needs[need][0])
                counts[kept.rows] = np.minimum(counts[kept.rows], room)
            found = self._remembered[key] = counts, int(counts.sum())
        return found

    def _start(self, number: int, now: float, cause: str) -> None:
        job = self._jobs[number]
        others = [kept for kept in self._kept if self._rank[kept.number] < self._rank[number]]
        applying = self._applying(number, now, others, {kept.number for kept in others})
        allowed = {need: self._beside(applying, need)[0] for need, _ in self._need_of[number]}
        self._remembered.clear()
        rows, amounts = [], []
        for need, count in self._need_of[number]:
            request, _ = self._needs[need]
            counts = np.minimum(self._counts[need], allowed[need])
            left = count
            order = np.flatnonzero(counts)
            for row in order[np.argsort(counts[order], kind="stable")].tolist():
                taken = min(int(counts[row]), left)
                rows.append(row)
                amounts.append(taken * request)
                self._free[row] -= taken * request
                left -= taken
                if not left:
                    break
            self._refresh(np.array(sorted(set(rows)), dtype=np.intp))
            if left:  # pods of another shape of the job took the room
                self._undo(rows, amounts)
                return
        self._starts[number] = (now, cause, self._by_history)
        self._kept = [kept for kept in self._kept if kept.number != number]
        self._permitted.discard(number)
        for name in self._rules.limited_by.get(job.queue, NONE):
            _add(self._room[name], self._requests[number], -1.0)
        if job.expected is not None:
            seconds = self._draws.run_time(job.expected, job.limit)
            latest = math.inf if job.limit is None else now + job.limit
            held = np.array(rows, dtype=np.intp)
            end = _End(now + seconds, job.uid, held, np.array(amounts), latest, _by_history(job), job.queue)
            heapq.heappush(self._ends, end)

    def _undo(self, rows: list[int], amounts: list[Vector]) -> None:
        held = np.array(rows, dtype=np.intp)
        np.add.at(self._free, held, np.array(amounts))
        self._refresh(np.unique(held))

    # -- reservations -------------------------------------------------------------------------------------------------

    def _keep(self, number: int, now: float, current: set[int]) -> None:
        """Keeps nodes for a job that does not fit: from known ends, or because it has waited for too long."""
        if not self._may_take(number):
            return
        found = self._plan(number, now)
        if found is None and now >= self._jobs[number].created + self._rules.starvation:
            found = self._hold_back(number, now)
        if found is not None:
            self._kept.append(found)
            self._kept.sort(key=lambda kept: self._rank[kept.number])
            current.add(number)

    def _plan_again(self, kept: _Kept, now: float) -> None:
        """Moves a reservation if an earlier start is possible by now."""
        self._remembered.clear()
        new = self._plan(kept.number, now)
        expired = kept.known and kept.start <= now
        if new is None and expired:
            new = self._hold_back(kept.number, now)
        if new is not None and (not kept.known or expired or new.start < kept.start - BETTER):
            kept.start, kept.known, kept.rows, kept.amounts = new.start, new.known, new.rows, new.amounts

    def _plan(self, number: int, now: float) -> _Kept | None:
        """Nodes for a job at the earliest time at which known ends make enough room."""
        ends = sorted((end for end in self._ends if end.latest < math.inf), key=lambda end: end.latest)
        if not ends:
            return None
        lengths = np.cumsum([len(end.rows) for end in ends])
        rows, amounts = (
            np.concatenate([end.rows for end in ends]),
            np.concatenate([end.amounts for end in ends]),
        )
        needs = self._shapes(number)
        order = np.argsort(self._counts[self._need_of[number][0][0]], kind="stable")  # the busiest first

        def fits_after(position: int) -> tuple[Rows, Vector] | None:
            free = self._free.copy()
            np.add.at(free, rows[: lengths[position]], amounts[: lengths[position]])
            return assign(needs, free, order)

        low, high = 0, len(ends) - 1
        best = fits_after(high)
        if best is None:
            return None
        while low < high:
            middle = (low + high) // 2
            found = fits_after(middle)
            if found is None:
                low = middle + 1
            else:
                high, best = middle, found
        return _Kept(number, max(ends[high].latest, now + SHORTEST), True, *best)

    def _hold_back(self, number: int, now: float) -> _Kept | None:
        if self._rules.possible is None:
            return None
        order = np.argsort(-self._counts[self._need_of[number][0][0]], kind="stable")  # the idlest first
        found = assign(self._shapes(number), self._rules.possible, order)
        return None if found is None else _Kept(number, now, False, *found)

    def _shapes(self, number: int) -> list[Need]:
        return [
            Need(self._needs[need][0], count, self._needs[need][1]) for need, count in self._need_of[number]
        ]

    def _free_at(self, time: float) -> Vector:
        """Free on each row when all jobs with a walltime have ended that end until a time."""
        free = self._free.copy()
        for end in self._ends:
            if end.latest <= time:
                np.add.at(free, end.rows, end.amounts)
        return free


def _by_history(job: Running | Waiting) -> bool:
    return job.expected is not None and job.expected.by_history


def _amounts(vector: Vector) -> Amounts:
    return [(column, amount) for column, amount in enumerate(vector.tolist()) if amount > 0]


def _within(amounts: Amounts, room: Sequence[float]) -> bool:
    return all(amount <= room[column] + STEP for column, amount in amounts)


def _add(room: list[float], amounts: Amounts, sign: float = 1.0) -> None:
    for column, amount in amounts:
        room[column] += sign * amount


class Forecast:
    """Draws futures of one state of a cluster."""

    def __init__(
        self,
        free: Vector,
        running: Sequence[Running],
        waiting: Sequence[Waiting],
        now: float,
        rules: Rules,
        arrivals: Arrivals | None = None,
    ) -> None:
        self._free = free
        self._running = running
        self._waiting = waiting
        self._now = now
        self._rules = rules
        self._arrivals = arrivals or Arrivals()

    def draw(self, random: np.random.Generator, wanted: Collection[int] | None = None) -> dict[int, Start]:
        """Starts of the waiting jobs, by their position; those that do not start are absent. Ends early when the wanted
        ones have started."""
        return self._future(random).run(self._running, wanted)

    def fits_now(self) -> frozenset[int]:
        """Positions of the jobs for which enough is free and which their queues may take, each on its own."""
        future = self._future(np.random.default_rng(0))
        return frozenset(number for number in range(len(self._waiting)) if future.fits(number))

    def _future(self, random: np.random.Generator) -> Future:
        return Future(self._free.copy(), self._waiting, self._now, self._rules, self._arrivals, random)
