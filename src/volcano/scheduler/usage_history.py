"""Usage history: gives plugins the recorded usage once, when the scheduler starts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import orjson

from volcano.accounting import api
from volcano.accounting.api import DecayedUsage
from volcano.base.clock import Clock
from volcano.base.http.client_connection import Reply
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import ApiError
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.inputs import UsageInput

log = Log("usage-history")

FIRST_CYCLE = 5.0  # seconds for which the first cycle waits
BACKOFF = Backoff(first=1.0, longest=60.0)
ATTEMPTS = 10  # accounting may start later than the scheduler

# Returns the usage that decayed with a half-life in seconds. Raises ApiError or ValueError.
ReadUsage = Callable[[float], Awaitable[DecayedUsage]]


def recorded_by(raw: Callable[[str, str], Awaitable[Reply]]) -> ReadUsage:
    """Reads usage through the API server."""

    async def read(half_life: float) -> DecayedUsage:
        reply = await raw(
            "GET", f"{api.ROOT}/{api.DECAYED_USAGE}?{urlencode({'halfLifeSeconds': half_life})}"
        )
        return api.parse_decayed(orjson.loads(reply.body))

    return read


class _History:
    """Recorded usage for one plugin."""

    def __init__(self, declared: UsageInput, half_life: float) -> None:
        self.half_life = half_life
        self.memory_of = declared.memory
        self.answered = asyncio.Event()  # whether the first attempt ended
        self.memory: Any = None  # until the next cycle takes it


class UsageHistory:
    """Reads recorded usage when a configuration with a plugin that needs it is used for the first time."""

    def __init__(self, clock: Clock, read: ReadUsage | None) -> None:
        self._clock = clock
        self._read = read
        self._histories: dict[str, _History] = {}  # by plugin
        self._wanted: asyncio.Queue[_History] = asyncio.Queue()

    async def run(self) -> None:
        """Reads the usage; again some times if that fails."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._fill(await self._wanted.get()))

    async def _fill(self, history: _History) -> None:
        if self._read is None:
            log.warning("accounting is not configured, fair shares begin at zero")
            history.answered.set()
            return
        for failures in range(ATTEMPTS):
            problem = await self._attempt(self._read, history)
            history.answered.set()
            if not problem:
                return
            if not failures:
                log.warning("recorded usage cannot be read, fair shares begin at zero", reason=problem)
            await self._clock.sleep(BACKOFF.delay(failures))
        log.warning("recorded usage is not read any more", attempts=ATTEMPTS)

    async def _attempt(self, read: ReadUsage, history: _History) -> str:
        """Reads the usage once; returns what went wrong."""
        try:
            usage = await read(history.half_life)
        except (ApiError, ValueError, KeyError) as error:
            return str(error) or type(error).__name__
        history.memory = history.memory_of(usage)
        log.info("recorded usage was read", accounts=len(usage.items))
        return ""

    async def restore(self, config: Config, memory: Mapping[str, Any]) -> Mapping[str, Any]:
        """The memory for the next cycle, with recorded usage in place of what was counted so far."""
        for configured, declared in config.inputs(UsageInput):
            history = self._histories.get(configured.name)
            if history is None:
                history = _History(declared, declared.half_life(configured.arguments))
                self._histories[configured.name] = history
                self._wanted.put_nowait(history)
                with suppress(TimeoutError):
                    await asyncio.wait_for(history.answered.wait(), FIRST_CYCLE)
            if history.memory is not None:
                memory, history.memory = {**memory, configured.name: history.memory}, None
        return memory
