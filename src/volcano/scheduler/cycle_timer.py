"""Cycle timer: a cycle is due soon after a change, and after a period at the latest while anything waits."""

from collections.abc import Callable
from enum import Enum

from volcano.base.clock import Clock
from volcano.base.workqueue import Waker

SHORTEST_WINDOW, LONGEST_WINDOW = 0.005, 0.1  # seconds in which changes are collected before a cycle


LONGEST_STEP = 0.02  # seconds between two looks for further changes
STATUS_DELAY = 0.25  # seconds for which changes that only have to be reported are collected


class Urgency(Enum):
    """How soon a change needs a cycle if no job waits for resources; if one does, at once."""

    DECISION = "at once"
    STATUS = "soon: only the status of jobs changed"
    FOREIGN = "within a period: only pods without a job changed"


class CycleTimer:
    """Woken by changes; collects those that follow the first one, so that one cycle handles all of them."""

    def __init__(
        self,
        clock: Clock,
        period: float,
        *,
        revision: Callable[[], int],
        busy: Callable[[], bool],
        waiting: Callable[[], bool] = lambda: True,
    ) -> None:
        """`revision` counts the changes so far; `busy` reports whether a cycle has anything to do, `waiting` whether a
        job waits for resources."""
        self._clock = clock
        self._period = period
        self._revision = revision
        self._busy = busy
        self._waiting = waiting
        self._waker = Waker(clock)
        self._changed = False
        self._changed_later = False  # a cycle is due after a period even if no job waits
        self._status_due: float | None = None  # when changes of status are due
        self._began = 0.0  # start of the last cycle

    def wake(self) -> None:
        """Requests a cycle as soon as possible: a change could change a decision."""
        self._changed = True
        self._waker.wake()

    def wake_later(self) -> None:
        """Requests a cycle within a period: no job waits for the change."""
        self._changed_later = True

    def on_change(self, urgency: Urgency) -> None:
        """Requests a cycle, at once if the change could change a decision."""
        if urgency is Urgency.FOREIGN and not self._busy():
            self.wake_later()
        elif urgency is Urgency.STATUS and not self._waiting():
            if self._status_due is None:
                self._status_due = self._now + STATUS_DELAY
                self._waker.wake()
        else:
            self.wake()

    async def wait(self) -> None:
        """Returns when a cycle is due: after a change, or after a period if a job waits or `wake_later` was called."""
        last_cycle = self._now - self._began
        end = self._now + self._period
        while not self._changed:
            await self._waker.wait(end if self._status_due is None else min(end, self._status_due))
            self._waker.clear()
            if self._status_due is not None and self._now >= self._status_due:
                break
            if self._now >= end:
                if self._busy() or self._changed_later:
                    break
                end = self._now + self._period
        await self._collect(last_cycle)
        self._changed = self._changed_later = False
        self._status_due = None
        self._waker.clear()
        self._began = self._now

    def close(self) -> None:
        self._waker.close()

    @property
    def _now(self) -> float:
        return self._clock.now().monotonic

    async def _collect(self, least: float) -> None:
        """Waits until no more changes arrive, at least as long as the last cycle took, so that other tasks can run."""
        waited, step = 0.0, SHORTEST_WINDOW
        while waited < LONGEST_WINDOW:
            before = self._revision()
            await self._clock.sleep(step)
            waited += step
            if self._revision() == before and waited >= least:
                break
            # Few timers while changes arrive.
            step = min(2 * step, LONGEST_STEP, LONGEST_WINDOW - waited)
