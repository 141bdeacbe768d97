"""Plans of reservations: the earliest time at which a gang fits on the nodes, and the nodes to keep for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from volcano.model.hypernodes.view import TopologyView
from volcano.model.resources import STEP, Mask, Vector
from volcano.scheduler.engine.node_table import Rows
from volcano.scheduler.plugins.reservation.timeline import Timeline, fitting

MOST_TIMES = 64  # looked at for a gang behind other reservations
MOST_DOMAINS = 8  # with enough room that are tried at one time
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Need:
    """Tasks of one shape that a gang needs to start, and the nodes that their filters let pass."""

    request: Vector
    count: int
    nodes: Mask

    def signature(self) -> list[float]:
        found: list[float] = [float(self.count), *self.request.tolist()]
        return found


@dataclass(slots=True)
class GangReservation:
    """Resources kept on nodes for a gang from `start` on; at once (`start` is the time of the plan) without a
    known start."""

    job: str
    start: float
    rows: Rows
    amounts: Vector  # (rows, resources)
    known: bool = True  # whether the start follows from known ends
    end: float = NEVER  # of the gang, from its walltime
    signature: list[Any] = field(default_factory=list)
    # Free at the start beside all reservations, on `rows`; less what is placed in this cycle and runs beyond the start.
    room: Vector = field(default_factory=lambda: np.empty((0, 0)))
    # By node: index in `rows`, or -1.
    position: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def is_active(self, time: float) -> bool:
        """Whether its resources are in use, or kept, at a time."""
        return (self.start <= time or not self.known) and time < self.end


def less_reserved(free: Vector, others: Sequence[GangReservation], time: float) -> Vector:
    """Free resources that reservations leave at a time; changes `free`."""
    for other in others:
        if other.is_active(time):
            free[other.rows] -= other.amounts
    return free


@dataclass(frozen=True, slots=True)
class Domains:
    """Domains of the network topology: a gang has to fit in one of them."""

    topology: TopologyView
    numbers: Rows


@dataclass(frozen=True, slots=True)
class Search:
    """The search for the start of one gang: what it needs, for how long, beside which other reservations."""

    needs: Sequence[Need]
    timeline: Timeline
    others: Sequence[GangReservation]
    duration: float = NEVER
    domains: Domains | None = None

    def earliest(self) -> tuple[float, Rows, Vector] | None:
        """The earliest start that delays no other reservation, with nodes and amounts; None when known ends do not
        make enough room."""
        timeline, others = self.timeline, self.others
        order = self._busy_first()
        times = np.concatenate(([timeline.now], timeline.times))
        if others:
            ends = [other.end for other in others if timeline.now < other.end < NEVER]
            times = np.unique(np.concatenate((times, ends)))
            if len(times) > MOST_TIMES:
                picked = np.unique(np.linspace(0, len(times) - 1, MOST_TIMES).astype(np.intp))
                times = times[picked]
            checkpoints = [
                (other.start, less_reserved(timeline.free_at(other.start), others, other.start))
                for other in others
            ]
            for time in times.tolist():
                found = self.assign(self._available(time, checkpoints), order)
                if found is not None:
                    return time, *found
            return None
        # Free resources only grow with time: the first time that is enough is found by bisection.
        last = self.assign(timeline.free_at(float(times[-1])), order)
        if last is None:
            return None
        low, high, best = 0, len(times) - 1, last
        while low < high:
            middle = (low + high) // 2
            found = self.assign(timeline.free_at(float(times[middle])), order)
            if found is None:
                low = middle + 1
            else:
                high, best = middle, found
        return float(times[high]), *best

    def _available(self, time: float, checkpoints: Sequence[tuple[float, Vector]]) -> Vector:
        """Least free resources from a time on until the gang ends, beside other reservations."""
        found = less_reserved(self.timeline.free_at(time), self.others, time)
        for start, later in checkpoints:
            if time < start < time + self.duration:
                np.minimum(found, later, out=found)
        return found

    def _busy_first(self) -> Rows:
        """Nodes in the order in which they are kept: those with the least room now first, so that others can use the
        rest until the gang starts."""
        return np.argsort(fitting(self.timeline.free_now(), self.needs[0].request), kind="stable")

    def idle_first(self) -> Rows:
        """Nodes in the order in which they are kept without a known start: those with the most room now first."""
        return np.argsort(-fitting(self.timeline.free_now(), self.needs[0].request), kind="stable")

    def assign(self, free: Vector, order: Rows) -> tuple[Rows, Vector] | None:
        """Nodes, in the order given, with enough free resources, and what is used of each; None when too few have."""
        if self.domains is None:
            return assign(self.needs, free, order)
        topology, largest = self.domains.topology, max(self.needs, key=lambda need: need.count)
        counts = np.where(largest.nodes, fitting(free, largest.request), 0)
        enough = topology.sums(np.minimum(counts, largest.count)) >= largest.count
        for number in self.domains.numbers[enough[self.domains.numbers]][:MOST_DOMAINS].tolist():
            inside = topology.mask(number)
            found = assign([replace(need, nodes=need.nodes & inside) for need in self.needs], free, order)
            if found is not None:
                return found
        return None


def assign(needs: Sequence[Need], free: Vector, order: Rows) -> tuple[Rows, Vector] | None:
    """As `Search.assign`, wherever the filters of the tasks allow."""
    free = free.copy()
    taken = np.zeros_like(free)
    for need in needs:
        counts = np.where(need.nodes, np.minimum(fitting(free, need.request), need.count), 0)
        rows = order[counts[order] > 0]
        sums = np.cumsum(counts[rows])
        if not len(sums) or sums[-1] < need.count:
            return None
        last = int(np.searchsorted(sums, need.count))
        rows, used = rows[: last + 1], counts[rows[: last + 1]]
        used[-1] -= sums[last] - need.count
        amounts = used[:, None] * need.request
        free[rows] -= amounts
        taken[rows] += amounts
    rows = np.flatnonzero(taken.any(axis=1))
    return rows, taken[rows]


def fits_still(reservation: GangReservation, free: Vector, needs: Sequence[Need]) -> bool:
    """Whether the nodes of an earlier plan can still take the gang, with these free resources."""
    if reservation.signature != [need.signature() for need in needs]:
        return False
    passed = np.logical_or.reduce([need.nodes for need in needs])
    if not passed[reservation.rows].all():
        return False
    return bool((free[reservation.rows] + STEP >= reservation.amounts).all())
