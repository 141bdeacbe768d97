"""The page of queues: the tree with a bar per resource, and shares over time."""

from collections.abc import Callable
from typing import Any

from nicegui import events, ui

from volcano.analysis.explain.case import counted
from volcano.dashboard.context import Context
from volcano.dashboard.data.queues import QueueRow, queue_rows, top_level, visible_rows
from volcano.dashboard.pages.bars import CLUSTER, OWN, BarRows, legend, tree_row
from volcano.dashboard.pages.share_charts import SharesChart
from volcano.dashboard.pages.widgets import card, heading, nothing
from volcano.kube.api.kinds import NODE, QUEUE

SCALES = {CLUSTER: "the cluster", OWN: "each queue"}
MOST_ROWS = 300
STATES = {"": "All states", "Open": "Open", "Closing": "Closing", "Closed": "Closed", "Unknown": "Unknown"}


async def build(context: Context) -> None:
    heading("Queues")
    if not context.objects.scopes.everywhere(QUEUE):
        nothing("You may not list queues.")
        return
    QueueTree(context).build()


class QueueTree:
    """The tree; collapsed queues, the filter and the scale are in the address."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._collapsed = set(filter(None, context.query.get("collapsed", "").split(",")))

    def build(self) -> None:
        self._controls()
        with card():
            with ui.row().classes("w-full justify-between items-center q-mb-sm"):
                self._summary = ui.label().classes("volcano-muted")
                legend()
            self._rows = BarRows("Queues", self._toggle)
            self._note = ui.label().classes("volcano-muted q-pa-sm")
        self._chart = SharesChart(self._context)
        if not self._context.objects.scopes.everywhere(NODE):
            nothing("You may not list nodes: the size of the cluster and deserved amounts are not known.")
        self.update()
        self._context.on_change(self.update)

    def _controls(self) -> None:
        query = self._context.query
        with ui.row().classes("w-full items-center gap-4"):
            text = ui.input("Filter by name", value=query.get("text", ""), on_change=self._set("text"))
            text.props("dense outlined clearable data-filter debounce=200")
            state = query.get("state", "")
            ui.select(STATES, value=state if state in STATES else "", on_change=self._set("state")).props(
                'dense outlined aria-label="State"'
            )
            scale = query.get("scale", CLUSTER)
            ui.select(
                SCALES,
                value=scale if scale in SCALES else CLUSTER,
                label="Full width is",
                on_change=self._set("scale", default=CLUSTER),
            ).props("dense outlined").classes("min-w-32")

    def update(self) -> None:
        rows = self._context.objects.get(queue_rows)
        query = self._context.query
        text, state = query.get("text", ""), query.get("state", "")
        found = visible_rows(rows, collapsed=self._collapsed, text=text, state=state)
        scale = query.get("scale", CLUSTER)
        self._rows.show(
            [
                tree_row(row, scale=scale, collapsed=self._collapsed, is_filtered=bool(text or state))
                for row in found[:MOST_ROWS]
            ]
        )
        self._summary.set_text(_counted(rows))
        self._chart.show(top_level(rows))
        hidden = len(found) - MOST_ROWS
        note = f"{hidden} more queues are not shown; filter or collapse some." if hidden > 0 else ""
        self._note.set_text(note if found else "No queue matches.")
        self._note.set_visibility(bool(self._note.text))

    def _set(self, name: str, default: str = "") -> Callable[[events.ValueChangeEventArguments[Any]], None]:
        def change(event: events.ValueChangeEventArguments[Any]) -> None:
            value = str(event.value or "")
            self._context.set_query(**{name: "" if value == default else value})
            self.update()

        return change

    def _toggle(self, name: str) -> None:
        self._collapsed ^= {name}
        self._context.set_query(collapsed=",".join(sorted(self._collapsed)))
        self.update()


def _counted(rows: tuple[QueueRow, ...]) -> str:
    closed = sum(row.state != "Open" for row in rows)
    text = counted(len(rows), "queue") + (f", {closed} not open" if closed else "")
    top = [row for row in rows if row.depth == 0]
    running, pending = sum(row.running for row in top), sum(row.pending for row in top)
    return f"{text}; {counted(running, 'job')} running, {pending} pending"
