"""Reservation book: the reservations of one cycle, made for gangs that wait and taken over from the last cycle."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from volcano.model.annotations.walltime import run_limit, walltime
from volcano.model.job import Job
from volcano.model.resources import Vector
from volcano.model.status import READY, Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import Memory
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.surplus import role_minimums
from volcano.scheduler.plugins.reservation.limits import exceeds_capability
from volcano.scheduler.plugins.reservation.plan import (
    NEVER,
    Domains,
    GangReservation,
    Need,
    Search,
    fits_still,
    less_reserved,
)
from volcano.scheduler.plugins.reservation.timeline import OVERDUE, Timeline
from volcano.scheduler.plugins.reservation.windows import Windows

BETTER = 1.0  # seconds by which another plan has to be earlier
REPLAN = 60.0  # seconds after which a plan behind others is made again


class ReservationBook:
    """At most `depth` reservations, in the order of their gangs; one that goes before takes the place of the last."""

    def __init__(
        self, session: Session, depth: int, starvation: float, remembered: Iterable[Mapping[str, Any]]
    ) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._depth = depth
        self._starvation = starvation
        self._made: Timeline | None = None
        self._made_at = -1
        self._starving_at = NEVER  # when the next gang will have waited for too long
        self._planned: dict[str, float] = {}
        self.reservations: list[GangReservation] = []
        for kept in remembered:
            job = self._snapshot.jobs.get(kept["job"])
            if job is not None and not session.policy.job_ready(job):
                self._take_over(job, kept)

    @cached_property
    def windows(self) -> Windows:
        return Windows(self._session)

    @property
    def _timeline(self) -> Timeline:
        """Free resources over time, with what was placed in this cycle so far."""
        touched = len(self._session.ledger.touched)
        if self._made is None or self._made_at != touched:
            self._made, self._made_at = Timeline(self._snapshot, self._session.ledger), touched
        return self._made

    # -- questions ----------------------------------------------------------------------------------------------------

    def of(self, job: Job) -> GangReservation | None:
        """The reservation of a job that still waits."""
        found = next((each for each in self.reservations if each.job == job.uid), None)
        return None if found is None or self._session.policy.job_ready(job) else found

    def before(self, job: Job | None) -> list[GangReservation]:
        """Reservations that a job must not delay: those of other gangs that wait and that it does not go before."""
        jobs, ready = self._snapshot.jobs, self._session.policy.job_ready
        found = []
        for each in self.reservations:
            gang = jobs[each.job]
            if each.job != (job.uid if job else "") and not ready(gang) and not self._goes_before(job, gang):
                found.append(each)
        return found

    def _goes_before(self, job: Job | None, gang: Job) -> bool:
        """Whether a job may delay a gang: it is ahead of it in their queue, or of higher priority in another one."""
        if job is None:
            return False
        if job.queue != gang.queue:
            return job.priority > gang.priority
        order = self._session.policy.job_order
        return bool(order(job) < order(gang))

    def room(self, reservation: GangReservation) -> Vector:
        """Free resources on the nodes of a reservation, beside all reservations, when the gang starts."""
        if reservation.known:
            return reservation.room
        now = self._snapshot.now
        ledger, rows = self._session.ledger, reservation.rows
        free = ledger.allocatable[rows] - ledger.used[rows] - ledger.pipelined[rows]
        for other in self.reservations:
            if other.is_active(now):
                _subtract(free, reservation, other)
        return free

    # -- changes ------------------------------------------------------------------------------------------------------

    def add(self, job: Job) -> None:
        """Makes a reservation for a gang that cannot start, if there is a place for one more."""
        if any(each.job == job.uid for each in self.reservations):
            return
        if len(self.reservations) >= self._depth:
            last = self._snapshot.jobs[self.reservations[-1].job]
            if not self._goes_before(job, last):
                return
            dropped = self.reservations.pop()
            for each in self.reservations:
                if each.known and dropped.is_active(each.start):
                    _subtract(each.room, each, dropped, sign=-1.0)
        needs = self._needs(job)
        found = self._plan(job, needs) or self._keep_back(job, needs)
        if found is not None:
            self._enter(found)

    def _enter(self, made: GangReservation) -> None:
        snapshot = self._snapshot
        made.position = np.full(len(snapshot.nodes), -1, dtype=np.intp)
        made.position[made.rows] = np.arange(len(made.rows))
        for each in self.reservations:
            if each.known and made.is_active(each.start):
                _subtract(each.room, each, made)
        self.reservations.append(made)
        if made.known:
            free = less_reserved(self._timeline.free_at(made.start), self.reservations, made.start)
            made.room = free[made.rows]

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Takes what was placed, and runs beyond the start of a gang, from the room beside it."""
        first = tasks[0]
        limit = run_limit(first, self._snapshot.jobs.get(first.job))
        end = NEVER if limit is None else self._snapshot.now + limit
        for reservation in self.reservations:
            if not reservation.known or end <= reservation.start or first.job == reservation.job:
                continue
            positions = reservation.position[np.asarray(rows, dtype=np.intp)]
            positions = positions[positions >= 0]
            if len(positions):
                np.subtract.at(reservation.room, positions, first.request)
                self._session.ledger.record_undo(_give_back(reservation, positions, first.request))

    # -- plans --------------------------------------------------------------------------------------------------------

    def _needs(self, job: Job) -> list[Need]:
        """Tasks that a job lacks to start, by shape, largest first; empty when its pods or queue do not allow it."""
        session = self._session
        tasks = self._missing_tasks(job)
        by_shape: dict[Shape, list[Task]] = {}
        for task in tasks:
            by_shape.setdefault(task.shape, []).append(task)
        needs = []
        total = sum((task.request for task in tasks), start=self._snapshot.resources.zeros())
        if exceeds_capability(self._snapshot, job, total):
            return []
        for shape, found in by_shape.items():
            passed = session.placer.passed(found[0], job.queue)
            if passed is None:
                return []
            allowed = passed.copy()
            if self._snapshot.node_reservations:
                allowed &= ~self.windows.kept_from(job)
            needs.append(Need(shape.request, len(found), allowed))
        return sorted(needs, key=lambda need: -float(need.request.sum()))

    def _missing_tasks(self, job: Job) -> list[Task]:
        """Pending tasks that complete the minimum: first those that roles lack, then in task order."""
        session = self._session
        pending = [
            task
            for task in job.by_status.get(Status.PENDING, ())
            if not task.gates and not task.malformed and not task.best_effort
        ]
        pending.sort(key=session.policy.task_order)
        short = session.policy.job_short(job)
        tally = session.ledger.tally(job)
        chosen: dict[str, Task] = {}
        for role, least in role_minimums(job).items():
            lacking = least - tally.count_role(role, READY)
            for task in [task for task in pending if task.role == role][: max(lacking, 0)]:
                chosen[task.uid] = task
        for task in pending:
            if len(chosen) >= short:
                break
            chosen.setdefault(task.uid, task)
        return list(chosen.values()) if len(chosen) >= short else []

    def _search(self, job: Job, needs: list[Need]) -> Search:
        topology = self._session.topology
        demand = topology.demand(job)
        limit = demand.job if demand is not None else None
        domains = None
        if limit is not None and limit.hard and not limit.problem:
            numbers = np.concatenate(topology.candidates(limit, topology.view.root, topology.held(job)))
            domains = Domains(topology.view, numbers)
        run = walltime(job)
        return Search(needs, self._timeline, list(self.reservations), NEVER if run is None else run, domains)

    def _plan(self, job: Job, needs: list[Need]) -> GangReservation | None:
        """A reservation from known ends. None when they are not enough, or when the gang should fit already: other
        constraints than resources keep it from starting then."""
        if not needs:
            return None
        search = self._search(job, needs)
        found = search.earliest()
        if found is None or found[0] <= self._snapshot.now:
            return None
        start, rows, amounts = found
        self._planned[job.uid] = self._snapshot.now
        signature = [need.signature() for need in needs]
        return GangReservation(job.uid, start, rows, amounts, True, start + search.duration, signature)

    def _keep_back(self, job: Job, needs: list[Need]) -> GangReservation | None:
        """A reservation without a known start, for a gang that has waited for too long."""
        if not needs:
            return None
        now = self._snapshot.now
        starving = self._waiting_since(job) + self._starvation
        if now < starving:
            self._starving_at = min(self._starving_at, starving)
            return None
        search = self._search(job, needs)
        others = [each for each in self.reservations if each.is_active(now)]
        if search.assign(less_reserved(self._timeline.free_now(), others, now), search.idle_first()):
            return None  # it fits: something else keeps it from starting
        found = search.assign(less_reserved(self._possible(), others, now), search.idle_first())
        if found is None:
            return None
        signature = [need.signature() for need in needs]
        return GangReservation(job.uid, now, *found, known=False, signature=signature)

    def _waiting_since(self, job: Job) -> float:
        return max((task.created for task in job.by_status.get(Status.PENDING, ())), default=job.created)

    def _possible(self) -> Vector:
        """Free resources once all pods of jobs have ended; other pods, such as those of DaemonSets, stay."""
        free = self._snapshot.allocatable.copy()
        for row, tasks in enumerate(self._snapshot.tasks_on):
            for task in tasks.values():
                if not task.job:
                    free[row] -= task.request
        return free

    # -- from cycle to cycle ------------------------------------------------------------------------------------------

    def _take_over(self, job: Job, kept: Mapping[str, Any]) -> None:
        """Enters the reservation of the last cycle again, unless an earlier start is possible now."""
        if len(self.reservations) >= self._depth:
            return
        needs = self._needs(job)
        old = self._kept(job, kept, needs)
        if old is not None and old.known and self.reservations and self._is_recent(kept):
            self._planned[job.uid] = kept["planned"]
            self._enter(old)
            return
        new = self._plan(job, needs)
        if new is None or (old is not None and old.known and old.start <= new.start + BETTER):
            new = old or new or self._keep_back(job, needs)
        if new is not None:
            self._enter(new)

    def _is_recent(self, kept: Mapping[str, Any]) -> bool:
        planned: float = kept.get("planned", -math.inf)
        return self._snapshot.now < planned + REPLAN

    def _kept(self, job: Job, kept: Mapping[str, Any], needs: list[Need]) -> GangReservation | None:
        """The reservation of the last cycle, if its nodes can still take the gang at that time."""
        rows = [self._snapshot.row_of.get(name) for name in kept["nodes"]]
        if None in rows or not needs or not rows:
            return None
        run, now = walltime(job), self._snapshot.now
        start, known = kept["start"], kept["known"]
        amounts = np.array(list(kept["nodes"].values()))
        if amounts.shape[1] != self._snapshot.resources.width or (known and start <= now):
            return None
        made = GangReservation(
            job.uid,
            start if known else now,
            np.array(rows, dtype=np.intp),
            amounts,
            known,
            start + run if known and run is not None else NEVER,
            kept["signature"],
        )
        free = self._timeline.free_at(start) if known else self._possible()
        free = less_reserved(free, self.reservations, made.start)
        if not fits_still(made, free, needs):
            return None
        return made

    def remember(self) -> Memory:
        """Reservations for the next cycle, due when times alone change decisions."""
        names = self._session.nodes.name
        jobs = [
            {
                "job": each.job,
                "start": each.start,
                "known": each.known,
                "signature": each.signature,
                "planned": self._planned.get(each.job, self._snapshot.now),
                "nodes": {
                    names(row): amount.tolist()
                    for row, amount in zip(each.rows.tolist(), each.amounts, strict=True)
                },
            }
            for each in self.reservations
            if not self._session.policy.job_ready(self._snapshot.jobs[each.job])
        ]
        soon = self._snapshot.now + OVERDUE
        starts = [each.start for each in self.reservations if each.known and each.start > soon]
        due = min(self._starving_at, *starts, self.windows.next_change())
        return Memory({"jobs": jobs} if jobs else {}, due if math.isfinite(due) else None)


def _subtract(free: Vector, owner: GangReservation, other: GangReservation, sign: float = 1.0) -> None:
    """Subtracts the amounts of another reservation from the rows of one."""
    positions = owner.position[other.rows]
    shared = positions >= 0
    free[positions[shared]] -= sign * other.amounts[shared]


def _give_back(reservation: GangReservation, positions: Any, request: Vector) -> Any:
    def undo() -> None:
        np.add.at(reservation.room, positions, request)

    return undo
