"""Usage history: gives the plugin `fairshare` the recorded usage once, when the scheduler starts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import orjson

from volcano.accounting import api
from volcano.accounting.api import GPU, DecayedUsage
from volcano.base.clock import Clock
from volcano.base.http.client_connection import Reply
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import ApiError
from volcano.scheduler.engine.config import Config
from volcano.scheduler.plugins.fairshare.settings import Settings
from volcano.scheduler.plugins.fairshare.usage import Account, restored

log = Log("fairshare")

PLUGIN = "fairshare"
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


class UsageHistory:
    """Reads recorded usage when a configuration with `fairshare` is used for the first time."""

    def __init__(self, clock: Clock, read: ReadUsage | None) -> None:
        self._clock = clock
        self._read = read
        self._half_life = 0.0
        self._wanted, self._answered = asyncio.Event(), asyncio.Event()
        self._found: dict[str, Any] | None = None

    async def run(self) -> None:
        """Reads the usage; again some times if that fails."""
        await self._wanted.wait()
        if self._read is None:
            log.warning("accounting is not configured, fair shares begin at zero")
            self._answered.set()
            return
        for failures in range(ATTEMPTS):
            problem = await self._attempt(self._read)
            self._answered.set()
            if not problem:
                return
            if not failures:
                log.warning("recorded usage cannot be read, fair shares begin at zero", reason=problem)
            await self._clock.sleep(BACKOFF.delay(failures))
        log.warning("recorded usage is not read any more", attempts=ATTEMPTS)

    async def _attempt(self, read: ReadUsage) -> str:
        """Reads the usage once; returns what went wrong."""
        try:
            usage = await read(self._half_life)
        except (ApiError, ValueError, KeyError) as error:
            return str(error) or type(error).__name__
        self._found = memory_of(usage)
        log.info("recorded usage was read", accounts=len(usage.items))
        return ""

    async def restore(self, config: Config, memory: Mapping[str, Any]) -> Mapping[str, Any]:
        """The memory for the next cycle, with recorded usage in place of what was counted so far."""
        half_life = _half_life(config)
        if half_life is None:
            return memory
        if not self._wanted.is_set():
            self._half_life = half_life
            self._wanted.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), FIRST_CYCLE)
        found, self._found = self._found, None
        return memory if found is None else {**memory, PLUGIN: found}


def memory_of(usage: DecayedUsage) -> dict[str, Any]:
    """Recorded usage as the memory of the plugin. GPUs of all kinds together are none of the resources."""
    return restored(
        usage.at,
        (
            (
                Account(entry.queue, entry.user),
                {name: amount for name, amount in entry.resources.items() if name != GPU},
            )
            for entry in usage.items
        ),
    )


def _half_life(config: Config) -> float | None:
    """Half-life of the plugin; None when it is not configured."""
    for tier in config.tiers:
        for configured in tier:
            if configured.name == PLUGIN:
                return Settings.of(configured.arguments).half_life
    return None
