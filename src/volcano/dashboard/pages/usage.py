"""The page of usage: hours of GPUs and other resources by queue, user or namespace, with costs, as a chart and CSV."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from nicegui import ui

from volcano.accounting.api import DIMENSIONS, GPU, KINDS, PERIODS, USAGE
from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data.usage import MEASURES, NONE, RANGES, Wanted, bars, group_name, short_names
from volcano.dashboard.pages.charts import Chart
from volcano.dashboard.pages.tables import BAR, Column, PagedTable
from volcano.dashboard.pages.widgets import card, heading, nothing
from volcano.kube.api.errors import ApiError
from volcano.services.accounting import hours, number_text
from volcano.services.errors import ServiceError
from volcano.services.prices import Prices, parse_prices
from volcano.services.usage import TITLES, UsageGroup, UsageReport, csv_text, read_usage
from volcano.views.times import span

KIND = next(kind for kind in KINDS if kind.plural == USAGE)
REFRESHED = 60.0  # seconds
EXAMPLE = (
    "currency: EUR\nprices:        # for one hour\n  cpu: 0.03\n  memory: 0.004  # of a GiB\n  gpu: 1.80\n"
)


async def build(context: Context) -> None:
    heading("Usage")
    await UsagePage(context).build()


class UsagePage:
    """Controls, chart and table of one viewer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted = Wanted.of_query(context.query)
        self._prices: Prices | None = None
        self._report: UsageReport | None = None
        self._reads = 0

    async def build(self) -> None:
        namespaces = await self._namespaces()
        if namespaces is not None and not namespaces:
            nothing(
                "You may not list usage.accounting.volcano.sh, neither in the cluster nor in a namespace."
            )
            return
        if namespaces is not None and self._wanted.namespace not in namespaces:
            self._wanted = replace(self._wanted, namespace=namespaces[0])
        self._controls(namespaces)
        self._results = ui.column().classes("w-full gap-4")
        if self._context.viewer.prices:
            self._prices = parse_prices(self._context.viewer.prices.encode(), "prices")
        await self._read()
        ui.timer(REFRESHED, self._read, immediate=False)

    async def _namespaces(self) -> list[str] | None:
        """Namespaces whose usage the viewer may read; None for all of them together."""
        rights = self._context.viewer.rights
        if await rights.may("list", KIND):
            return None
        names = self._context.feed.namespaces()
        allowed = await asyncio.gather(*(rights.may("list", KIND, name) for name in names))
        return [name for name, may in zip(names, allowed, strict=True) if may]

    def _controls(self, namespaces: list[str] | None) -> None:
        queues = {
            "": "All queues",
            **{share.name: share.name for share in self._context.objects.board.queues},
        }
        spaces = {"": "All namespaces", **{name: name for name in self._context.feed.namespaces()}}
        if namespaces is not None:
            spaces = {name: name for name in namespaces}
        with ui.element("div").classes("w-full flex flex-wrap gap-3 items-center"):
            self._choice("by", "Group by", {name: TITLES[name] for name in DIMENSIONS})
            self._choice("range", "Time range", RANGES)
            self._choice(
                "period", "Table per", {"": "Whole range", **{name: name.title() for name in PERIODS}}
            )
            self._choice("measure", "Chart of", {"": "Automatic", **MEASURES})
            self._choice("queue", "Queue", _with(queues, self._wanted.queue))
            self._choice("namespace", "Namespace", _with(spaces, self._wanted.namespace))
            user = ui.input("User", value=self._wanted.user).props(
                "dense outlined clearable debounce=400 data-filter"
            )
            user.on_value_change(lambda event: self._change("user", str(event.value or "").strip()))
            ui.space()
            ui.button("Prices", icon="payments", on_click=self._ask_prices).props("flat")
            ui.button("CSV", icon="download", on_click=self._download).props("flat").props["aria-label"] = (
                "Download CSV"
            )

    def _choice(self, name: str, label: str, options: Mapping[str, str]) -> None:
        select = ui.select(dict(options), label=label, value=getattr(self._wanted, name))
        select.props("dense outlined options-dense").classes("min-w-32")
        select.on_value_change(lambda event: self._change(name, str(event.value or "")))

    async def _change(self, name: str, value: str) -> None:
        self._wanted = replace(self._wanted, **{name: value})
        self._context.set_query(**self._wanted.query(), page="", sort="")
        await self._read()

    async def _read(self) -> None:
        """Asks for the usage and shows it; an answer that comes after a newer question is dropped."""
        self._reads += 1
        mine, wanted = self._reads, self._wanted
        start, end = wanted.bounds(self._context.viewer.connection.clock.now().wall)
        try:
            report = await self._ask(wanted, wanted.period, start, end)
            divided = report
            if wanted.chart_period != wanted.period:
                divided = await self._ask(wanted, wanted.chart_period, start, end)
        except (ApiError, ServiceError) as error:
            if mine == self._reads:
                self._show_error(str(error))
            return
        if mine != self._reads:
            return
        self._report = report
        self._results.clear()
        with self._results:
            self._show(report, divided)
            for note in report.notes:
                ui.label(f"Warning: {note}").classes("volcano-muted")

    async def _ask(self, wanted: Wanted, period: str, start: float, end: float) -> UsageReport:
        return await read_usage(
            self._context.viewer.connection.client,
            start=start,
            end=end,
            by=(wanted.by,),
            period=period,
            namespace=wanted.namespace,
            queue=wanted.queue,
            user=wanted.user,
            prices=self._prices,
        )

    def _show_error(self, text: str) -> None:
        self._report = None
        self._results.clear()
        with self._results, card():
            ui.label(text).props('role="alert"')

    def _show(self, report: UsageReport, divided: UsageReport) -> None:
        chart = bars(divided, self._wanted)
        with card(f"{chart.title} by {TITLES[self._wanted.by].lower()}"):
            ui.label(f"From {timestamp(report.start)} to {timestamp(report.end)}").classes(
                "volcano-muted text-sm"
            )
            Chart(f"Usage by {self._wanted.chart_period}", height="18rem").show_groups(
                short_names(chart.periods), chart.groups, sentence=chart.sentence()
            )
        table = PagedTable(
            self._context,
            _columns(report),
            key=lambda row: f"{row.period} {group_name(row)}",
            label="Usage",
            order="part" if not self._wanted.period else "period",
            descending=not self._wanted.period,
            empty="No pods ran in this time.",
        )
        table.show(report.rows)
        if len(report.rows) > 1:
            ui.label(f"Total: {_total(report)}").classes("font-semibold")

    def _download(self) -> None:
        if self._report is None:
            ui.notify("There is nothing to download.", type="warning")
            return
        name = f"usage-by-{self._wanted.by}-{self._wanted.range}.csv"
        ui.download.content(csv_text(self._report), name, media_type="text/csv")

    async def _ask_prices(self) -> None:
        with ui.dialog() as dialog, ui.card().classes("w-full"):
            heading("Prices", 2)
            ui.label("In the format of `vcctl usage --prices`. They are kept until you log out.").classes(
                "volcano-muted"
            )
            text = ui.textarea("YAML", value=self._context.viewer.prices or EXAMPLE).classes(
                "w-full font-mono"
            )
            problem = ui.label().style("color: var(--volcano-bad)").props('role="alert"')
            with ui.row().classes("w-full justify-end"):
                ui.button("Cancel", on_click=lambda: dialog.submit(None)).props("flat")
                ui.button("Without prices", on_click=lambda: dialog.submit("")).props("flat")
                ui.button("Use prices", on_click=lambda: self._use(dialog, text.value, problem))
        answer = await dialog
        dialog.delete()
        if answer is not None:
            self._context.viewer.prices = str(answer)
            self._prices = parse_prices(str(answer).encode(), "prices") if answer else None
            await self._read()

    def _use(self, dialog: ui.dialog, text: str, problem: ui.label) -> None:
        try:
            parse_prices(text.encode(), "prices")
        except ServiceError as error:
            problem.set_text(str(error))
        else:
            dialog.submit(text)


