"""Evictions of the scheduler, with the jobs that they made room for."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from volcano.dashboard.context import Context
from volcano.dashboard.data.cycles import EvictionRow, cycle_address, eviction_rows, job_address
from volcano.dashboard.pages.scheduler.record import RecordReader
from volcano.dashboard.pages.tables import LINK, Column, PagedTable
from volcano.views.times import span

WRAPPED = '<span class="volcano-message">{{ props.value }}</span>'


def eviction_columns(context: Context, *, with_cycle: bool = True) -> tuple[Column[EvictionRow], ...]:
    cycle: tuple[Column[EvictionRow], ...] = (
        Column(
            "cycle", "Cycle", lambda row: {"text": str(row.cycle), "href": cycle_address(row.cycle)},
            lambda row: row.cycle, LINK,
        ),
        Column("age", "Age", lambda row: span(max(context.objects.now - row.at, 0)), lambda row: -row.at),
    )  # fmt: skip
    return (
        *(cycle if with_cycle else ()),
        Column("pod", "Pod", lambda row: {"text": row.pod, "href": job_address(row.job)}, lambda row: row.pod, LINK),
        Column("node", "Node", lambda row: row.node, lambda row: row.node, wide_only=True),
        Column("action", "Action", lambda row: row.action, lambda row: row.action),
        Column(
            "for", "For", lambda row: {"text": row.beneficiary, "href": job_address(row.beneficiary)},
            lambda row: row.beneficiary, LINK,
        ),
        Column("ran", "Ran", _ran, lambda row: row.running, wide_only=True),
        Column("why", "Why", lambda row: row.why, None, WRAPPED, wide_only=True),
    )  # fmt: skip


def _ran(row: EvictionRow) -> str:
    return span(row.running) if row.running else ""


async def build(context: Context) -> Callable[[], Awaitable[None]]:
    """The tab with the last evictions; returns what updates it."""
    ui.label(
        "Pods that the scheduler evicted, the newest first, with the job that each made room for."
    ).classes("volcano-muted")
    table: PagedTable[EvictionRow] = PagedTable(
        context,
        eviction_columns(context),
        key=lambda row: f"{row.cycle} {row.pod}",
        label="Evictions",
        order="cycle",
        descending=True,
        prefix="evictions-",
        empty="The record has no evictions.",
    )

    def show(answer: Mapping[str, Any]) -> None:
        table.show(eviction_rows(answer.get("evictions") or ()))

    reader = RecordReader(context, show, evictions="true")
    await reader.read()
    return reader.update
