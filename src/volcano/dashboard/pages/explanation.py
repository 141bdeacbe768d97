"""A card with an explanation that is computed on request: when the page is opened, and again with a button."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from nicegui import ui

from volcano.analysis.explain.node import NodeExplanation
from volcano.analysis.explain.queue import QueueExplanation
from volcano.base.clock import timestamp
from volcano.dashboard.context import Context
from volcano.dashboard.pages.widgets import card
from volcano.services.connection import Connection

Found = TypeVar("Found", QueueExplanation, NodeExplanation)


class Explanation(Generic[Found]):
    """Shows what `show` makes of it; in place of it a sentence when the viewer may not compute it."""

    def __init__(
        self,
        context: Context,
        title: str,
        explain: Callable[[Connection], Awaitable[Found]],
        show: Callable[[Found], None],
    ) -> None:
        self._context = context
        self._explain: Callable[[Connection], Awaitable[Found]] = explain
        self._show: Callable[[Found], None] = show
        with card(title):
            with ui.row().classes("items-center gap-2"):
                self._again = ui.button("Explain again", icon="refresh", on_click=self.run).props(
                    "flat dense"
                )
                self._when = ui.label().classes("volcano-muted")
            self._content = ui.column().classes("w-full gap-2")
        ui.timer(0.05, self.run, once=True)

    async def run(self) -> None:
        self._again.props("loading")
        found, problem = await self._context.try_compute(self._explain)
        self._again.props(remove="loading")
        self._content.clear()
        with self._content:
            if found is None:
                ui.label(f"There is no explanation: {problem}").classes("volcano-muted")
                return
            self._when.set_text(f"computed at {timestamp(self._context.objects.now)}")
            ui.label(found.summary)
            self._show(found)
            for note in found.notes:
                ui.label(note).classes("volcano-muted")
