"""The job whose page is open: its current state, the chosen pod and the open tab, which all tabs share."""

import inspect
from collections.abc import Awaitable, Callable

from volcano.dashboard.context import Context
from volcano.dashboard.data.gang import JobView
from volcano.kube.api.manifest import Key, Manifest, key_of

Update = Callable[[], Awaitable[None] | None]


class OpenJob:
    """State of the page of one job."""

    def __init__(self, context: Context, key: Key, view: JobView) -> None:
        self.context = context
        self.key = key
        self.view = view
        self.tab = ""
        self.open_tab: Callable[[str], None] = lambda _name: None
        self._updates: dict[str, list[Update]] = {}

    @property
    def pod(self) -> str:
        """Name of the chosen pod; "" without one."""
        return self.context.query.get("pod", "")

    def find_pod(self, name: str) -> Manifest | None:
        return next((pod for pod in self.view.pods if key_of(pod).name == name), None)

    async def choose_pod(self, name: str) -> None:
        self.context.set_query(pod=name)
        await self.update_tab()

    def on_update(self, tab: str, update: Update) -> None:
        """Calls `update` whenever the job or the chosen pod has changed, while the tab is open."""
        self._updates.setdefault(tab, []).append(update)

    async def update_tab(self) -> None:
        for update in self._updates.get(self.tab, ()):
            result = update()
            if inspect.isawaitable(result):
                await result
