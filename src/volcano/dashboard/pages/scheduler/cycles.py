"""Cycles of the scheduler: the list, and the page of one cycle with its decisions."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from volcano.base.clock import timestamp
from volcano.cli.errors import CommandError
from volcano.cli.explain.reading import read_history
from volcano.dashboard.context import Context
from volcano.dashboard.data.cycles import (
    CycleDetails,
    CycleRow,
    Placement,
    WaitingRow,
    cycle_address,
    cycle_details,
    cycle_rows,
    job_address,
)
from volcano.dashboard.pages.scheduler.evictions import eviction_columns
from volcano.dashboard.pages.scheduler.record import RecordReader
from volcano.dashboard.pages.tables import LINK, Column, PagedTable
from volcano.dashboard.pages.widgets import card, facts, heading, link, nothing
from volcano.kube.api.errors import ApiError
from volcano.views.times import span

WRAPPED = '<span class="volcano-message">{{ props.value }}</span>'


def _columns(context: Context) -> tuple[Column[CycleRow], ...]:
    def number(name: str, label: str, *, wide_only: bool = False) -> Column[CycleRow]:
        def value(row: CycleRow) -> int:
            return int(getattr(row, name))

        return Column(name, label, value, value, align="right", wide_only=wide_only)

    return (
        Column("number", "Cycle", _cycle_link, lambda row: row.number, LINK),
        Column("age", "Age", lambda row: span(max(context.objects.now - row.at, 0)), lambda row: -row.at),
        Column("time", "Time", lambda row: timestamp(row.at), lambda row: row.at, wide_only=True),
        Column("took", "Took", lambda row: f"{row.seconds * 1000:.0f} ms", lambda row: row.seconds, align="right"),
        number("placed", "Placed"),
        number("evicted", "Evicted"),
        number("admitted", "Admitted", wide_only=True),
        number("changed", "Reasons changed", wide_only=True),
        number("waiting", "Waiting"),
    )  # fmt: skip


def _cycle_link(row: CycleRow) -> dict[str, str]:
    return {"text": str(row.number), "href": row.address}


async def build(context: Context) -> Callable[[], Awaitable[None]]:
    """The tab with the list; returns what updates it."""
    ui.label(
        "Cycles that decided something or found another reason why a job waits: pods that were placed and evicted, "
        "jobs that were admitted, whose reason changed, and that still waited."
    ).classes("volcano-muted")
    table: PagedTable[CycleRow] = PagedTable(
        context,
        _columns(context),
        key=lambda row: str(row.number),
        label="Cycles",
        order="number",
        descending=True,
        empty="No cycle decided anything yet.",
    )
    with ui.row().classes("items-center gap-3"):
        newest = ui.button("Newest", icon="first_page").props("flat dense")
        older = ui.button("Older cycles", icon="chevron_right").props("flat dense")
    oldest = 0

    def show(answer: Mapping[str, Any]) -> None:
        nonlocal oldest
        rows = cycle_rows(answer)
        oldest = rows[-1].number if rows else 0
        table.show(rows)
        older.set_enabled(bool(rows) and oldest > int(answer.get("first") or 0))
        newest.set_enabled(bool(reader.query.get("before")))

    async def open_before(number: int) -> None:
        reader.query = {"before": str(number)} if number else {}
        context.set_query(before=reader.query.get("before", ""))
        await reader.read()

    before = context.query.get("before", "")
    reader = RecordReader(context, show, **({"before": before} if before.isdecimal() else {}))
    newest.on_click(lambda: open_before(0))
    older.on_click(lambda: open_before(oldest))
    await reader.read()
    return reader.update


async def build_cycle(context: Context) -> None:
    """The page of one cycle."""
    number = context.parameters.get("number", "")
    heading(f"Cycle {number}")
    try:
        details = cycle_details(await read_history(context.viewer.session, number=number))
    except (CommandError, ApiError, ValueError) as error:
        nothing(str(error))
        link("All cycles", "/scheduler")
        return
    if details is None:
        nothing("The record has no cycle up to this one that decided something.")
        link("All cycles", "/scheduler")
        return
    _neighbours(details)
    _summary(context, details)
    if details.placed:
        with card("Pods placed"):
            _show(context, PLACED, details.placed, "Pods placed", "job", "placed-")
    if details.evicted:
        with card("Pods evicted"):
            _show(
                context,
                eviction_columns(context, with_cycle=False),
                details.evicted,
                "Pods evicted",
                "pod",
                "evicted-",
            )
    if details.changed:
        with card("Jobs that wait, or wait for another reason than before"):
            _show(context, WAITING, details.changed, "Changed reasons", "job", "changed-")
    if details.waiting:
        with card("Jobs that waited at its end"):
            ui.label(", ".join(f"{code} {count}" for code, count in details.codes())).classes("volcano-muted")
            _show(context, WAITING, details.waiting, "Waiting jobs", "job", "waiting-")


def _neighbours(details: CycleDetails) -> None:
    with ui.row().classes("items-center gap-4"):
        link("All cycles", "/scheduler")
        if details.row.number > details.first:
            link("Previous", cycle_address(details.row.number - 1))
        if details.asked < details.last:
            link("Next", cycle_address(details.asked + 1))


def _summary(context: Context, details: CycleDetails) -> None:
    row = details.row
    with card():
        if details.asked != row.number:
            text = f"Cycle {details.asked} changed nothing; this is cycle {row.number}, the last before it that did."
            ui.label(text).classes("font-semibold q-mb-sm")
        pairs = (
            ("Time", f"{timestamp(row.at)} ({span(max(context.objects.now - row.at, 0))} ago)"),
            ("Took", f"{row.seconds * 1000:.1f} ms, with {details.nodes} nodes and {details.jobs} jobs"),
            ("Decisions", f"pods placed {row.placed}, evicted {row.evicted}; jobs admitted {row.admitted}"),
            ("Admitted", ", ".join(details.admitted)),
            ("No longer wait", ", ".join(details.ended)),
            ("Errors", "; ".join(details.errors)),
        )
        facts((name, value) for name, value in pairs if value)


def _show(
    context: Context,
    columns: tuple[Column[Any], ...],
    rows: tuple[Any, ...],
    label: str,
    order: str,
    prefix: str,
) -> None:
    keys = {id(row): str(place) for place, row in enumerate(rows)}
    table: PagedTable[Any] = PagedTable(
        context, columns, key=lambda row: keys[id(row)], label=label, order=order, prefix=prefix
    )
    table.table.classes("volcano-plain")
    table.show(rows)


def _job_link(job: str) -> dict[str, str]:
    return {"text": job, "href": job_address(job)}


PLACED: tuple[Column[Placement], ...] = (
    Column("job", "Job", lambda row: _job_link(row.job), lambda row: row.job, LINK),
    Column("pods", "Pods", lambda row: row.pods, lambda row: row.pods, align="right"),
    Column("nodes", "Nodes", lambda row: row.nodes, None, WRAPPED),
)
WAITING: tuple[Column[WaitingRow], ...] = (
    Column("job", "Job", lambda row: _job_link(row.job), lambda row: row.job, LINK),
    Column("queue", "Queue", lambda row: row.queue, lambda row: row.queue, wide_only=True),
    Column("code", "Code", lambda row: row.code, lambda row: row.code),
    Column("message", "Message", lambda row: row.message, None, WRAPPED),
)
