"""Forecast: one possible future of a cluster, from drawn run times: which waiting job starts when."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import STEP, Mask, Vector

Rows = NDArray[np.intp]
Start = tuple[
    float, str, bool
]  # time, job whose end made it possible, whether run times of finished jobs matter
MOST_EVENTS = 20_000
OVERDUE = 60.0  # seconds after now in which a job ends at the latest that runs longer than any before
SHORTEST = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds resources: amounts on rows, and the run times to draw from; None when nothing is known."""

    uid: str
    rows: Rows
    amounts: Vector
    started: float
    limit: float | None
    times: Vector | None
    by_history: bool
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits: request, count and possible nodes of its pods by shape, and its run times."""

    uid: str
    needs: Sequence[tuple[Vector, int, Mask]]
    limit: float | None
    times: Vector | None
    by_history: bool
    queue: str = ""
    rejected: bool = False  # the scheduler does not start it now

    @property
    def total(self) -> Vector:
        """What its pods request together."""
        found: Vector = np.sum([count * request for request, count, _ in self.needs], axis=0)
        return found


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What queues may take beside what they hold now, for those that have a capability."""

    room: Mapping[str, Vector] = field(default_factory=dict)  # infinite where nothing limits it
    limited_by: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # a queue → it and those above in `room`
    in_order: frozenset[str] = frozenset()  # queues in which no job passes another one


@dataclass(order=True, slots=True)
class _End:
    time: float
    uid: str = field(compare=False)
    rows: Rows = field(compare=False)
    amounts: Vector = field(compare=False)
    latest: float = field(compare=False)  # by its walltime
    by_history: bool = field(compare=False)
    queue: str = field(compare=False)


class Forecast:
    """Draws futures: jobs start in order as soon as they fit; others pass a job that does not fit, with `reserving`
    only if they do not delay the first one that waits."""

    def __init__(
        self,
        free: Vector,
        running: Sequence[Running],
        waiting: Sequence[Waiting],
        now: float,
        *,
        reserving: bool,
        limits: QueueLimits | None = None,
    ) -> None:
        self._free = free
        self._running = running
        self._waiting = waiting
        self._now = now
        self._reserving = reserving
        self._limits = limits or QueueLimits()

    def draw(self, random: np.random.Generator) -> dict[int, Start]:
        """Starts of the waiting jobs, by their position; those that do not start are absent."""
        future = _Future(self._free.copy(), self._waiting, self._now, self._reserving, random, self._limits)
        return future.run(self._running)

    def fits_now(self) -> frozenset[int]:
        """Positions of the jobs for which enough is free and which their queues may take, each on its own."""
        random = np.random.default_rng(0)
        future = _Future(self._free, self._waiting, self._now, False, random, self._limits)
        return frozenset(number for number in range(len(self._waiting)) if future.fits(number))


