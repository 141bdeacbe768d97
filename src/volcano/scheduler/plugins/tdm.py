"""tdm: time-division multiplexing; revocable nodes accept revocable pods while their zone's window is open."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from volcano.model.job import Job
from volcano.model.resources import Mask, Vector
from volcano.model.status import COMPLETED, READY, Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE, EvictionContext, Memory, RejectedNodes, Vote
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin

ZONES = "tdm.revocable-zone."
ZONE_CLOSED = "node(s) were in a revocable zone that is not open now"
NOT_REVOCABLE = "not allow to dispatch to revocable node"
DAY = 24 * 3600.0
_WINDOW = re.compile(r"\s*([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """A daily time window: `length` seconds from `start` seconds after midnight of the current day."""

    start: float
    length: float

    def is_open(self, now: float) -> bool:
        return self.start <= now % DAY < self.start + self.length

    def closes_at(self, now: float) -> float:
        """The end of an open window."""
        return now - now % DAY + min(self.start + self.length, DAY)


def parse_window(text: str) -> Window:
    """Parses `HH:MM-HH:MM`; an end that is not after the start is on the next day. Raises ValueError."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time of the day; write HH:MM-HH:MM, such as 22:00-06:30")
    hours, minutes, end_hours, end_minutes = map(int, found.groups())
    start, end = hours * 3600.0 + minutes * 60, end_hours * 3600.0 + end_minutes * 60
    return Window(start, end - start if end > start else end - start + DAY)


def is_window(text: Any) -> bool:
    return isinstance(text, str) and _WINDOW.fullmatch(text) is not None


class Tdm(Plugin):
    """Zones are labels of nodes; `tdm.revocable-zone.<zone>` is the window of a zone, in UTC."""

    depends_on_time: ClassVar = True
    arguments: ClassVar = (
        Argument(f"{ZONES}*", Type.TEXT, is_window, "a time of the day such as 22:00-06:30"),
        Argument("tdm.evict.period", Type.DURATION),
    )

    def open(self, arguments: Arguments) -> None:
        now = self.snapshot.now
        self.windows = {zone: parse_window(text) for zone, text in arguments.prefixed(ZONES)}
        self.open_zones = {zone for zone, window in self.windows.items() if window.is_open(now)}
        self.period = arguments.duration("tdm.evict.period", 60.0)
        self.last_eviction: float = (self.snapshot.memory.get(self.name) or {}).get("evicted", -math.inf)
        # When pods may have to be evicted next: at the end of a window, and a period after other evictions.
        closing = (window.closes_at(now) for zone, window in self.windows.items() if zone in self.open_zones)
        self._due = min(closing, default=math.inf)

    def remember(self) -> Memory | None:
        if self.last_eviction == -math.inf:
            return None
        return Memory({"evicted": self.last_eviction}, self._due)

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _revocable(self, nodes: NodeTable) -> Mask:
        return nodes.column("tdm revocable", lambda node: bool(node.revocable_zone), np.bool_)

    def _in_open_zone(self, nodes: NodeTable) -> Mask:
        return nodes.column("tdm open", lambda node: node.revocable_zone in self.open_zones, np.bool_)

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        revocable, is_open = self._revocable(nodes), self._in_open_zone(nodes)
        yield RejectedNodes(revocable & ~is_open, ZONE_CLOSED, resolvable=False, code=Code.REVOCABLE_ZONE)
        if not task.revocable_zone:
            yield RejectedNodes(
                revocable & is_open, NOT_REVOCABLE, resolvable=False, code=Code.REVOCABLE_ZONE
            )

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        """Revocable pods prefer revocable nodes, which leaves the other nodes to the other pods."""
        if not task.revocable_zone:
            return np.zeros(len(nodes))
        return np.where(self._in_open_zone(nodes), MAX_SCORE, 0.0)

    # -- jobs -------------------------------------------------------------------------------------------------------

    def job_order(self, job: Job) -> bool:
        """Jobs that cannot be preempted go first."""
        return job.preemptable

    def job_pipelined(self, job: Job) -> Vote:
        tally = self.ledger.tally(job)
        placed = tally.count(READY) + tally.counts[Status.PIPELINED]
        return Vote.PERMIT if placed >= job.min_available else Vote.REJECT

    def job_starving(self, job: Job) -> bool:
        return not job.preemptable and self.ledger.tally(job).counts[Status.PENDING] > 0

    # -- victims ----------------------------------------------------------------------------------------------------

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Preemptable tasks on nodes that are not revocable, for tasks that cannot be preempted."""
        if context.task.preemptable or context.task.revocable_zone:
            return []
        revocable = self._revocable(self.nodes)
        takeable = [
            task
            for task in candidates
            if task.preemptable
            and self.ledger.status(task) is Status.RUNNING
            and (row := self.ledger.row(task)) is not None
            and not revocable[row]
        ]
        return list(self._within_budgets(takeable))

    def victim_tasks(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Evicts from nodes of closed zones, at most once per period."""
        if self.snapshot.now < self.last_eviction + self.period:
            self._due = min(self._due, self.last_eviction + self.period)
            return []
        closed = self.windows.keys() - self.open_zones
        in_closed_zone = self.nodes.column("tdm closed", lambda node: node.revocable_zone in closed, np.bool_)
        rows = ((task, self.ledger.row(task)) for task in candidates if task.preemptable)
        victims = list(
            self._within_budgets([task for task, row in rows if row is not None and in_closed_zone[row]])
        )
        self.last_eviction = self.snapshot.now
        if victims:
            self._due = min(self._due, self.snapshot.now + self.period)
        return victims

    def _within_budgets(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Limits the tasks of each job by its disruption budget."""
        left: dict[str, int] = {}
        for task in tasks:
            job = self.snapshot.jobs.get(task.job)
            if job is None:
                continue
            if left.setdefault(job.uid, self._most_victims(job)) > 0:
                left[job.uid] -= 1
                yield task

    def _most_victims(self, job: Job) -> int:
        tally = self.ledger.tally(job)
        running, every = tally.counts[Status.RUNNING], len(job.tasks)
        if job.group.max_unavailable_budget:
            down = every - tally.count(COMPLETED) - running
            return max(0, parse_budget(job.group.max_unavailable_budget, every) - down)
        if job.group.min_available_budget:
            return max(0, running - parse_budget(job.group.min_available_budget, every))
        return 1


def parse_budget(budget: str, tasks: int) -> int:
    """Parses a number of tasks, or a percentage of them rounded up; 0 for anything else."""
    text = budget.strip()
    number = text.removesuffix("%")
    if not number.isdecimal():
        return 0
    return math.ceil(int(number) * tasks / 100) if text.endswith("%") else int(number)
