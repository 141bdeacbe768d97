"""The overview: what needs attention, the state in numbers, and the last hour in charts."""

from collections.abc import Sequence

from nicegui import ui

from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.data import overview as data
from volcano.dashboard.data.attention import Item, Severity, Subject, attention
from volcano.dashboard.data.overview import Figure
from volcano.dashboard.pages.charts import Chart, last_hour
from volcano.dashboard.pages.widgets import card, heading, link, nothing
from volcano.dashboard.samples import visible
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP, QUEUE
from volcano.views.times import span

LOOKS = {
    Severity.ERROR: ("error", "bad"),
    Severity.WARNING: ("warning", "warn"),
    Severity.NOTE: ("info", "info"),
}


async def build(context: Context) -> None:
    heading("Overview")
    figures = ui.element("div").classes("w-full volcano-figures")
    with card("Needs attention"):
        items = (
            ui.column().classes("w-full gap-0").props('role="list" aria-label="Items that need attention"')
        )
    charts = Charts(context)
    shown: dict[str, object] = {}

    def update() -> None:
        objects = context.objects
        numbers = objects.get(data.figures)
        if shown.get("figures") != numbers:
            shown["figures"] = numbers
            _show_figures(figures, numbers)
        found = objects.get(attention)
        ages = [[_age(subject, objects.now) for subject in item.subjects] for item in found]
        if shown.get("items") != (found, ages):
            shown["items"] = (found, ages)
            _show_items(items, found, objects.now, _not_seen(context))
        charts.update()

    update()
    context.on_change(update)


def _show_figures(container: ui.element, figures: Sequence[Figure]) -> None:
    container.clear()
    with container:
        for figure in figures:
            with ui.element("section").classes("volcano-card volcano-figure"):
                if figure.address:
                    link(figure.name, figure.address)
                else:
                    ui.label(figure.name).classes("volcano-muted")
                ui.label(figure.value).classes("text-lg font-semibold")
                if figure.part is not None:
                    bar = ui.linear_progress(figure.part, show_value=False, size="6px").props("rounded")
                    bar.props["aria-label"] = f"{figure.name}: {figure.value}"
                ui.label(figure.text).classes("volcano-muted text-sm")


def _show_items(container: ui.element, items: Sequence[Item], now: float, missing: str) -> None:
    container.clear()
    with container:
        for item in items:
            _show_item(item, now)
        if not items:
            nothing("Nothing needs attention.")
        if missing:
            ui.label(missing).classes("volcano-muted text-sm q-pa-sm")


def _show_item(item: Item, now: float) -> None:
    icon, colour = LOOKS[item.severity]
    with ui.element("div").classes("volcano-item").props('role="listitem"'):
        ui.icon(icon, size="sm").style(f"color: var(--volcano-{colour})").props(
            f'role="img" aria-hidden="false" aria-label="{item.severity}"'
        )
        with ui.element("div").classes("min-w-0"):
            with ui.row().classes("items-baseline gap-x-3 gap-y-0"):
                ui.label(item.title).classes("font-semibold")
                ui.label(item.text).classes("volcano-muted")
            for subject in item.subjects:
                _show_subject(subject, now)
            if item.count > len(item.subjects):
                link(f"All {item.count}", item.address)


def _show_subject(subject: Subject, now: float) -> None:
    with ui.row().classes("items-baseline gap-x-3 gap-y-0 text-sm"):
        if subject.address:
            link(subject.name, subject.address)
        else:
            ui.label(subject.name)
        if subject.since:
            with ui.label(_age(subject, now)).classes("volcano-muted"):
                ui.tooltip(timestamp(subject.since))
        if subject.text:
            ui.label(subject.text).classes("volcano-subject").props["title"] = subject.text


def _age(subject: Subject, now: float) -> str:
    return f"for {span(max(now - subject.since, 0.0))}" if subject.since else ""


def _not_seen(context: Context) -> str:
    """What of the attention items the viewer may not see."""
    scopes = context.objects.scopes
    missing = [kind.plural for kind in (QUEUE, NODE) if not scopes.of(kind)]
    partly = [kind.plural for kind in (JOB, POD_GROUP, POD) if not scopes.everywhere(kind)]
    parts = []
    if missing:
        parts.append(f"You may not list {' and '.join(missing)}.")
    if partly:
        parts.append(
            f"{', '.join(partly).capitalize()} are shown of the namespaces in which you may list them."
        )
    return " ".join(parts)


class Charts:
    """Four charts of the last hour."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._version = -1
        with ui.element("div").classes("w-full volcano-charts"):
            with card("Utilisation"):
                self._text_of_use = ui.label().classes("volcano-muted text-sm")
                self._use = Chart("Requested part of each resource in the last hour", unit="%")
            with card("Jobs"):
                ui.label("Jobs that run and wait.").classes("volcano-muted text-sm")
                self._jobs = Chart("Running and waiting jobs in the last hour", whole_numbers=True)
            with card("Throughput"):
                self._text_of_ends = ui.label().classes("volcano-muted text-sm")
                self._ends = Chart("Jobs that ended in the last hour, by minute", whole_numbers=True)
            with card("Cycle time"):
                self._text_of_cycles = ui.label().classes("volcano-muted text-sm")
                self._cycles = Chart("Time of scheduling cycles in the last hour, by minute", unit="ms")
        ui.label("Times are in UTC; one sample every ten seconds.").classes("volcano-muted text-sm")

    def update(self) -> None:
        samples = self._context.feed.samples
        if samples.version == self._version:
            return
        self._version = samples.version
        scopes = self._context.objects.scopes
        seen = [visible(sample, scopes) for sample in samples.all()]
        last = seen[-1].at if seen else self._context.objects.now
        bounds = last_hour(seen[0].at if seen else last, last)
        used = {line.name: line.points for line in data.utilisation(seen)}
        use_text = data.now_sentence(data.utilisation(seen[-1:]), " %")
        may_see_use = scopes.everywhere(NODE) and scopes.everywhere(POD)
        self._text_of_use.set_text(
            f"Requested of what the nodes offer: {use_text}." if may_see_use else
            "It is shown to viewers who may list all nodes and pods."
        )  # fmt: skip
        self._use.show_lines(used, sentence=use_text, most=100, **bounds)
        if scopes.everywhere(JOB):
            lines = data.jobs(seen)
            self._jobs.show_lines(_by_name(lines), sentence=data.now_sentence(lines, ""), **bounds)
            text = data.ended_sentence(seen)
            self._text_of_ends.set_text(text)
            self._ends.show_bars(_by_name(data.throughput(seen)), sentence=text, **bounds)
            text = data.cycle_sentence(seen)
            self._text_of_cycles.set_text(text)
            self._cycles.show_lines(_by_name(data.cycle_times(seen)), sentence=text, **bounds)
        else:
            for label in (self._text_of_ends, self._text_of_cycles):
                label.set_text("It is shown to viewers who may list all jobs.")


def _by_name(lines: Sequence[data.Line]) -> dict[str, Sequence[tuple[int, float]]]:
    return {line.name: line.points for line in lines}
