"""The hooks of the plugin `reservation`."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from volcano.model.annotations.walltime import run_limit
from volcano.model.job import Condition, Job
from volcano.model.resources import STEP, Mask, Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import Memory, RejectedNodes, Vote
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.reservation.book import ReservationBook
from volcano.scheduler.plugins.reservation.condition import reserved_condition
from volcano.scheduler.plugins.reservation.limits import exceeds_capability
from volcano.scheduler.plugins.reservation.plan import GangReservation

MODES = ("easy", "conservative")
DEPTHS = {"easy": 1, "conservative": 20}
STARVATION = 300.0  # seconds
# Plugins that reject the admission of jobs because others hold, or were promised, the resources of the cluster.
LIMITED_BY_OTHERS = frozenset(("overcommit", "proportion", "capacity"))
RESERVED = "node(s) were reserved for the gang {}"


def depth(arguments: Arguments) -> int:
    """How many gangs that wait get nodes."""
    return arguments.integer("depth", DEPTHS[arguments.text("mode", "easy")])


def starvation(arguments: Arguments) -> float:
    """Seconds after which a gang gets nodes although no ends are known."""
    return arguments.duration("starvation", STARVATION)


class Reservation(Plugin):
    """`mode` easy: only the first `depth` gangs that wait get nodes; conservative: all that wait do."""

    session: Session
    arguments: ClassVar = (
        Argument("mode", Type.TEXT, lambda mode: mode in MODES, "easy or conservative"),
        Argument("depth", Type.INTEGER, lambda depth: depth >= 1, "at least 1"),
        Argument("starvation", Type.DURATION),
    )

    def open(self, arguments: Arguments) -> None:
        self.depth = depth(arguments)
        self.starvation = starvation(arguments)
        memory = self.snapshot.memory.get(self.name)
        self._memory: dict[str, Any] = memory if isinstance(memory, dict) else {}
        self._admitted = [uid for uid in self._memory.get("admitted", ()) if self._waits(uid)]

    def _waits(self, uid: str) -> bool:
        """Whether a job that was admitted has not started."""
        job = self.snapshot.jobs.get(uid)
        if job is None:
            return False
        ready = sum(
            job.count(status)
            for status in (Status.BINDING, Status.BOUND, Status.RUNNING, Status.SUCCEEDED, Status.FAILED)
        )
        return ready < max(job.min_available, 1)

    @cached_property
    def book(self) -> ReservationBook:
        """The reservations of this cycle; those of the last one are taken over on first use."""
        return ReservationBook(self.session, self.depth, self.starvation, self._memory.get("jobs", ()))

    @property
    def _unused(self) -> bool:
        """Whether there is nothing to keep: no reservation of the last cycle, none in this one, no window."""
        return (
            "book" not in self.__dict__
            and not self._memory.get("jobs")
            and not self.snapshot.node_reservations
        )

    # -- admission --------------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        """Admits as many gangs as get reservations, although others hold the resources: without pods, none could be
        reserved for them."""
        uids = {
            *self._admitted,
            *(each["job"] for each in self._memory.get("jobs", ()) if self._waits(each["job"])),
        }
        if job.uid in uids:
            return Vote.PERMIT
        if len(uids) >= self.depth or self._is_limited(job):
            return Vote.ABSTAIN
        self._admitted.append(job.uid)
        return Vote.PERMIT

    def _is_limited(self, job: Job) -> bool:
        """Whether more than the pods of others keeps a job from being admitted: limits of its queue, quotas."""
        need = job.min_resources
        if exceeds_capability(self.snapshot, job, need) or bool((need > self.snapshot.total + STEP).any()):
            return True
        for name, hook in self.session.policy.hooks("job_enqueueable").named:
            if name != self.name and name not in LIMITED_BY_OTHERS:
                vote = hook(job)
                if vote is Vote.REJECT or isinstance(vote, Rejection):
                    return True
        return False

    # -- reservations -----------------------------------------------------------------------------------------------

    def job_blocked(self, job: Job) -> None:
        self.book.add(job)

    def job_condition(self, job: Job) -> Condition | None:
        if self._unused:
            return None
        found = self.book.of(job)
        return None if found is None else reserved_condition(found, self.session)

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> Iterable[RejectedNodes] | None:
        if self._unused:
            return None
        job = self.snapshot.jobs.get(task.job)
        rejected = list(self._by_windows(task, job, nodes))
        reservations = self.book.before(job)
        if not reservations and not rejected:
            return None
        limit = run_limit(task, job)
        end = math.inf if limit is None else self.snapshot.now + limit
        for reservation in reservations:
            if end > reservation.start or not reservation.known:
                mask = self._without_room(reservation, task.request, nodes)
                rejected.append(
                    RejectedNodes(
                        mask, RESERVED.format(reservation.job), resolvable=False, code=Code.RESERVED
                    )
                )
        return rejected

    def _without_room(self, reservation: GangReservation, request: Vector, nodes: NodeTable) -> Mask:
        """Nodes on which the task would take what the gang needs when it starts."""
        position = reservation.position[nodes.index]
        mask: Mask = position >= 0
        held = np.flatnonzero(mask)
        if len(held):
            room = self.book.room(reservation)[position[held]]
            wanted = request > 0
            mask[held] = (room[:, wanted] + STEP < request[wanted]).any(axis=1)
        return mask

    def _by_windows(self, task: Task, job: Job | None, nodes: NodeTable) -> Iterable[RejectedNodes]:
        if self.snapshot.node_reservations:
            yield from self.book.windows.rejected(task, job, nodes)

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        if not self._unused and self.book.reservations:
            self.book.on_allocate(tasks, rows)

    def remember(self) -> Memory | None:
        kept = Memory({}) if self._unused else self.book.remember()
        if self._admitted:
            kept.state["admitted"] = list(self._admitted)
        return kept if kept.state or kept.due is not None else None
