"""Cycle timer: a cycle is due soon after a change, and after a period at the latest while anything waits."""

from collections.abc import Callable

from volcano.clock import Clock
from volcano.kube.workqueue import Waker

SHORTEST_WINDOW, LONGEST_WINDOW = 0.005, 0.05  # seconds in which changes are collected before a cycle


class CycleTimer:
    """Woken by changes; collects those that follow the first one, so that one cycle handles all of them."""

    def __init__(
        self, clock: Clock, period: float, *, revision: Callable[[], int], busy: Callable[[], bool]
    ) -> None:
        """`revision` counts the changes so far; `busy` reports whether a job waits."""
        self._clock = clock
        self._period = period
        self._revision = revision
        self._busy = busy
        self._waker = Waker(clock)
        self._changed = False
        self._changed_later = False  # a cycle is due after a period even if no job waits
        self._began = 0.0  # start of the last cycle

    def wake(self) -> None:
        """Requests a cycle as soon as possible: a change could change a decision."""
        self._changed = True
        self._waker.wake()

    def wake_later(self) -> None:
        """Requests a cycle within a period: no job waits for the change."""
        self._changed_later = True

    def on_change(self, only_jobless: bool) -> None:
        """Requests a cycle; pods without a job matter at once only while a job waits for resources."""
        if only_jobless and not self._busy():
            self.wake_later()
        else:
            self.wake()

    async def wait(self) -> None:
        """Returns when a cycle is due: after a change, or after a period if a job waits or `wake_later` was called."""
        last_cycle = self._now - self._began
        due = self._now + self._period
        while not self._changed:
            await self._waker.wait(due)
            self._waker.clear()
            if self._now >= due:
                if self._busy() or self._changed_later:
                    break
                due = self._now + self._period
        await self._collect(last_cycle)
        self._changed = self._changed_later = False
        self._waker.clear()
        self._began = self._now

    def close(self) -> None:
        self._waker.close()

    @property
    def _now(self) -> float:
        return self._clock.now().monotonic

    async def _collect(self, least: float) -> None:
        """Waits until no more changes arrive, at least as long as the last cycle took, so that other tasks can run."""
        waited = 0.0
        while waited < LONGEST_WINDOW:
            before = self._revision()
            await self._clock.sleep(SHORTEST_WINDOW)
            waited += SHORTEST_WINDOW
            if self._revision() == before and waited >= least:
                break
