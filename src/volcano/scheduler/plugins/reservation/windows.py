"""Windows: nodes that administrators reserved for a queue, or for maintenance, for some time."""

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from volcano.model.annotations.walltime import run_limit, walltime
from volcano.model.job import Job
from volcano.model.queue import ancestors
from volcano.model.reservations import NodeReservation, reserved_nodes
from volcano.model.resources import Mask
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.session import Session

REASON = "node(s) were reserved by {}"


class Windows:
    """NodeReservations that have not ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._now = session.snapshot.now
        found = session.snapshot.node_reservations
        self._current = [each for each in found if each.end > self._now]

    @cached_property
    def _masks(self) -> dict[str, Mask]:
        """Nodes of each reservation."""
        snapshot = self._session.snapshot
        masks = {}
        for each in self._current:
            mask = np.zeros(len(snapshot.nodes), dtype=np.bool_)
            names = reserved_nodes(each, snapshot.nodes)
            mask[[snapshot.row_of[name] for name in names]] = True
            masks[each.name] = mask
        return masks

    def rejected(self, task: Task, job: Job | None, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Nodes that are reserved at a time when the task would run there."""
        limit = run_limit(task, job)
        end = math.inf if limit is None else self._now + limit
        for each in self._current:
            if self._keeps_out(each, job.queue if job else "", end):
                mask = self._masks[each.name][nodes.index]
                yield RejectedNodes(mask, REASON.format(each.name), resolvable=False, code=Code.RESERVED)

    def kept_from(self, job: Job) -> Mask:
        """Nodes that a job cannot use now because of a window; reservations for gangs leave them out."""
        run = walltime(job)
        end = math.inf if run is None else self._now + run
        found = np.zeros(len(self._session.snapshot.nodes), dtype=np.bool_)
        for each in self._current:
            if self._keeps_out(each, job.queue, end):
                found |= self._masks[each.name]
        return found

    def _keeps_out(self, window: NodeReservation, queue: str, end: float) -> bool:
        queues = self._session.snapshot.queues
        if window.queue and queue and window.queue in (queue, *ancestors(queues, queue)):
            return False
        if window.start <= self._now:
            return True
        if end == math.inf:
            return window.lead is None or self._now >= window.start - window.lead
        return end > window.start

    def next_change(self) -> float:
        """When the next window begins or ends."""
        times = [
            time
            for each in self._current
            for time in (each.start - (each.lead or 0.0), each.start, each.end)
            if time > self._now
        ]
        return min(times, default=math.inf)
