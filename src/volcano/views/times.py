"""Times and durations as Volcano's commands print them."""

from datetime import UTC, datetime

from volcano.kube.api.duration import human_duration, since
from volcano.kube.api.fields import wall_time

BEGINNING = "0001-01-01 00:00:00 +0000 UTC"


def day(moment: str | None) -> str:
    """Date of a timestamp."""
    return (moment or "")[:10]


def moment_text(moment: str | None) -> str:
    """Timestamp as Go prints it."""
    wall = wall_time(moment)
    return (
        BEGINNING
        if wall is None
        else datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    )


def span(seconds: float) -> str:
    """`5s`, `3m20s`, `2h5m`, `3d4h`: longer durations are coarser."""
    return human_duration(seconds)


def age(moment: str | None, now: float) -> str:
    """Time since a timestamp; `<unknown>` without one."""
    return since(moment, now)
