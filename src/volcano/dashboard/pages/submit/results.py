"""The preview of a job: whether it starts, its nodes, the pods evicted for it, and the share of its queue."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from volcano.analysis.plan.plan import PlannedJob
from volcano.cli.plan_screen import NOT_NOW, STARTS, outcome
from volcano.dashboard.data.preview import (
    Preview,
    placement_rows,
    preempting_sentence,
    share_rows,
    victim_rows,
)
from volcano.dashboard.pages.widgets import card, heading

ROWS = 10


def show_preview(preview: Preview) -> None:
    """Adds the preview of each job to the page."""
    for job in preview.jobs:
        with card(job.title, "w-full"):
            _show_job(job)
    for note in preview.notes:
        ui.label(note).classes("volcano-muted")


def _show_job(job: PlannedJob) -> None:
    colour, icon = ("good", "check_circle") if job.starts else ("warn", "hourglass_empty")
    with ui.row(wrap=False).classes("items-start gap-2").props('data-testid="outcome"'):
        ui.icon(icon, size="sm").style(f"color: var(--volcano-{colour})").props("aria-hidden=true")
        with ui.column().classes("gap-0"):
            ui.label(f"It {STARTS if job.starts else NOT_NOW}.").classes("font-semibold")
            ui.label(outcome(job) + (f" [{job.code}]" if job.code else ""))
            sentence = preempting_sentence(job)
            if sentence:
                ui.label(f"{sentence} Allow evictions to see which.")
    if job.suggestions:
        _part("Changes that would start it now")
        with ui.element("ul").classes("q-my-xs"):
            for each in job.suggestions:
                with ui.element("li"):
                    ui.label(each.sentence())
    _table("Pods by node", ["node", "task", "pods", "names"], placement_rows(job))
    _table(
        f"Evicted for it ({len(job.victims)})",
        ["pod", "job", "node", "action"],
        victim_rows(job, job.victims),
    )
    _table(f"Queue {job.queue}", ["resource", "before", "after", "deserved", "limit"], share_rows(job))


LABELS = {"after": "Afterwards", "names": "Names", "pods": "Pods"}
NUMBERS = ("pods", "before", "after", "deserved", "limit")


def _table(title: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    _part(title)
    described = [
        {
            "name": name,
            "label": LABELS.get(name, name.capitalize()),
            "field": name,
            "align": "right" if name in NUMBERS else "left",
        }
        for name in columns
    ]
    table = ui.table(
        rows=list(rows), columns=described, row_key="id", pagination=ROWS if len(rows) > ROWS else None
    )
    table.classes("w-full").props("flat dense wrap-cells")
    table.props["aria-label"] = title


def _part(title: str) -> None:
    heading(title, 2).style("font-size: 1rem; margin: 1rem 0 .35rem")
