"""Reads the scheduler's record of cycles with the viewer's permissions, at most once in a few seconds."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from nicegui import ui

from volcano.dashboard.context import Context
from volcano.kube.api.errors import ApiError
from volcano.services.errors import ServiceError

PERIOD = 3.0  # seconds between two requests of one page
Answer = TypeVar("Answer")


class RecordReader(Generic[Answer]):
    """Calls `show` with each new answer; a label says why there is none."""

    def __init__(
        self, context: Context, show: Callable[[Answer], None], ask: Callable[[], Awaitable[Answer]]
    ) -> None:
        self._clock = context.viewer.connection.clock
        self._show = show
        self._ask = ask
        self._read_at = -PERIOD
        self._last: Answer | None = None
        self._problem = ui.label().classes("volcano-muted").props('role="alert"')
        self._problem.set_visibility(False)

    async def update(self) -> None:
        """Reads again when it is time; the answer is shown when a cycle was recorded since."""
        if self._clock.now().monotonic - self._read_at >= PERIOD:
            await self.read()

    async def read(self) -> None:
        self._read_at = self._clock.now().monotonic
        try:
            answer = await self._ask()
        except (ServiceError, ApiError) as error:
            self._say(str(error))
            return
        self._say("")
        if answer != self._last:
            self._last = answer
            self._show(answer)

    def _say(self, problem: str) -> None:
        self._problem.set_visibility(bool(problem))
        self._problem.set_text(problem)
