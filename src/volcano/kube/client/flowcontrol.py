"""Client-side rate limiting: a token bucket without I/O, and the limiter that waits for it."""

from volcano.base.clock import Clock


class TokenBucket:
    """Token bucket: `burst` tokens at once, refilled at `rate` a second. A rate of 0 or less means no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = max(burst, 1)
        self._tokens = float(self._burst)
        self._filled_at: float | None = None

    def reserve(self, now: float) -> float:
        """Takes a token in advance at the monotonic time `now`; returns the seconds until it may be used."""
        if self._rate <= 0:
            return 0.0
        self._refill(now)
        self._tokens -= 1
        return max(-self._tokens / self._rate, 0.0)

    def try_acquire(self, now: float) -> bool:
        """Takes a token at the monotonic time `now` if one is available."""
        if self._rate <= 0:
            return True
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self, now: float) -> None:
        if self._filled_at is not None:
            self._tokens = min(self._tokens + max(now - self._filled_at, 0) * self._rate, self._burst)
        self._filled_at = now


class RateLimiter:
    """Makes callers wait for a token, first come first served."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._clock = clock

    async def acquire(self) -> None:
        delay = self._bucket.reserve(self._clock.now().monotonic)
        if delay > 0:
            await self._clock.sleep(delay)
