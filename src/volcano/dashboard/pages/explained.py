"""Explanations of `vcctl explain` on a page: the same data, with the columns of the command."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from volcano.analysis.explain.case import shown_name as short
from volcano.analysis.explain.explanations import (
    Detail,
    JobExplanation,
    NodeScore,
    Outlook,
    PodExplanation,
    Position,
    Step,
)
from volcano.analysis.explain.tables import (
    BASIS,
    DETAILS,
    JOB_COLUMNS,
    NODE_REASONS,
    counts_text,
    listed,
    plugin_columns,
    size_text,
)
from volcano.dashboard.pages.widgets import Cell, card, facts, heading, small_table
from volcano.scheduler.history.queries import Entry
from volcano.views.columns import Column
from volcano.views.times import span

CLASS_COLOURS = {"NEVER": "bad", "CONFIG": "bad", "POLICY": "warn", "CAPACITY": "warn", "IN_PROGRESS": "good"}
MARKS = {
    True: ("check_circle", "good", "passed"),
    False: ("cancel", "bad", "not passed"),
    None: ("remove", "idle", ""),
}
# Columns of commands that name something with a page of its own.
ADDRESSES = {"JOB": "/jobs/", "NODE": "/nodes/", "QUEUE": "/queues/"}
MOST_ENTRIES = 50
ROWS = 20  # of a table at a time


def show_summary(found: JobExplanation | PodExplanation) -> None:
    """The sentence that says it all, in the colour of its class."""
    colour = CLASS_COLOURS.get(found.diagnosis.class_ if found.diagnosis is not None else "", "info")
    with (
        ui.element("p")
        .classes("text-base font-semibold m-0 q-pl-sm")
        .style(f"border-left: 4px solid var(--volcano-{colour})")
    ):
        ui.label(short(found.summary))


def show_job(found: JobExplanation, now: float) -> None:
    """Everything about a job that `vcctl explain job` prints, without the parts of -v."""
    diagnosis = found.diagnosis
    with card():
        show_summary(found)
        pairs = {
            "Code": diagnosis.title if diagnosis is not None else "",
            "Since": ago(diagnosis.since, now) if diagnosis is not None else "",
            "Queue": found.queue,
            "User": found.user,
            "Priority": str(found.priority or ""),
            "Reserved": found.reserved,
            "Size": size_text(found),
            "Message": found.unsaid_message,
            "Nodes": counts_text(found.nodes or {}),
        }
        with ui.element("div").classes("q-mt-sm"):
            facts((name, value) for name, value in pairs.items() if value)
    if found.steps:
        with card("Steps"):
            show_steps(found.steps)
    if found.position is not None:
        _position(found.position)
    if found.outlook is not None:
        _outlook(found.outlook)
    if found.history:
        with card("History"):
            show_history(found.history, now)
    show_notes(found.notes)


def show_pod(found: PodExplanation, now: float) -> None:
    """Why a pod has its node, with the scores of the runners-up, or why it has none."""
    show_summary(found)
    if found.placement is not None and found.placement.ranking:
        ranking = found.placement.ranking
        heading("Scores", 2)
        ui.label(f"Nodes that could take it: {found.placement.feasible}; {found.placement.basis}.").classes(
            "volcano-muted"
        )
        show_table(_score_columns(ranking, found.node), ranking)
    if found.nodes is not None:
        heading("Nodes", 2)
        ui.label(f"{found.nodes.with_room} of {found.nodes.total} have room now.").classes("volcano-muted")
        show_table(NODE_REASONS, sorted(found.nodes.reasons.items(), key=lambda each: -each[1]))
    for each in found.evictions:
        heading(f"Eviction in cycle {each.cycle}, {ago(each.at, now)}", 2)
        facts(
            (name, value)
            for name, value in (
                ("From", each.victim.node),
                ("By", each.victim.action),
                ("For", short(each.victim.beneficiary)),
                ("Why", short(each.why)),
            )
            if value
        )
    if found.history:
        heading("History", 2)
        show_history(found.history, now)
    show_notes(found.notes)


def show_details(part: str, rows: Sequence[Detail]) -> None:
    """One part of -v: nodes, scores, victims or plugins."""
    if not rows:
        ui.label("Nothing to show.").classes("volcano-muted")
    show_table(DETAILS[part], rows)


def show_steps(steps: Sequence[Step]) -> None:
    """One line per step with its mark, and the amounts that are not enough."""
    with ui.element("div").classes("volcano-step"):
        for step in steps:
            icon, colour, said = MARKS[step.ok]
            mark = ui.icon(icon, size="sm").style(f"color: var(--volcano-{colour})")
            mark.props(f'role="img" aria-hidden="false" aria-label="{said}"' if said else "aria-hidden=true")
            ui.label(step.step).classes("font-semibold")
            with ui.element("div"):
                ui.label(short(step.text))
                for amount in step.amounts if step.ok is False else ():
                    if not amount.enough:
                        ui.label(amount.sentence()).classes("volcano-muted")


def show_history(entries: Sequence[Entry], now: float) -> None:
    """Entries of the record of cycles, the latest first."""
    columns = (
        Column("Age", lambda entry: ago(entry.at, now)),
        Column("Cycle", lambda entry: str(entry.number or "")),
        Column("What", lambda entry: " ".join(filter(None, (entry.what, entry.code)))),
        Column("Text", lambda entry: short(entry.text)),
    )
    if len(entries) > MOST_ENTRIES:
        ui.label(f"The last {MOST_ENTRIES} of {len(entries)}.").classes("volcano-muted")
    show_table(columns, list(reversed(entries))[:MOST_ENTRIES])


def show_notes(notes: Sequence[str]) -> None:
    for note in notes:
        ui.label(f"Note: {note}").classes("volcano-muted")


def show_table(columns: Sequence[Column], rows: Sequence[Any], label: str = "") -> None:
    """A table with the columns of a command; names of jobs and nodes are links."""
    if not rows:
        return
    table = small_table(
        label or _title(columns[0].header),
        [_title(column.header) for column in columns],
        [[_linked(column, column.value(row).strip()) for column in columns] for row in rows],
    )
    if len(rows) > ROWS:
        table.pagination = {"rowsPerPage": ROWS}
        table.props(remove="hide-bottom")


def _linked(column: Column, value: str) -> Cell:
    address = ADDRESSES.get(column.header)
    return (value, address + value) if address and value else value


def ago(moment: float, now: float) -> str:
    """`5m ago`; "" without a time."""
    return f"{span(max(now - moment, 0))} ago" if moment else ""


def _title(header: str) -> str:
    return header.capitalize() if header.isupper() else header


def _position(position: Position) -> None:
    with card("Position"):
        ui.label(f"Number {position.place} of {position.of} waiting jobs in the queue.")
        if not position.ahead:
            ui.label("No job is ahead of it.").classes("volcano-muted")
            return
        show_table(JOB_COLUMNS, position.ahead)
        if position.more:
            ui.label(f"And {position.more} more; {position.pods_ahead} pods are ahead in all.").classes(
                "volcano-muted"
            )


def _outlook(outlook: Outlook) -> None:
    with card("Estimate"):
        if outlook.estimate is None:
            ui.label("No estimate can be given.").classes("volcano-muted")
        else:
            first, last = map(span, outlook.estimate.in_seconds)
            basis = BASIS[outlook.estimate.basis]
            ui.label(f"Starts in {first} to {last}, in eight of ten cases; by {basis}.")
            if outlook.estimate.waits_for:
                ui.label(f"Waits for {', '.join(outlook.estimate.waits_for)}.").classes("volcano-muted")
    with card("Changes that would start it now"):
        ui.label("Each verified by running the scheduler on the changed cluster.").classes("volcano-muted")
        if not outlook.changes:
            ui.label("None was found that changes one thing only.")
        with ui.element("ul").classes("m-0 list-disc pl-6"):
            for each in outlook.changes:
                with ui.element("li"):
                    ui.label(each.change)


def _score_columns(ranking: Sequence[NodeScore], node: str) -> list[Column]:
    return [
        Column("Place", lambda row: str(row.place)),
        Column("", lambda row: "its node" if row.node == node else ""),
        Column("NODE", lambda row: row.node),
        Column("Score", lambda row: f"{row.score:g}"),
        *plugin_columns(ranking),
        Column("Free", lambda row: listed(row.free or {})),
    ]