def _with(options: dict[str, str], value: str) -> dict[str, str]:
    """The options with a value of the address that is not among them, such as a queue that was deleted."""
    return options if value in options else {**options, value: value}


def _columns(report: UsageReport) -> list[Column[UsageGroup]]:
    total = report.size(report.total)

    def part(row: UsageGroup) -> dict[str, object]:
        share = report.size(row) / total if total else 0.0
        return {"part": share, "text": f"{share:.0%}"}

    divided = any(row.period for row in report.rows)
    return [
        *([_text("period", "Period", lambda row: row.period)] if divided else []),
        *(_text(name, TITLES[name], partial(_group_value, name)) for name in report.by),
        *([_hours("GPU hours", GPU)] if report.total.resources.get(GPU) else []),
        _hours("CPU hours", "cpu", wide_only=bool(report.total.resources.get(GPU))),
        _hours("GiB hours", "memory", wide_only=True),
        *([_cost(report.prices)] if report.prices is not None else []),
        _number("runs", "Pods", lambda row: row.runs, "{:,.0f}".format, wide_only=True),
        _number("evictions", "Evicted", lambda row: row.evictions, "{:,.0f}".format, wide_only=True),
        _number("waited", "Waited", lambda row: row.mean_waiting, span, wide_only=True),
        Column("part", "Share", part, report.size, BAR),
    ]


def _text(name: str, label: str, value: Callable[[UsageGroup], str]) -> Column[UsageGroup]:
    return Column(name, label, value, value)


def _group_value(name: str, row: UsageGroup) -> str:
    return row.group[name] or NONE


def _number(
    name: str,
    label: str,
    value: Callable[[UsageGroup], float],
    text: Callable[[float], str],
    *,
    wide_only: bool = False,
) -> Column[UsageGroup]:
    return Column(name, label, lambda row: text(value(row)), value, align="right", wide_only=wide_only)


def _hours(label: str, resource: str, *, wide_only: bool = False) -> Column[UsageGroup]:
    return _number(
        resource, label, lambda row: hours(row.resources, resource), number_text, wide_only=wide_only
    )


def _cost(prices: Prices) -> Column[UsageGroup]:
    return _number("cost", f"Cost {prices.currency}".strip(), lambda row: row.cost, "{:,.2f}".format)


def _total(report: UsageReport) -> str:
    total = report.total
    parts = [f"{number_text(hours(total.resources, GPU))} GPU hours"] if total.resources.get(GPU) else []
    parts += [f"{number_text(hours(total.resources, 'cpu'))} CPU hours", f"{total.runs:,} pods"]
    if report.prices is not None:
        parts.append(f"cost {total.cost:,.2f} {report.prices.currency}".strip())
    return ", ".join(parts)
