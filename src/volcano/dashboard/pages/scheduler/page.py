"""The page of the scheduler: its tabs. Only the open tab is updated."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import events, ui

from volcano.dashboard.context import Context
from volcano.dashboard.pages.scheduler import configuration, cycles, evictions, pods
from volcano.dashboard.pages.widgets import heading

# Name in the address: label, icon, what builds the tab and returns what updates it.
Update = Callable[[], Awaitable[None]]
Build = Callable[[Context], Awaitable[Update | None]]
TABS: dict[str, tuple[str, str, Build]] = {
    "cycles": ("Cycles", "history", cycles.build),
    "evictions": ("Evictions", "logout", evictions.build),
    "pod": ("Pod", "troubleshoot", pods.build),
    "configuration": ("Configuration", "tune", configuration.build),
}


async def build(context: Context) -> None:
    heading("Scheduler")
    await _Tabs(context).build()


class _Tabs:
    """Builds a tab when it is first opened."""

    def __init__(self, context: Context) -> None:
        self._context = context
        wanted = context.query.get("tab", "")
        self._open_tab = wanted if wanted in TABS else "cycles"
        self._updates: dict[str, Update | None] = {}
        self._panels: dict[str, ui.tab_panel] = {}

    async def build(self) -> None:
        with (
            ui.tabs()
            .props(
                'dense no-caps align="left" inline-label outside-arrows mobile-arrows aria-label="Scheduler"'
            )
            .classes("w-full") as tabs
        ):
            for name, (label, icon, _) in TABS.items():
                ui.tab(name, label, icon)
        tabs.set_value(self._open_tab)
        tabs.on_value_change(self._on_tab)
        with ui.tab_panels(tabs, value=self._open_tab, animated=False, keep_alive=True).classes(
            "w-full bg-transparent"
        ):
            for name in TABS:
                self._panels[name] = ui.tab_panel(name).classes("w-full").style("padding: 0")
        await self._open()
        self._context.on_change(self._update)

    async def _on_tab(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._open_tab = str(event.value)
        self._context.set_query(tab="" if self._open_tab == "cycles" else self._open_tab)
        await self._open()

    async def _open(self) -> None:
        name = self._open_tab
        if name in self._updates:
            await self._update()
            return
        self._updates[name] = None
        with self._panels[name], ui.column().classes("w-full gap-4"):
            self._updates[name] = await TABS[name][2](self._context)

    async def _update(self) -> None:
        update = self._updates.get(self._open_tab)
        if update is not None:
            await update()
