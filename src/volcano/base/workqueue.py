"""Work queue of a controller: keys with due times, back-off per key, one worker per key; and the wait for it."""

import asyncio
import heapq
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from volcano.base.clock import Clock

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off: `first` seconds after the first failure, then `factor` times as long, up to `longest`."""

    first: float
    longest: float
    factor: float = 2.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after one more failure, given the number of failures before it."""
        # The exponent is bounded so that many failures do not overflow a float.
        return min(self.first * self.factor ** min(failures, 100), self.longest)


DEFAULT_BACKOFF = Backoff(first=0.05, longest=30.0)


class WorkQueue(Generic[K]):
    """Keys to process, at once or at a due time (monotonic seconds). Does no I/O and reads no clock.

    As in client-go, a key is queued once however often it is added, and a key that is being processed is held back
    until `done`. A key has at most one due time, the earliest it was given.
    """

    def __init__(self, backoff: Backoff = DEFAULT_BACKOFF) -> None:
        self._backoff = backoff
        self._ready: dict[K, None] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._processing: dict[K, bool] = {}  # key → added again meanwhile
        self._failures: dict[K, int] = {}
        self._pushes = 0

    def __len__(self) -> int:
        """Keys that are queued, due now or later; those being processed are not counted."""
        return len(self._ready) + len(self._due)

    def add(self, key: K) -> None:
        """Queues a key for now."""
        if key in self._processing:
            self._processing[key] = True
        else:
            self._ready[key] = None

    def add_at(self, key: K, due: float) -> None:
        """Queues a key for a due time; infinity is never."""
        if due < self._due.get(key, math.inf):
            self._due[key] = due
            self._pushes += 1
            heapq.heappush(self._heap, (due, self._pushes, key))

    def discard(self, key: K) -> None:
        """Removes a key and its back-off."""
        self._ready.pop(key, None)
        self._due.pop(key, None)
        self._failures.pop(key, None)
        if key in self._processing:
            self._processing[key] = False

    def get(self, now: float, limit: int | None = None) -> list[K]:
        """Takes out up to `limit` keys that are due, in order, as being processed: each needs a `done`."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        keys: list[K] = []
        for key in self._ready:
            if len(keys) == limit:
                break
            keys.append(key)
        for key in keys:
            del self._ready[key]
            self._processing[key] = False
        return keys

    def done(self, key: K) -> None:
        """Marks a key as processed; one that was added meanwhile is queued again."""
        if self._processing.pop(key, False):
            self._ready[key] = None

    def retry(self, key: K, now: float) -> float:
        """Queues a key again after its back-off; returns the seconds until then."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._backoff.delay(failures)
        self.add_at(key, now + delay)
        return delay

    def forget(self, key: K) -> None:
        """Resets the back-off of a key: it was processed without failure."""
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """The monotonic time at which `get` returns something: minus infinity for now, None for never."""
        if self._ready:
            return -math.inf
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class Waker:
    """Lets one loop wait until `wake` is called or a due time has passed, whichever is first.

    A timer that is already set for an earlier time is kept and may end a later wait early: most waits end
    by `wake`, and setting the timer again each time costs more than one superfluous wake-up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self._timer: tuple[float, asyncio.Task[None]] | None = None

    def wake(self) -> None:
        self._event.set()

    def clear(self) -> None:
        """Discards earlier calls of `wake`; to be called before looking for work."""
        self._event.clear()

    def wakes_by(self, due: float | None) -> bool:
        """Whether a wait that is under way ends by then without `wake`."""
        return due is None or (self._timer is not None and self._timer[0] <= due)

    async def wait(self, due: float | None = None) -> None:
        """Returns after `wake`, or at the due time (monotonic); None is never."""
        if due is not None and due != math.inf and not self.wakes_by(due):
            self.close()
            self._timer = (due, asyncio.create_task(self._wake_at(due)))
        await self._event.wait()

    def close(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    async def _wake_at(self, due: float) -> None:
        await self._clock.sleep(due - self._clock.now().monotonic)
        self._timer = None
        self._event.set()
