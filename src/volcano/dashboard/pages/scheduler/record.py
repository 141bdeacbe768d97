"""Reads the scheduler's record of cycles with the viewer's permissions, at most once in a few seconds."""

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from volcano.cli.errors import CommandError
from volcano.cli.explain.reading import read_history
from volcano.dashboard.context import Context
from volcano.kube.api.errors import ApiError

PERIOD = 3.0  # seconds between two requests of one page


class RecordReader:
    """Calls `show` with each new answer to one query; a label says why there is none."""

    def __init__(self, context: Context, show: Callable[[Mapping[str, Any]], None], **query: str) -> None:
        self._context = context
        self._show = show
        self.query = query
        self._read_at = -PERIOD
        self._last: object = None
        self._problem = ui.label().classes("volcano-muted").props('role="alert"')
        self._problem.set_visibility(False)

    async def update(self) -> None:
        """Reads again when it is time; the answer is shown when a cycle was recorded since."""
        now = self._context.viewer.session.clock.now().monotonic
        if now - self._read_at >= PERIOD:
            await self.read()

    async def read(self) -> None:
        self._read_at = self._context.viewer.session.clock.now().monotonic
        try:
            answer = await read_history(self._context.viewer.session, **self.query)
        except (CommandError, ApiError, ValueError) as error:
            self._say(str(error))
            return
        self._say("")
        if (answer, self.query) != self._last:
            self._last = (answer, dict(self.query))
            self._show(answer)

    def _say(self, problem: str) -> None:
        self._problem.set_visibility(bool(problem))
        self._problem.set_text(problem)
