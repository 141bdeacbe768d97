"""Filling: places tasks in a wide domain part by part, in as few of its smaller domains as possible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.task import Task
from volcano.scheduler.engine.placement.gang import Area, place_tasks
from volcano.scheduler.engine.placement.job_queue import TaskQueue
from volcano.scheduler.engine.topology.cycle import TopologyCycle
from volcano.scheduler.engine.topology.rooms import by_shape


@dataclass(frozen=True, slots=True)
class Filling:
    """Placement of one job; `is_done` says whether enough of it is placed."""

    session: TopologyCycle
    queue: Queue
    job: Job
    is_last: bool
    idle_only: bool
    is_done: Callable[[], bool]

    def place(self, tasks: Sequence[Task], domain: int) -> None:
        """Places tasks in a domain: in the part that takes all and suits best, or else in the roomiest parts one after
        the other; what then is left goes anywhere in the domain."""
        topology = self.session.topology
        view = topology.view
        left = list(tasks)
        # Plugins that choose domains also choose the nodes in them, by their scores.
        is_split = len(left) > 1 and not self.session.policy.hooks("score_domains")
        parts = {view.number[name] for name in view.domains[domain].children} if is_split else set()
        while parts and left:
            room = topology.rooms.total(by_shape(left), self.queue.name, pipelined=not self.idle_only)
            numbers = np.array(sorted(parts), dtype=np.intp)
            numbers = numbers[room[numbers] > 0]
            if not len(numbers):
                break
            lacking = len(left) if self.is_last else max(self.session.policy.job_short(self.job), 1)
            enough = numbers[room[numbers] >= lacking]
            if len(enough):
                chosen = next(topology.ordered(self.job, left, enough, room))
            else:
                chosen = int(numbers[np.argmax(room[numbers])])
            parts.discard(chosen)
            self.place(left, chosen)
            if self.is_done():
                return
            left = [task for task in left if not self.session.ledger.changed(task)]
        if left:
            area = Area(topology.mask(domain), self.idle_only)
            place_tasks(self.session, self.queue, TaskQueue(self.job, left), is_last=self.is_last, area=area)
