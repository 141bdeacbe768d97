"""Expiry of finished objects, also when their times are ahead of the clock because it was set back."""

from volcano.base.clock import Instant

# Seconds by which clocks of several machines may differ.
TOLERANCE = 60.0


def is_ahead(moment: float, now: Instant) -> bool:
    """Whether a wall time that has passed is ahead of the clock, which must have been set back since."""
    return moment > now.wall + TOLERANCE


class TimesToLive:
    """Seconds until objects expire. Those that ended in the future expire as if they had ended when they were first
    seen."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}  # monotonic time by uid

    def left(self, uid: str, ended: float, seconds: float, now: Instant) -> float:
        if not is_ahead(ended, now):
            self._seen.pop(uid, None)
            return ended + seconds - now.wall
        return self._seen.setdefault(uid, now.monotonic) + seconds - now.monotonic

    def forget(self, uid: str) -> None:
        self._seen.pop(uid, None)
