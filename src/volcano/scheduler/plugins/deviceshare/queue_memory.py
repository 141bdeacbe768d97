"""Limits of queues on the memory of vGPUs, counted as it is assigned.

Queue plugins count what pods request. Of a percentage, a whole card or a MIG instance, the memory is known only when a
card is chosen: until the assignment is part of the pod, it is counted here.
"""

from collections.abc import Callable, Sequence

from volcano.model.queue import ancestors
from volcano.model.resources import STEP, shown
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Amount, Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.ledger_view import LedgerView

Memory = Callable[[Task], float]  # of a task, in thousandths


class QueueMemory:
    """Memory that queues hold, their descendants included, where a capability limits it."""

    def __init__(
        self, snapshot: Snapshot, ledger: LedgerView, resource: str, needed: Memory, held: Memory
    ) -> None:
        """`needed` is what a task needs at least, `held` what one that was placed in this cycle got."""
        self._snapshot = snapshot
        self._ledger = ledger
        self._resource = resource
        self._needed = needed
        self._taken = held
        queues = snapshot.queues
        self._limits = {
            name: queue.capability[resource] for name, queue in queues.items() if resource in queue.capability
        }
        self._held = dict.fromkeys(self._limits, 0.0)
        column = snapshot.resources.column.get(resource)
        for name, totals in snapshot.totals.items():
            for limited in self._path(name):
                self._held[limited] += 0.0 if column is None else totals.allocated.item(column)

    def _path(self, queue: str) -> list[str]:
        """The queue and its ancestors, as far as they are limited."""
        return [name for name in (queue, *ancestors(self._snapshot.queues, queue)) if name in self._limits]

    def count(self, queue: str, task: Task, count: int) -> int:
        """How many of `count` such tasks the queue may still get."""
        need = self._needed(task)
        for name in self._path(queue) if need > 0 else ():
            count = min(count, int((self._limits[name] - self._held[name] + STEP) // need))
        return max(count, 0)

    def rejection(self, queue: str, task: Task) -> Rejection | None:
        """The limit that a task would exceed."""
        need, resource = self._needed(task), self._resource
        for name in self._path(queue) if need > 0 else ():
            limit = self._limits[name]
            if self._held[name] + need > limit + STEP:
                text = f"queue {name} has reached its capability: {resource} {shown(resource, limit)} in all"
                text += f", the pod requests {shown(resource, need)}"
                amount = Amount(resource, need, limit - self._held[name], limit)
                return Rejection(
                    text,
                    Code.QUEUE_CAPABILITY,
                    resource,
                    self._held[name] + need,
                    limit,
                    queue=name,
                    amounts=(amount,),
                )
        return None

    def add(self, tasks: Sequence[Task], sign: int) -> None:
        """Counts tasks that were placed or evicted; undone with the statement."""
        job = self._snapshot.jobs.get(tasks[0].job)
        path = self._path(job.queue) if job is not None else ()
        if not path:
            return
        amount = sign * sum(map(self._taken, tasks))
        held = self._held
        for name in path:
            held[name] += amount

        def undo() -> None:
            for name in path:
                held[name] -= amount

        self._ledger.record_undo(undo)
