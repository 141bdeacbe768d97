"""What a page gets: the viewer, the objects that the viewer may see, and the means to follow and change them."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from volcano.base.log import Log
from volcano.dashboard.analyses import Analyses
from volcano.dashboard.feed import Feed
from volcano.dashboard.objects import Objects
from volcano.dashboard.options import DashboardOptions
from volcano.dashboard.viewer import Viewer
from volcano.kube.api.errors import ApiError
from volcano.services.connection import Connection
from volcano.services.errors import ServiceError

log = Log("dashboard")

Result = TypeVar("Result")
Update = Callable[[], Awaitable[None] | None]


class Context:
    """One open page of one viewer."""

    def __init__(
        self,
        viewer: Viewer,
        feed: Feed,
        options: DashboardOptions,
        objects: Objects,
        analyses: Analyses,
        *,
        path: str,
        parameters: Mapping[str, str],
        query: Mapping[str, str],
    ) -> None:
        self.viewer = viewer
        self.feed = feed
        self.options = options
        self.objects = objects
        self._analyses = analyses
        self.path = path
        self.parameters = parameters  # of the path, such as the name of a job
        self.query = dict(query)  # of the address
        self._updates: list[Update] = []
        self._client = ui.context.client

    def on_change(self, update: Update) -> None:
        """Calls `update` in each later generation, with `objects` replaced; it changes elements of the page."""
        self._updates.append(update)

    def follow(self) -> None:
        """Begins to call the updates. The page is complete by then: the browser gets its content at once."""
        follower = background_tasks.create(self._follow(), name="follow the cluster")
        self._client.on_delete(follower.cancel)

    def set_query(self, **values: str) -> None:
        """Changes the query of the page's address, in which filters and orders are kept; "" removes a value."""
        merged = {**self.query, **values}
        self.query = {name: value for name, value in merged.items() if value}
        ui.navigate.history.replace(self.path + (f"?{urlencode(self.query)}" if self.query else ""))

    async def act(self, done: str, action: Awaitable[object]) -> bool:
        """Runs an action with the viewer's permissions and shows its result: `done`, or why it failed."""
        try:
            await action
        except (ApiError, ServiceError) as error:
            message = error.message if isinstance(error, ApiError) else str(error)
            with self._client:
                ui.notify(message, type="negative", multi_line=True, close_button="Close", timeout=15_000)
            return False
        with self._client:
            ui.notify(done, type="positive")
        return True

    async def confirm(self, question: str, button: str) -> bool:
        """Asks the viewer in a dialog; `button` names the action, such as "Delete 3 jobs"."""
        # In the page itself: what was clicked may be replaced by an update before the answer.
        with self._client, ui.dialog() as dialog, ui.card():
            ui.label(question)
            with ui.row().classes("w-full justify-end"):
                ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat autofocus")
                ui.button(button, on_click=lambda: dialog.submit(True)).props("color=negative")
        answer = await dialog
        dialog.delete()
        return bool(answer)

    async def compute(self, analysis: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Runs an analysis beside the pages, with a connection of the viewer."""
        return await self._analyses.run(self.viewer, analysis)

    async def try_compute(
        self, analysis: Callable[[Connection], Awaitable[Result]]
    ) -> tuple[Result | None, str]:
        """Result of an analysis and "", or None and why it cannot be computed for this viewer."""
        try:
            return await self.compute(analysis), ""
        except ServiceError as error:
            return None, str(error)
        except ApiError as error:
            return None, error.message

    async def _follow(self) -> None:
        """Calls the updates once per generation, for as long as the page is open."""
        await self._client.connected()
        while True:
            await self.feed.after(self.objects.generation)
            if self.viewer.ended:
                with self._client:
                    ui.navigate.to("/login")
                return
            self.objects = await self.feed.objects(self.viewer)
            with self._client:
                for update in list(self._updates):
                    await self._run(update)

    async def _run(self, update: Update) -> None:
        try:
            result = update()
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            log.error("an update of a page failed, the others go on", page=self.path, error=error)
