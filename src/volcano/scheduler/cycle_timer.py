"""Pulse: when the next cycle is due: soon after something changed, and at the latest after a period."""

import asyncio
from collections.abc import Callable

from volcano.clock import Clock

SHORTEST_WINDOW, LONGEST_WINDOW = 0.005, 0.05  # seconds in which changes are collected before a cycle


class CycleTimer:
    """Woken by changes; what comes right after the first is waited for, so that one cycle decides on all of it."""

    def __init__(
        self, clock: Clock, period: float, revision: Callable[[], int], busy: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._period = period
        self._revision = revision
        self._busy = busy
        self._woken = asyncio.Event()
        self._awaited = False  # whether a cycle is due after a period even if nothing waits
        self._began = 0.0  # when the last cycle did

    def wake(self) -> None:
        """Something changed that could change a decision."""
        self._woken.set()

    def wake_in_time(self) -> None:
        """Something changed that nobody waits for: a cycle a period later is soon enough."""
        self._awaited = True

    async def beat(self) -> None:
        """Returns when a cycle is due: after a change, or a period later if something still waits or changed aside."""
        least = self._clock.now().monotonic - self._began
        while not self._woken.is_set():
            await woken_or_late(self._woken, self._clock, self._period)
            if self._busy() or self._awaited:
                break
        await self._collect(least)
        self._woken.clear()
        self._awaited = False
        self._began = self._clock.now().monotonic

    async def _collect(self, least: float) -> None:
        """Waits for what comes along, as long as the last cycle took: half of the time is for everybody else."""
        waited = 0.0
        while waited < LONGEST_WINDOW:
            before = self._revision()
            await self._clock.sleep(SHORTEST_WINDOW)
            waited += SHORTEST_WINDOW
            if self._revision() == before and waited >= least:
                break


async def woken_or_late(woken: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Returns when an event is set, or some seconds later."""
    waiter = asyncio.create_task(woken.wait())
    sleeper = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        sleeper.cancel()
