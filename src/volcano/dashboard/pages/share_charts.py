"""Charts of the shares of queues over the last hour."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import events, ui

from volcano.dashboard.context import Context
from volcano.dashboard.data.queue_history import MOST_LINES, ShareHistory, queue_history, share_history
from volcano.dashboard.data.queues import QueueRow
from volcano.dashboard.pages.charts import Chart, last_hour
from volcano.dashboard.pages.widgets import card
from volcano.dashboard.samples import Sample, visible
from volcano.views.amounts import short_name


class _History:
    """A chart of samples that is drawn again when there is a new one, or when something else is to be shown."""

    def __init__(self, context: Context, label: str) -> None:
        self._context = context
        self._shown: object = None
        self._chart = Chart(label, unit="%")
        self._none = ui.label("Nothing is known of the last hour yet.").classes("volcano-muted")

    def show(self, key: object, history: Callable[[Sequence[Sample]], ShareHistory]) -> None:
        samples = self._context.feed.samples
        if (samples.version, key) == self._shown:
            return
        self._shown = (samples.version, key)
        scopes = self._context.objects.scopes
        found = history([visible(sample, scopes) for sample in samples.all()])
        known = any(found.lines.values())
        self._chart.element.set_visibility(known)
        self._none.set_visibility(not known)
        last = self._context.objects.now
        begun = min((line[0][0] / 1000 for line in found.lines.values() if line), default=last)
        self._chart.show_lines(found.lines, sentence=found.sentence, **last_hour(begun, last))


class SharesChart:
    """Dominant shares of several queues."""

    def __init__(self, context: Context) -> None:
        with card("Share of the cluster over the last hour"):
            ui.label(
                f"The largest part of any resource that a queue of the top level holds; at most {MOST_LINES} queues."
            ).classes("volcano-muted")
            self._history = _History(context, "Share of queues over the last hour")

    def show(self, rows: Sequence[QueueRow]) -> None:
        names = tuple(row.name for row in rows)
        self._history.show(names, lambda samples: share_history(samples, rows))


class QueueChart:
    """What one queue holds and deserves of a resource, which is chosen and is in the address."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._resources: list[str] = []
        with card("Share over the last hour"):
            with ui.row():
                self._choice = ui.select([], label="Resource", on_change=self._chosen).props("dense outlined")
            self._choice.classes("min-w-36")
            self._history = _History(context, f"Share of queue {name} over the last hour")

    def show(self, row: QueueRow) -> None:
        resources = [bar.resource for bar in row.bars]
        if resources != self._resources:
            self._resources = resources
            self._choice.set_options(
                {name: short_name(name) for name in resources}, value=self._resource(row)
            )
        resource = self._resource(row)
        self._history.show(resource, lambda samples: queue_history(samples, self._name, resource))

    def _resource(self, row: QueueRow) -> str:
        """The chosen resource; without a choice the one of which the queue holds most."""
        chosen = self._context.query.get("resource", "")
        if chosen in self._resources:
            return chosen
        held = {bar.resource: bar.allocated / bar.total for bar in row.bars if bar.total}
        return max(held, key=lambda name: held[name], default=self._resources[0])

    def _chosen(self, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value and event.value != self._context.query.get("resource"):
            self._context.set_query(resource=str(event.value))
