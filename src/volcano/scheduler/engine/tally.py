"""Tallies of task statuses per job, and totals by name, as they change during a cycle."""

from collections.abc import Callable, ItemsView, Mapping, Set
from typing import Any

import numpy as np

from volcano.model.job import Job, SubJob
from volcano.model.resources import Vector
from volcano.model.status import READY, Status
from volcano.model.task import Task

STATUSES = tuple(Status)
IS_READY = tuple(status in READY for status in STATUSES)


class Tally:
    """Number of tasks of a job by status, overall and by role, and the sum of their requests."""

    __slots__ = ("allocated", "counts", "order", "ready", "roles", "short")

    def __init__(self, counts: list[int], roles: dict[str, list[int]], allocated: Vector) -> None:
        self.counts = counts
        self.roles = roles
        self.allocated = allocated
        self.ready = sum(count for count, counted in zip(counts, IS_READY, strict=True) if counted)
        # Cached by the policy until the tally changes: the job's order key, and the number of tasks it lacks.
        self.order: tuple[Any, ...] | None = None
        self.short: int | None = None

    @classmethod
    def of_job(cls, job: Job) -> "Tally":
        """Tally of a job at the start of the cycle."""
        return cls(
            _by_status({status: len(tasks) for status, tasks in job.by_status.items()}),
            {role: _by_status(counts) for role, counts in job.roles.items()},
            job.allocated,
        )

    @classmethod
    def of_sub_job(cls, sub_job: SubJob) -> "Tally":
        """Tally of a sub-group, without roles and resources."""
        counts = [len(sub_job.by_status.get(status, ())) for status in STATUSES]
        return cls(counts, {}, np.zeros(0))

    def count(self, statuses: Set[Status]) -> int:
        """Number of tasks with one of these statuses."""
        counts = self.counts
        return sum([counts[status] for status in statuses])

    def count_role(self, role: str, statuses: Set[Status]) -> int:
        """Number of tasks of a role with one of these statuses."""
        counts = self.roles.get(role)
        return sum([counts[status] for status in statuses]) if counts else 0

    def move(self, task: Task, many: int, before: Status, after: Status) -> None:
        """Moves `many` tasks of one role and shape from one status to another."""
        self.order = self.short = None
        self.counts[before] -= many
        self.counts[after] += many
        self.ready += many * (IS_READY[after] - IS_READY[before])
        role = self.roles.get(task.role)
        if role is not None:
            role[before] -= many
            role[after] += many


def _by_status(counts: Mapping[Status, int]) -> list[int]:
    found = [0] * len(STATUSES)
    for status, count in counts.items():
        found[status] = count
    return found


class Totals:
    """Vectors by name whose changes are undone exactly. A total that was never added to is zero."""

    __slots__ = ("_record_undo", "_values", "_zero")

    def __init__(
        self, record_undo: Callable[[Callable[[], None]], None], zero: Vector, start: Mapping[str, Vector]
    ) -> None:
        self._record_undo = record_undo
        self._values = dict(start)
        self._zero = zero

    def __getitem__(self, name: str) -> Vector:
        """The total under a name; read-only."""
        return self._values.get(name, self._zero)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def items(self) -> ItemsView[str, Vector]:
        return self._values.items()

    def copy(self) -> dict[str, Vector]:
        """The totals as of now; later changes do not affect them."""
        return dict(self._values)

    def add(self, name: str, amount: Vector) -> None:
        """Adds to a total; undone with the statement."""
        self._set(name, self._values.get(name, self._zero) + amount)

    def subtract(self, name: str, amount: Vector) -> None:
        """Subtracts from a total; undone with the statement."""
        self._set(name, self._values.get(name, self._zero) - amount)

    def _set(self, name: str, value: Vector) -> None:
        values = self._values
        before = values.get(name)
        values[name] = value

        def undo() -> None:
            if before is None:
                values.pop(name, None)
            else:
                values[name] = before

        self._record_undo(undo)
