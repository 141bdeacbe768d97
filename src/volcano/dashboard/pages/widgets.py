"""Elements that several pages use."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nicegui import ui

from volcano.base.clock import timestamp
from volcano.views.times import span

STATIC = Path(__file__).parents[1] / "static"  # files that browsers load
# Colour of each phase of jobs, PodGroups, pods, queues and nodes; the name is always written beside it.
GOOD, WARN, BAD, INFO, IDLE = "good", "warn", "bad", "info", "idle"
PHASES: Mapping[str, str] = {
    "Running": INFO, "Completed": GOOD, "Succeeded": GOOD, "Completing": GOOD, "Failed": BAD, "Aborted": IDLE,
    "Aborting": IDLE, "Terminated": BAD, "Terminating": WARN, "Restarting": WARN, "Pending": WARN, "Inqueue": WARN,
    "Unknown": BAD, "Open": GOOD, "Closed": IDLE, "Closing": WARN, "Ready": GOOD, "NotReady": BAD,
    "ContainerCreating": INFO, "Suspended": IDLE,
}  # fmt: skip


def colour_of(phase: str) -> str:
    """CSS colour of a phase; that of an error for a reason such as CrashLoopBackOff."""
    name = PHASES.get(phase.partition(",")[0])
    if name is None:
        name = BAD if phase.endswith(("Error", "BackOff", "Killed", "Evicted")) else WARN
    return f"var(--volcano-{name})"


def heading(text: str, level: int = 1) -> ui.element:
    size = {1: "text-2xl font-semibold", 2: "text-lg font-semibold"}[level]
    element = ui.element(f"h{level}").classes(f"{size} m-0")
    with element:
        ui.label(text)
    return element


@contextmanager
def card(title: str = "", classes: str = "w-full") -> Iterator[ui.element]:
    """A bordered part of a page, with a title."""
    with ui.element("section").classes(f"volcano-card {classes}") as section:
        if title:
            heading(title, 2).classes("q-mb-sm")
        yield section


def phase(text: str) -> ui.element:
    """A coloured dot and the name of a phase."""
    with ui.row(wrap=False).classes("items-center gap-2") as row:
        ui.element("span").style(
            f"width: .65rem; height: .65rem; border-radius: 50%; flex: none; background: {colour_of(text)}"
        ).props("aria-hidden=true")
        ui.label(text)
    return row


def link(text: str, target: str) -> ui.link:
    return ui.link(text, target).classes("volcano-link")


def facts(pairs: Iterable[tuple[str, str | tuple[str, str]]]) -> None:
    """Names and values, one line each; a value with an address is a link."""
    with ui.element("dl").classes("grid gap-x-6 gap-y-1 m-0").style("grid-template-columns: max-content 1fr"):
        for name, value in pairs:
            with ui.element("dt").classes("volcano-muted"):
                ui.label(name)
            with ui.element("dd").classes("m-0 break-words"):
                if isinstance(value, tuple):
                    link(*value)
                else:
                    ui.label(value)


def nothing(text: str) -> None:
    """Shown in place of an empty list."""
    ui.label(text).classes("volcano-muted q-pa-md")


# A cell of a small table: text, or a text with the address that it links to.
Cell = str | tuple[str, str]


def small_table(label: str, columns: Iterable[str], rows: Iterable[Iterable[Cell]]) -> ui.table:
    """A table of a few rows that does not change; wider than the screen, it scrolls. Empty columns are left out."""
    given = [list(row) for row in rows]
    kept = [
        (place, str(place), title)
        for place, title in enumerate(columns)
        if not given or any(row[place] for row in given)
    ]
    table = ui.table(
        columns=[{"name": name, "label": title, "field": name, "align": "left"} for _, name, title in kept],
        rows=[
            {"id": number, **{name: _small_cell(row[place]) for place, name, _ in kept}}
            for number, row in enumerate(given)
        ],
        row_key="id",
    )
    table.props("flat dense hide-bottom wrap-cells").classes("w-full")
    table.props["role"], table.props["aria-label"] = "region", label
    table.add_slot(
        "body-cell",
        '<q-td :props="props"><a v-if="props.value.href" class="volcano-link" :href="props.value.href">'
        "{{ props.value.text }}</a><template v-else>{{ props.value.text }}</template></q-td>",
    )
    return table


def _small_cell(cell: Cell) -> dict[str, str]:
    return {"text": cell} if isinstance(cell, str) else {"text": cell[0], "href": cell[1]}


def time_cell(moment: float, now: float) -> dict[str, str]:
    """A cell of the template TIME: the age as the command line prints it, with the time as a tooltip."""
    return {"text": span(now - moment), "title": timestamp(moment)}
