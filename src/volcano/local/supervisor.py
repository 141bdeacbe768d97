"""Runs the components of a cluster and restarts those that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from volcano.clock import Clock
from volcano.local.logs import component
from volcano.log import Log

log = Log("local")

RESTART_DELAY = 1.0  # seconds


class Supervisor:
    """Runs each component in a task of its own, and records which have become ready."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: dict[str, bool] = {}

    def start(self, part: str, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Runs a component, whose log lines belong to `part`, until `stop`."""
        with component(part):
            self._tasks.append(asyncio.create_task(self._run_forever(name, run), name=name))

    def start_until_ready(
        self, part: str, name: str, run: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> None:
        """As `start`, for a component that calls its argument once it is ready: `all_ready` waits for it."""
        self._ready[name] = False
        self.start(part, name, partial(run, partial(self._ready.__setitem__, name, True)))

    def all_ready(self) -> bool:
        return all(self._ready.values())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_forever(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            log.info("component started", name=name)
            try:
                await run()
            except Exception as error:  # a bug in one component must not stop the others
                log.error("component failed, restarting", name=name, error=error)
            await self._clock.sleep(RESTART_DELAY)
