"""Moments and spans as the reference's commands write them."""

from datetime import UTC, datetime

from volcano.apiserver.endpoints.tables.cells import human_duration, since, wall_time

BEGINNING = "0001-01-01 00:00:00 +0000 UTC"


def day(moment: str | None) -> str:
    """The date of a timestamp."""
    return (moment or "")[:10]


def moment_text(moment: str | None) -> str:
    """A timestamp as Go prints it."""
    wall = wall_time(moment)
    return (
        BEGINNING
        if wall is None
        else datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    )


def span(seconds: float) -> str:
    """`5s`, `3m20s`, `2h5m`, `3d4h`: the larger, the coarser."""
    return human_duration(seconds)


def age(moment: str | None, now: float) -> str:
    """How long ago a timestamp was; `<unknown>` without one."""
    return since(moment, now)
