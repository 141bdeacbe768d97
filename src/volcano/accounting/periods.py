"""Days, weeks and months in UTC, as times in seconds since the epoch, and the retention of runs."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from volcano.kube.api.duration import parse as parse_duration


def retention_of(text: str) -> float:
    """Seconds for which pod runs are kept: `400d`, or a duration such as `36h`. Raises ValueError."""
    try:
        seconds = float(text[:-1]) * 86_400 if text.endswith("d") else parse_duration(text)
    except ValueError:
        seconds = 0.0
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{text}: write a time such as 400d or 36h")
    return seconds


def period_start(period: str, at: float) -> float:
    """Start of the day, week (Monday) or month that a time is in."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "week":
        day -= timedelta(days=day.weekday())
    elif period == "month":
        day = day.replace(day=1)
    return day.timestamp()


def period_end(period: str, start: float) -> float:
    """End of the period that starts at `start`."""
    days = {"day": 1, "week": 7, "month": 32}[period]
    return period_start(period, (datetime.fromtimestamp(start, UTC) + timedelta(days=days)).timestamp())


def periods(period: str, start: float, end: float) -> Iterator[tuple[float, float]]:
    """The parts of [start, end) that are in different periods."""
    while start < end:
        following = min(period_end(period, period_start(period, start)), end)
        yield start, following
        start = following


def period_name(period: str, at: float) -> str:
    """Name of the period that a time is in: `2026-03` for a month, `2026-03-02` for a day or the Monday of a week."""
    start = datetime.fromtimestamp(period_start(period, at), UTC)
    return start.strftime("%Y-%m" if period == "month" else "%Y-%m-%d")
