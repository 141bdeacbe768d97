"""How often a client may ask: a token bucket as a pure value machine, and the small wait around it."""

from volcano.clock import Clock


class TokenBucket:
    """Lets `burst` through at once and `rate` a second after that. Whoever comes early is told how long to wait.

    A rate of 0 or less means no limit.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = max(burst, 1)
        self._tokens = float(self._burst)
        self._seen: float | None = None

    def reserve(self, now: float) -> float:
        """Takes a place in the line at the monotonic moment `now`; returns the seconds until its turn."""
        if self._rate <= 0:
            return 0.0
        self._fill(now)
        self._tokens -= 1
        return max(-self._tokens / self._rate, 0.0)

    def take(self, now: float) -> bool:
        """Goes through at the monotonic moment `now` if that is possible without waiting."""
        if self._rate <= 0:
            return True
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, now: float) -> None:
        if self._seen is not None:
            self._tokens = min(self._tokens + max(now - self._seen, 0) * self._rate, self._burst)
        self._seen = now


class RateLimiter:
    """A token bucket that makes its callers wait, first come first served."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._clock = clock

    async def acquire(self) -> None:
        delay = self._bucket.reserve(self._clock.now().monotonic)
        if delay > 0:
            await self._clock.sleep(delay)
