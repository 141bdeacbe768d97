"""Evictions of the scheduler, with the jobs that they made room for."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from volcano.analysis.explain.case import shown_name
from volcano.analysis.explain.explanations import Eviction
from volcano.analysis.explain.recorded import evictions
from volcano.dashboard.context import Context
from volcano.dashboard.data.cycles import cycle_link, job_address, job_link
from volcano.dashboard.pages.scheduler.record import RecordReader
from volcano.dashboard.pages.tables import LINK, Column, PagedTable
from volcano.scheduler.history.queries import Evictions
from volcano.services.explain.record import read_evictions
from volcano.views.times import span

WRAPPED = '<span class="volcano-message">{{ props.value }}</span>'


def eviction_columns(context: Context, *, with_cycle: bool = True) -> tuple[Column[Eviction], ...]:
    cycle: tuple[Column[Eviction], ...] = (
        Column("cycle", "Cycle", lambda row: cycle_link(row.cycle), lambda row: row.cycle, LINK),
        Column("age", "Age", lambda row: span(max(context.objects.now - row.at, 0)), lambda row: -row.at),
    )  # fmt: skip
    return (
        *(cycle if with_cycle else ()),
        Column(
            "pod", "Pod", lambda row: {"text": row.victim.pod, "href": job_address(row.victim.job)},
            lambda row: row.victim.pod, LINK,
        ),
        Column("node", "Node", lambda row: row.victim.node, lambda row: row.victim.node, wide_only=True),
        Column("action", "Action", lambda row: row.victim.action, lambda row: row.victim.action),
        Column("for", "For", lambda row: job_link(row.victim.beneficiary), lambda row: row.victim.beneficiary, LINK),
        Column("ran", "Ran", _ran, lambda row: row.victim.running, wide_only=True),
        Column("why", "Why", lambda row: shown_name(row.why), None, WRAPPED, wide_only=True),
    )  # fmt: skip


def _ran(row: Eviction) -> str:
    return span(row.victim.running) if row.victim.running else ""


async def build(context: Context) -> Callable[[], Awaitable[None]]:
    """The tab with the last evictions; returns what updates it."""
    ui.label(
        "Pods that the scheduler evicted, the newest first, with the job that each made room for."
    ).classes("volcano-muted")
    table: PagedTable[Eviction] = PagedTable(
        context,
        eviction_columns(context),
        key=lambda row: f"{row.cycle} {row.victim.pod}",
        label="Evictions",
        order="cycle",
        descending=True,
        prefix="evictions-",
        empty="The record has no evictions.",
    )

    def show(answer: Evictions) -> None:
        table.show(evictions(answer.evictions))

    reader = RecordReader(context, show, lambda: read_evictions(context.viewer.connection.client))
    await reader.read()
    return reader.update
