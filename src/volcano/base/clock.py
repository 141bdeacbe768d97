"""Time as an argument: the wall clock for timestamps, the monotonic clock for deadlines."""

import asyncio
import heapq
import math
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, Protocol


class Instant(NamedTuple):
    """One moment on both clocks, in seconds: `wall` since the epoch, `monotonic` since an arbitrary start."""

    wall: float
    monotonic: float

    def timestamp(self) -> str:
        """The wall time as Kubernetes writes `metav1.Time`: whole seconds, UTC."""
        return timestamp(self.wall)

    def micro_timestamp(self) -> str:
        """The wall time as Kubernetes writes `metav1.MicroTime`."""
        return micro_timestamp(self.wall)


class Clock(Protocol):
    """Source of time and delays; injected everywhere, so that a cluster can run under a virtual clock."""

    def now(self) -> Instant: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The system's clocks."""

    def now(self) -> Instant:
        return Instant(time.time(), time.monotonic())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


class SteadyClock:
    """A clock whose wall time advances steadily from its value at the start, also when the system's clock is
    set."""

    def __init__(self, clock: Clock) -> None:
        begun = clock.now()
        self._clock = clock
        self._offset = begun.wall - begun.monotonic

    def now(self) -> Instant:
        monotonic = self._clock.now().monotonic
        return Instant(monotonic + self._offset, monotonic)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class VirtualClock:
    """A clock that only `advance` moves; sleeps end when it passes their deadline."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self._start = wall
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> Instant:
        return Instant(self._start + self._elapsed, self._elapsed)

    def advance(self, seconds: float) -> None:
        """Moves both clocks forward and ends the sleeps that are due."""
        self._elapsed += max(seconds, 0)
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)

    async def sleep(self, seconds: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(seconds, 0), self._count, sleeper))
        await sleeper


def timestamp(wall: float) -> str:
    """Seconds since the epoch as `2026-01-02T03:04:05Z`."""
    return _whole_second(math.floor(wall))


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    """Formats a whole second; cached, as many objects are written within the same second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(wall: float) -> str:
    """Seconds since the epoch as `2026-01-02T03:04:05.000006Z`."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Parses an RFC 3339 timestamp to wall time; raises ValueError when it is malformed."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
