"""The tab of pods: the grid of the gang, one pod of it, and a table."""

from typing import Any

from nicegui import events, ui
from nicegui.element import Element

from volcano.dashboard.data.gang import MISSING, Cell, Task, tasks
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.dashboard.pages.jobs.pod_panel import PodPanel
from volcano.dashboard.pages.tables import PHASE, Column, PagedTable
from volcano.dashboard.pages.widgets import STATIC, card, colour_of, nothing
from volcano.views.pods import PodRow
from volcano.views.times import span

# A mark in each cell, so that a state is not shown by its colour alone.
MARKS = {
    "Running": "R", "Succeeded": "✓", "Completed": "✓", "Failed": "✕", "Error": "✕", "Pending": "…", MISSING: "·",
    "ContainerCreating": "↻", "PodInitializing": "↻", "Terminating": "−", "Unknown": "?",
}  # fmt: skip
OTHER_MARK = "!"
PART_OF_LINK = (
    '<a class="volcano-link" href="#" :aria-label="\'Show pod \' + props.value" '
    "@click.prevent=\"$parent.$emit('choose', props.value)\">{{ props.value }}</a>"
)


class GangGrid(Element, component=STATIC / "gang_grid.js"):
    """One cell for each pod, by task."""

    def __init__(self) -> None:
        super().__init__()
        self.props["tasks"] = []
        self.props["chosen"] = ""


async def build(job: OpenJob) -> None:
    with card("Gang"):
        empty = ui.element("div")
        with empty:
            nothing("This job has no pods yet.")
        grid = GangGrid().classes("w-full")
    panel = PodPanel(job)
    table = PagedTable(
        job.context, _columns(job), key=lambda row: row.key.name, label="Pods", order="name", prefix="pod-",
        empty="No pods.",
    )  # fmt: skip

    async def choose(event: events.GenericEventArguments) -> None:
        name = str(event.args)
        if name:
            await job.choose_pod("" if name == job.pod else name)

    async def update() -> None:
        found = [task_prop(task) for task in tasks(job.view)]
        if found != grid.props["tasks"]:
            grid.props["tasks"] = found
        empty.set_visibility(not found)
        if grid.props["chosen"] != job.pod:
            grid.props["chosen"] = job.pod
        table.show(job.view.rows)
        await panel.update()

    grid.on("choose", choose)
    table.table.on("choose", choose)
    job.on_update("pods", update)


def task_prop(task: Task) -> dict[str, Any]:
    """A task as the grid in the browser gets it."""
    least = f", at least {task.minimum} together" if task.minimum else ""
    return {
        "name": task.name or "pods",
        "size": f"{task.replicas} {'replica' if task.replicas == 1 else 'replicas'}{least}",
        "counts": [
            {"text": f"{count} {status}", "colour": _colour(status), "mark": _mark(status)}
            for status, count in task.counts
        ],
        "cells": [
            {
                "index": cell.index,
                "pod": cell.pod,
                "mark": _mark(cell.status),
                "colour": _colour(cell.status),
                "label": _label(task, cell),
            }
            for cell in task.cells
        ],
    }


def _mark(status: str) -> str:
    return MARKS.get(status, OTHER_MARK)


def _colour(status: str) -> str:
    return "var(--volcano-idle)" if status == MISSING else colour_of(status)


def _label(task: Task, cell: Cell) -> str:
    node = f" on {cell.node}" if cell.node else ""
    restarts = f", {cell.restarts} restarts" if cell.restarts else ""
    return f"{cell.pod or f'{task.name} {cell.index}'}: {cell.status}{node}{restarts}"


def _columns(job: OpenJob) -> tuple[Column[PodRow], ...]:
    def created(row: PodRow) -> str:
        return span(max(job.context.objects.now - row.created, 0))

    return (
        Column("name", "Pod", lambda row: row.key.name, lambda row: (row.task, row.index, row.key.name), PART_OF_LINK),
        Column("task", "Task", lambda row: row.task, lambda row: (row.task, row.index), wide_only=True),
        Column(
            "status", "Status", lambda row: {"text": row.status, "colour": colour_of(row.status)},
            lambda row: row.status, PHASE,
        ),
        Column("node", "Node", lambda row: row.node, lambda row: row.node),
        Column(
            "restarts", "Restarts", lambda row: row.restarts, lambda row: row.restarts, align="right", wide_only=True
        ),
        Column("age", "Age", created, lambda row: -row.created, align="right", wide_only=True),
    )  # fmt: skip