class _Future:
    def __init__(
        self,
        free: Vector,
        waiting: Sequence[Waiting],
        now: float,
        reserving: bool,
        random: np.random.Generator,
        limits: QueueLimits,
    ) -> None:
        self._free = free
        self._limits = limits
        self._room = {name: room.copy() for name, room in limits.room.items()}
        self._requests = [job.total for job in waiting] if limits.room else []
        self._jobs = waiting
        self._now = now
        self._reserving = reserving
        self._random = random
        self._ends: list[_End] = []
        self._starts: dict[int, Start] = {}
        self._left = list(range(len(waiting)))
        self._by_history = False
        # Pods of each distinct need that fit, by row; updated when rows change.
        self._needs: list[tuple[Vector, Mask]] = []
        self._need_of: list[list[tuple[int, int]]] = []  # by job: number of the need, count
        known: dict[tuple[bytes, bytes], int] = {}
        for job in waiting:
            parts = []
            for request, count, nodes in job.needs:
                key = (request.tobytes(), nodes.tobytes())
                if key not in known:
                    known[key] = len(self._needs)
                    self._needs.append((request, nodes))
                parts.append((known[key], count))
            self._need_of.append(parts)
        self._counts = [np.where(nodes, fitting(free, request), 0) for request, nodes in self._needs]
        self._totals = [int(counts.sum()) for counts in self._counts]

    def run(self, running: Sequence[Running]) -> dict[int, Start]:
        for job in running:
            end = self._drawn_end(job)
            if end is not None:
                latest = math.inf if job.limit is None else job.started + job.limit
                heapq.heappush(
                    self._ends, _End(end, job.uid, job.rows, job.amounts, latest, job.by_history, job.queue)
                )
        self._place(self._now, "", first=True)
        for _ in range(MOST_EVENTS):
            if not self._ends or len(self._starts) == len(self._jobs):
                break
            first = heapq.heappop(self._ends)
            self._release(first)
            while self._ends and self._ends[0].time <= first.time:
                self._release(heapq.heappop(self._ends))
            self._place(first.time, first.uid)
        return self._starts

    def _drawn_end(self, job: Running) -> float | None:
        """End of a running job: one of the run times that are longer than it has run already."""
        if job.times is None:
            return None
        elapsed = self._now - job.started
        longer = job.times[job.times > elapsed]
        if len(longer):
            return job.started + float(self._random.choice(longer))
        longest = elapsed + OVERDUE if job.limit is None else max(job.limit, elapsed + SHORTEST)
        return job.started + float(self._random.uniform(elapsed, longest))

    def _release(self, end: _End) -> None:
        np.add.at(self._free, end.rows, end.amounts)
        for name in self._limits.limited_by.get(end.queue, ()):
            self._room[name] += end.amounts.sum(axis=0)
        self._by_history = self._by_history or end.by_history
        self._refresh(np.unique(end.rows))

    def _refresh(self, rows: Rows) -> None:
        for number, (request, nodes) in enumerate(self._needs):
            counts = self._counts[number]
            new = np.where(nodes[rows], fitting(self._free[rows], request), 0)
            self._totals[number] += int(new.sum() - counts[rows].sum())
            counts[rows] = new

    def _place(self, now: float, cause: str, *, first: bool = False) -> None:
        """Starts all jobs that may start now, in order; the `first` time none that the scheduler rejects."""
        closed: set[str] = set()
        blocked: int | None = None
        shadow: tuple[float, float] | None = None  # computed when a job could pass the blocked one
        for number in self._left:
            queue = self._jobs[number].queue
            if queue in closed:
                continue
            if (first and self._jobs[number].rejected) or not self.fits(number):
                if queue in self._limits.in_order:
                    closed.add(queue)
                if blocked is None and self._reserving and self._may_take(number):
                    blocked = number
                continue
            if blocked is not None:
                at, extra = shadow = shadow or self._shadow(blocked)
                limit = self._jobs[number].limit
                # Without a known start, nodes are kept back for the blocked job: no other may pass it.
                if math.isinf(at) or limit is None or now + limit > at:
                    used = self._used(number, blocked)
                    if used > extra:
                        continue
                    shadow = at, extra - used
            self._start(number, now, cause)
        self._left = [number for number in self._left if number not in self._starts]

    def fits(self, number: int) -> bool:
        """Whether enough is free for a job, and its queue may take it."""
        enough = all(self._totals[need] >= count for need, count in self._need_of[number])
        return enough and self._may_take(number)

    def _may_take(self, number: int) -> bool:
        """Whether the queues of a job stay within their capability with it."""
        for name in self._limits.limited_by.get(self._jobs[number].queue, ()):
            request = self._requests[number]
            if ((request > self._room[name] + STEP) & (request > 0)).any():
                return False
        return True

    def _shadow(self, number: int) -> tuple[float, float]:
        """When a blocked job starts at the latest by known walltimes, and how many more of its pods fit then."""
        need, count = max(self._need_of[number], key=lambda part: part[1])
        request, _ = self._needs[need]
        total = float(self._totals[need])
        for end in sorted(self._ends, key=lambda each: each.latest):
            if math.isinf(end.latest):
                break
            total += _in_units(end.amounts, request)
            if total >= count:
                return end.latest, total - count
        return math.inf, 0.0

    def _used(self, number: int, blocked: int) -> float:
        """What a job takes, in pods of the blocked one."""
        need, _ = max(self._need_of[blocked], key=lambda part: part[1])
        request, _ = self._needs[need]
        return sum(
            _in_units(np.tile(self._needs[own][0], (count, 1)), request)
            for own, count in self._need_of[number]
        )

    def _start(self, number: int, now: float, cause: str) -> None:
        job = self._jobs[number]
        rows, amounts = [], []
        for need, count in self._need_of[number]:
            request, _ = self._needs[need]
            counts = self._counts[need]
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
        for name in self._limits.limited_by.get(job.queue, ()):
            self._room[name] -= self._requests[number]
        if job.times is not None:
            seconds = float(self._random.choice(job.times))
            latest = math.inf if job.limit is None else now + job.limit
            held = np.array(rows, dtype=np.intp)
            end = _End(now + seconds, job.uid, held, np.array(amounts), latest, job.by_history, job.queue)
            heapq.heappush(self._ends, end)

    def _undo(self, rows: list[int], amounts: list[Vector]) -> None:
        held = np.array(rows, dtype=np.intp)
        np.add.at(self._free, held, np.array(amounts))
        self._refresh(np.unique(held))


def _in_units(amounts: Vector, request: Vector) -> float:
    """How many pods with a request the amounts on some rows make room for."""
    wanted = request > 0
    shares = amounts[:, wanted] / request[wanted]
    return float(shares.min(axis=1).sum())


def fitting(free: Vector, request: Vector) -> Rows:
    """How many pods with this request fit on each row."""
    columns = np.flatnonzero(request > 0)
    least = ((free[:, columns] + STEP) / request[columns]).min(axis=1)
    found: Rows = np.maximum(np.ceil(least) - 1, 0).astype(np.intp)
    return found
