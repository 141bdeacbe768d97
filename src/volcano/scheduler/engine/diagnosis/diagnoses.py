"""Diagnoses of one cycle, as they are recorded: why jobs wait, and why tasks fit on no node."""

from dataclasses import replace
from typing import TypeVar

import msgspec

from volcano.model.job import Job
from volcano.model.resources import ResourceIndex, first_over, shown
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.diagnosis import Diagnosis, FitError, SchedulableTask, from_fit_error
from volcano.scheduler.engine.ledger_view import LedgerView
from volcano.scheduler.engine.node_table import NodeTable

Reasons = tuple[Diagnosis | None, dict[str, FitError] | None]  # diagnosis of a job, fit errors of its tasks

Value = TypeVar("Value")


class Diagnoses:
    """Records about jobs so far in a cycle; none of them is undone with a statement."""

    def __init__(self, ledger: LedgerView, nodes: NodeTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self.by_job: dict[str, Diagnosis] = {}
        self.fit_errors: dict[str, dict[str, FitError]] = {}  # by job and task uid
        self.schedulable: dict[str, dict[str, SchedulableTask]] = {}  # by job and task uid
        # By identity and shape, because many tasks share a fit error: itself, with a note added, and its diagnosis.
        self._described: dict[tuple[int, Shape], tuple[FitError, FitError, Diagnosis]] = {}

    def record(self, diagnosis: Diagnosis) -> None:
        """Records why a job waits. Of several diagnoses the one whose class has precedence counts, then the last."""
        known = self.by_job.get(diagnosis.job)
        if known is None or diagnosis.code.rank <= known.code.rank:
            self.by_job[diagnosis.job] = diagnosis

    def record_fit_error(self, job: Job, task: Task, fit_error: FitError) -> None:
        """Records why no node fits a task."""
        key = (id(fit_error), task.shape)
        described = self._described.get(key)
        if described is None:
            note = (
                _oversized(task, self._nodes, self._ledger.snapshot.resources) if fit_error.resource else ""
            )
            noted = replace(fit_error, note=note) if note else fit_error
            described = self._described[key] = fit_error, noted, from_fit_error("", "", noted)
        _, noted, diagnosis = described
        self.fit_errors.setdefault(job.uid, {})[task.uid] = noted
        self.record(msgspec.structs.replace(diagnosis, job=job.uid, task=task.name))

    def record_schedulable(self, job: Job) -> None:
        """Records which tasks of a job were placed, before their statement is undone because the job may not start."""
        ledger = self._ledger
        placed = {
            task.uid: SchedulableTask(self._nodes.name(row), ledger.status(task) is Status.PIPELINED)
            for task in job.by_status.get(Status.PENDING, ())
            if (row := ledger.row(task)) is not None
        }
        if placed:
            self.schedulable[job.uid] = placed

    def reasons(self, job: Job) -> Reasons:
        """Returns what is recorded about a job, to `restore` after a trial."""
        fit_errors = self.fit_errors.get(job.uid)
        return self.by_job.get(job.uid), dict(fit_errors) if fit_errors is not None else None

    def restore(self, job: Job, reasons: Reasons) -> None:
        diagnosis, fit_errors = reasons
        _put(self.by_job, job.uid, diagnosis)
        _put(self.fit_errors, job.uid, fit_errors)


def _put(values: dict[str, Value], key: str, value: Value | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _oversized(task: Task, nodes: NodeTable, resources: ResourceIndex) -> str:
    """Sentence that names a resource of which the task requests more than any node has; "" when one is large enough."""
    column = first_over(task.request, nodes.allocatable.max(axis=0)) if len(nodes) else None
    if column is None:
        return ""
    name = resources.names[column]
    wanted = shown(name, task.request.item(column))
    largest = shown(name, float(nodes.allocatable[:, column].max()))
    return f"The pod requests {name} {wanted}, the largest node has {largest}."
