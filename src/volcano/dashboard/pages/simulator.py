"""The page Simulator: reports of `volcano simulate`, opened and compared."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data.simulations import (
    Column,
    Listed,
    Report,
    ReportError,
    charts,
    columns_of,
    figures,
    find_reports,
    read_report,
)
from volcano.dashboard.pages.charts import Chart
from volcano.dashboard.pages.tables import LINK, PagedTable
from volcano.dashboard.pages.tables import Column as TableColumn
from volcano.dashboard.pages.widgets import card, heading, nothing
from volcano.simulate.results.summary import percent
from volcano.views.times import age

SELECTED = "reports"  # in the address
SEPARATOR = "//"  # of names there: it is in no relative path
MOST_COMPARED = 8
AGE = '<span :title="props.value.title">{{ props.value.text }}</span>'
EXAMPLE = "volcano simulate --trace workload.yaml --config default --config preempt --report first/"


async def build(context: Context) -> None:
    heading("Simulator")
    directory = context.options.reports
    if directory is None or not directory.is_dir():
        nothing("This dashboard has no directory of reports; `volcano dashboard --reports DIR` names one.")
        return
    # The page is shown before the directory is read: that can take long, such as on a disk of the network.
    ui.timer(0, _Simulator(context, directory).look_again, once=True)


class _Simulator:
    """State of one open page."""

    def __init__(self, context: Context, directory: Path) -> None:
        self._context = context
        self._directory = directory
        self._chosen = [name for name in context.query.get(SELECTED, "").split(SEPARATOR) if name][
            :MOST_COMPARED
        ]
        with ui.row().classes("w-full items-center gap-3"):
            ui.label(f"Reports of volcano simulate in {directory}").classes("volcano-muted grow")
            ui.button("Look again", icon="refresh", on_click=self.look_again).props("outline dense")
        self._empty = ui.column().classes("w-full").props("role=status")
        with self._empty:
            nothing("Looking for reports ...")
        self._table = PagedTable[Listed](
            context,
            (
                TableColumn("report", "Report", _link, lambda each: each.name, LINK),
                TableColumn("written", "Written", self._written, lambda each: each.written, AGE),
            ),
            key=lambda each: each.name,
            label="Reports",
            order="written",
            descending=True,
            on_select=self._on_select,
        )
        self._table.table.set_visibility(False)
        self._result = ui.column().classes("w-full gap-4")

    async def look_again(self) -> None:
        self._list(await asyncio.to_thread(find_reports, self._directory))
        await self.show_chosen()

    def _list(self, found: list[Listed]) -> None:
        self._empty.clear()
        self._table.table.set_visibility(bool(found))
        if not found:
            with self._empty:
                nothing(f"There is no report yet. One is written by: {EXAMPLE}")
        self._table.show(found)
        self._table.table.selected = [row for row in self._table.table.rows if row["id"] in self._chosen]

    def _written(self, each: Listed) -> dict[str, str]:
        moment = timestamp(each.written)
        return {"text": f"{age(moment, self._context.objects.now)} ago", "title": moment}

    def _on_select(self, names: list[str]) -> None:
        if names == self._chosen:
            return
        if len(names) > MOST_COMPARED:
            ui.notify(f"At most {MOST_COMPARED} reports are compared.", type="warning")
        self._chosen = names[:MOST_COMPARED]
        self._context.set_query(**{SELECTED: SEPARATOR.join(self._chosen)})
        ui.timer(0, self.show_chosen, once=True)

    async def show_chosen(self) -> None:
        """Shows the reports that are selected."""
        reports, errors = await asyncio.to_thread(_read, self._directory, self._chosen)
        self._result.clear()
        with self._result:
            for error in errors:
                ui.label(error).classes("text-negative").props("role=alert")
            if reports:
                _show(reports)
            elif not errors and self._table.table.rows:
                nothing("Select reports to see and compare them.")


def _link(each: Listed) -> dict[str, str]:
    return {"text": each.name, "href": f"/simulator?{urlencode({SELECTED: each.name})}"}


def _read(directory: Path, names: list[str]) -> tuple[list[Report], list[str]]:
    reports, errors = [], []
    for name in names:
        try:
            reports.append(read_report(directory, name))
        except ReportError as error:
            errors.append(str(error))
    return reports, errors


def _show(reports: list[Report]) -> None:
    columns = columns_of(reports)
    for report in reports:
        ui.label(report.title if report.title == report.name else f"{report.name}: {report.title}")
        for note in report.notes:
            ui.label(note).classes("volcano-muted")
    if any(column.summary.interrupted for column in columns):
        ui.label("A simulation was interrupted: its last configuration has partial figures.")
    with card("Results"):
        _figures(columns)
    drawn = charts(columns)
    if not drawn:
        nothing("These reports have no figures over time; `volcano simulate --report` writes them again.")
    with (
        ui.element("div")
        .classes("w-full grid gap-4")
        .style("grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr))")
    ):
        for chart in drawn:
            with card(chart.title):
                Chart(chart.title, unit="%" if chart.share else "", height="19rem").show_curves(chart)
    with card("Queues"):
        _queues(columns)
    if any(column.summary.reasons for column in columns):
        with card("Jobs that never started"):
            _reasons(columns)


def _figures(columns: list[Column]) -> None:
    described = [{"name": "figure", "label": "", "field": "figure", "align": "left"}]
    described += [
        {"name": f"c{position}", "label": column.label, "field": f"c{position}", "align": "right"}
        for position, column in enumerate(columns)
    ]
    rows = [
        {"figure": name, **{f"c{position}": value for position, value in enumerate(values)}}
        for name, values in figures(columns)
    ]
    _table("Results", described, rows, "figure")


def _queues(columns: list[Column]) -> None:
    names = ("configuration", "queue", "weight", "share", "deserved", "share of deserved")
    described = [
        {
            "name": name,
            "label": name.capitalize(),
            "field": name,
            "align": "left" if position < 2 else "right",
        }
        for position, name in enumerate(names)
    ]
    rows = [
        {
            "id": f"{column.label}/{queue.name}",
            "configuration": column.label,
            "queue": queue.name,
            "weight": f"{queue.weight:g}",
            "share": percent(queue.share),
            "deserved": percent(queue.deserved),
            "share of deserved": percent(queue.satisfaction) if queue.deserved else "no demand",
        }
        for column in columns
        for queue in column.summary.queues
    ]
    _table("Queues", described, rows, "id")


def _reasons(columns: list[Column]) -> None:
    described = [
        {"name": "configuration", "label": "Configuration", "field": "configuration", "align": "left"},
        {"name": "jobs", "label": "Jobs", "field": "jobs", "align": "right"},
        {"name": "reason", "label": "Reason", "field": "reason", "align": "left"},
    ]
    rows = [
        {"id": f"{column.label}/{reason}", "configuration": column.label, "jobs": count, "reason": reason}
        for column in columns
        for reason, count in column.summary.reasons.items()
    ]
    _table("Jobs that never started", described, rows, "id")


def _table(label: str, columns: list[dict[str, str]], rows: Sequence[Mapping[str, Any]], key: str) -> None:
    table = ui.table(
        rows=[dict(row) for row in rows],
        columns=columns,
        row_key=key,
        pagination=50 if len(rows) > 50 else None,
    )
    table.classes("w-full").props("flat dense wrap-cells")
    table.props["aria-label"] = label
