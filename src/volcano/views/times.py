"""Times and durations as Volcano's commands print them."""

from datetime import UTC, datetime

from volcano.kube.api.duration import human_duration as span
from volcano.kube.api.duration import since as age
from volcano.kube.api.fields import wall_time

__all__ = ["age", "day", "moment_text", "span"]
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
