"""Cycles of the scheduler: the list, and the page of one cycle with its decisions."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nicegui import ui

from volcano.analysis.explain.case import shown_name
from volcano.analysis.explain.recorded import eviction
from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data.cycles import codes_text, cycle_address, cycle_link, job_link, nodes_text
from volcano.dashboard.pages.scheduler.evictions import eviction_columns
from volcano.dashboard.pages.scheduler.record import RecordReader
from volcano.dashboard.pages.tables import LINK, Column, PagedTable
from volcano.dashboard.pages.widgets import card, facts, heading, link, nothing
from volcano.kube.api.errors import ApiError
from volcano.scheduler.history.queries import CycleList, OneCycle, Summary
from volcano.scheduler.history.records import Cycle, Placed, Waiting
from volcano.services.errors import NotFoundError, ServiceError
from volcano.services.explain.record import read_cycle, read_cycles
from volcano.views.times import span

WRAPPED = '<span class="volcano-message">{{ props.value }}</span>'


def _columns(context: Context) -> tuple[Column[Summary], ...]:
    def number(name: str, label: str, *, wide_only: bool = False) -> Column[Summary]:
        def value(row: Summary) -> int:
            return int(getattr(row, name))

        return Column(name, label, value, value, align="right", wide_only=wide_only)

    return (
        Column("number", "Cycle", lambda row: cycle_link(row.number), lambda row: row.number, LINK),
        Column("age", "Age", lambda row: span(max(context.objects.now - row.at, 0)), lambda row: -row.at),
        Column("time", "Time", lambda row: timestamp(row.at), lambda row: row.at, wide_only=True),
        Column("took", "Took", lambda row: f"{row.seconds * 1000:.0f} ms", lambda row: row.seconds, align="right"),
        number("placed", "Placed"),
        number("evicted", "Evicted"),
        number("admitted", "Admitted", wide_only=True),
        number("changed", "Reasons changed", wide_only=True),
        number("waiting", "Waiting"),
    )  # fmt: skip


async def build(context: Context) -> Callable[[], Awaitable[None]]:
    """The tab with the list; returns what updates it."""
    ui.label(
        "Cycles that decided something or found another reason why a job waits: pods that were placed and evicted, "
        "jobs that were admitted, whose reason changed, and that still waited."
    ).classes("volcano-muted")
    table: PagedTable[Summary] = PagedTable(
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
    asked = context.query.get("before", "")
    before, oldest = int(asked) if asked.isdecimal() else 0, 0  # numbers of cycles; 0: none

    def show(answer: CycleList) -> None:
        nonlocal oldest
        oldest = answer.cycles[-1].number if answer.cycles else 0
        table.show(answer.cycles)
        older.set_enabled(oldest > answer.first)
        newest.set_enabled(before > 0)

    async def open_before(number: int) -> None:
        nonlocal before
        before = number
        context.set_query(before=str(number or ""))
        await reader.read()

    reader = RecordReader(context, show, lambda: read_cycles(context.viewer.connection.client, before=before))
    newest.on_click(lambda: open_before(0))
    older.on_click(lambda: open_before(oldest))
    await reader.read()
    return reader.update


async def build_cycle(context: Context) -> None:
    """The page of one cycle."""
    number = context.parameters.get("number", "")
    heading(f"Cycle {number}")
    try:
        if not number.isdecimal():
            raise NotFoundError(f"{number!r} is not the number of a cycle")
        found = await read_cycle(context.viewer.connection.client, int(number))
    except (ServiceError, ApiError) as error:
        nothing(str(error))
        link("All cycles", "/scheduler")
        return
    cycle = found.cycle
    if cycle is None:
        nothing("The record has no cycle up to this one that decided something.")
        link("All cycles", "/scheduler")
        return
    _neighbours(found, cycle)
    _summary(context, found, cycle)
    if cycle.placed:
        with card("Pods placed"):
            _show(context, PLACED, cycle.placed, "Pods placed", "job", "placed-")
    if cycle.evicted:
        rows = [eviction(cycle.number, cycle.at, each) for each in cycle.evicted]
        with card("Pods evicted"):
            _show(
                context, eviction_columns(context, with_cycle=False), rows, "Pods evicted", "pod", "evicted-"
            )
    if cycle.diagnoses:
        with card("Jobs that wait, or wait for another reason than before"):
            _show(context, WAITING, cycle.diagnoses, "Changed reasons", "job", "changed-")
    if found.diagnoses:
        with card("Jobs that waited at its end"):
            ui.label(codes_text(found)).classes("volcano-muted")
            _show(context, WAITING, found.diagnoses, "Waiting jobs", "job", "waiting-")


def _neighbours(found: OneCycle, cycle: Cycle) -> None:
    with ui.row().classes("items-center gap-4"):
        link("All cycles", "/scheduler")
        if cycle.number > found.first:
            link("Previous", cycle_address(cycle.number - 1))
        if found.asked < found.last:
            link("Next", cycle_address(found.asked + 1))


def _summary(context: Context, found: OneCycle, cycle: Cycle) -> None:
    placed = sum(len(each.pods) for each in cycle.placed)
    with card():
        if found.asked != cycle.number:
            text = f"Cycle {found.asked} changed nothing; this is cycle {cycle.number}, the last before it that did."
            ui.label(text).classes("font-semibold q-mb-sm")
        pairs = (
            ("Time", f"{timestamp(cycle.at)} ({span(max(context.objects.now - cycle.at, 0))} ago)"),
            ("Took", f"{cycle.seconds * 1000:.1f} ms, with {cycle.nodes} nodes and {cycle.jobs} jobs"),
            (
                "Decisions",
                f"pods placed {placed}, evicted {len(cycle.evicted)}; jobs admitted {len(cycle.admitted)}",
            ),
            ("Admitted", shown_name(", ".join(cycle.admitted))),
            ("No longer wait", shown_name(", ".join(cycle.ended))),
            ("Errors", "; ".join(cycle.errors)),
        )
        facts((name, value) for name, value in pairs if value)


def _show(
    context: Context,
    columns: tuple[Column[Any], ...],
    rows: Sequence[Any],
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


PLACED: tuple[Column[Placed], ...] = (
    Column("job", "Job", lambda row: job_link(row.job), lambda row: row.job, LINK),
    Column("pods", "Pods", lambda row: len(row.pods), lambda row: len(row.pods), align="right"),
    Column("nodes", "Nodes", nodes_text, None, WRAPPED),
)
WAITING: tuple[Column[Waiting], ...] = (
    Column("job", "Job", lambda row: job_link(row.job), lambda row: row.job, LINK),
    Column("queue", "Queue", lambda row: row.queue, lambda row: row.queue, wide_only=True),
    Column("code", "Code", lambda row: row.code, lambda row: row.code),
    Column("message", "Message", lambda row: row.message, None, WRAPPED),
)
