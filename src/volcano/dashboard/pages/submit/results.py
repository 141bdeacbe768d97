"""The preview of a job: whether it starts, its nodes, the pods evicted for it, and the share of its queue."""

from nicegui import ui

from volcano.analysis.plan.plan import PlannedJob
from volcano.analysis.plan.tables import (
    NOT_NOW,
    PLACED,
    SHARES,
    STARTS,
    VICTIMS,
    outcome,
    preempting_sentence,
    shares,
)
from volcano.dashboard.pages.explained import show_table
from volcano.dashboard.pages.widgets import card, heading
from volcano.services.plan import Plan


def show_preview(preview: Plan) -> None:
    """Adds the preview of each job to the page."""
    for job in preview.jobs:
        with card(job.job, "w-full"):
            _show_job(job)
    for note in preview.notes:
        ui.label(note).classes("volcano-muted")


def _show_job(job: PlannedJob) -> None:
    colour, icon = ("good", "check_circle") if job.starts else ("warn", "hourglass_empty")
    with ui.row(wrap=False).classes("items-start gap-2").props('data-testid="outcome"'):
        ui.icon(icon, size="sm").style(f"color: var(--volcano-{colour})").props("aria-hidden=true")
        with ui.column().classes("gap-0"):
            ui.label(f"It {STARTS if job.starts else NOT_NOW}.").classes("font-semibold")
            code = job.why_not.code if job.why_not is not None else ""
            ui.label(outcome(job) + (f" [{code}]" if code else ""))
            if sentence := preempting_sentence(job):
                ui.label(f"{sentence}. Allow evictions to see which.")
    if job.why_not is not None and job.why_not.suggestions:
        _part("Changes that would start it now")
        with ui.element("ul").classes("q-my-xs"):
            for each in job.why_not.suggestions:
                with ui.element("li"):
                    ui.label(each.change)
    for title, columns, rows in (
        ("Pods by node", PLACED, job.placements),
        (f"Evicted for it ({len(job.victims)})", VICTIMS, job.victims),
        (f"Queue {job.queue}", SHARES, shares(job)),
    ):
        if rows:
            _part(title)
            show_table(columns, rows, title)


def _part(title: str) -> None:
    heading(title, 2).style("font-size: 1rem; margin: 1rem 0 .35rem")
