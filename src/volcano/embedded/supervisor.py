"""Runs the components of a cluster and restarts those that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.embedded.logs import component

log = Log("local")

RESTART_DELAY = 1.0  # seconds


class Supervisor:
    """Runs each component in a task of its own, and records which have become ready."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: dict[str, bool] = {}
        self._failures: dict[str, str] = {}  # errors of components that have failed and do not work again yet

    def start(self, part: str, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Runs a component, whose log lines belong to `part`, until `stop`."""
        with component(part):
            self._tasks.append(asyncio.create_task(self._run_forever(name, run), name=name))

    def start_until_ready(
        self, part: str, name: str, run: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> None:
        """As `start`, for a component that calls its argument once it is ready: `all_ready` waits for it."""
        self._ready[name] = False
        self.start(part, name, partial(run, partial(self._set_ready, name)))

    def all_ready(self) -> bool:
        return all(self._ready.values())

    def problem(self) -> str:
        """Components that have failed, or that have not become ready yet; empty if all work."""
        starting = [name for name, ready in self._ready.items() if not ready and name not in self._failures]
        failed = [f"{name} failed: {error}" for name, error in self._failures.items()]
        return "; ".join(failed + ([f"not ready yet: {', '.join(starting)}"] if starting else []))

    def _set_ready(self, name: str) -> None:
        self._ready[name] = True
        self._failures.pop(name, None)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_forever(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            log.info("component started", name=name)
            if name not in self._ready:  # it does not report when it is ready
                self._failures.pop(name, None)
            try:
                await run()
            except Exception as error:  # a bug in one component must not stop the others
                log.error("component failed, restarting", name=name, error=error)
                self._failures[name] = str(error) or type(error).__name__
            await self._clock.sleep(RESTART_DELAY)
