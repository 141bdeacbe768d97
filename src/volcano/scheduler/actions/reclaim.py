"""reclaim: across queues, a queue that has less than it deserves takes it back from those that have more."""

from collections.abc import Sequence

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.task import Task
from volcano.scheduler.actions.preempt import fill, starving
from volcano.scheduler.engine.arguments import Argument, Type
from volcano.scheduler.engine.job_queue import pending
from volcano.scheduler.engine.plugin import Purpose
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.victim_search import Hunter, Prey, Trails, other_queues

ARGUMENTS = (Argument("predicateErrorCacheEnable", Type.BOOLEAN),)


def reclaim(session: Session) -> None:
    """Serves starving jobs of queues that are not overused, in policy order."""
    prey: dict[str, Prey] = {}
    hopeless: set[object] = set()
    trails = Trails()
    for queue, job in starving(session):
        if session.policy.overused(queue):
            continue
        found = prey.get(queue.name)
        if found is None:
            found = prey[queue.name] = other_queues(session, queue.name)
        with session.attempt(job):
            _take_back(session, queue, job, found, trails, hopeless)


class Reclaimer(Hunter):
    """A hunter that asks before each task whether its queue may take room for it."""

    def make_room(self, run: Sequence[Task]) -> int:
        return super().make_room(run) if self._entitled(run[:1]) else 0

    def _entitled(self, tasks: Sequence[Task]) -> bool:
        return self._session.policy.preemptive(self._queue, tasks)


def _take_back(
    session: Session, queue: Queue, job: Job, prey: Prey, trails: Trails, hopeless: set[object]
) -> None:
    """Surplus members of gangs first; gangs are broken only when that was not enough."""
    tasks = pending(session, job, lambda task: task.shape.preempts)
    if not tasks:
        return
    mark = (queue.name, frozenset(task.shape for task in tasks), len(session.ledger.committed))
    if mark in hopeless:
        return
    for breaking in (False, True):
        hunter = Reclaimer(session, job, queue, prey, Purpose.RECLAIM, trails, breaking=breaking)
        if fill(session, job, tasks, hunter):
            return
    hopeless.add(mark)
