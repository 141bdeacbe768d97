"""Periods on the command lines of `vcctl usage` and `vcctl job list --history`."""

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from volcano.accounting.periods import period_start
from volcano.base.clock import timestamp
from volcano.cli.errors import UsageError
from volcano.services.accounting import SECONDS

AGO: Final = re.compile(r"(\d{1,6})([smhdw])")


def add_period(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Adds `--from` and `--to`."""
    parser.add_argument(
        "--from",
        dest="start",
        default="",
        metavar="TIME",
        help=f"begin: a date, a time (2026-01-31T12:00:00Z), or how long ago (7d) (default: {default})",
    )
    parser.add_argument("--to", dest="end", default="", metavar="TIME", help="end, likewise (default: now)")


def period_of(arguments: argparse.Namespace, now: float, *, default: str = "month") -> tuple[float, float]:
    """Begin and end in seconds since the epoch; without `--from` the begin of the present period."""
    start = moment(arguments.start, now, "--from") if arguments.start else period_start(default, now)
    end = moment(arguments.end, now, "--to", ends_day=True) if arguments.end else now
    if start >= end:
        raise UsageError(f"--from {timestamp(start)} is not before --to {timestamp(end)}")
    return start, end


def moment(text: str, now: float, flag: str, *, ends_day: bool = False) -> float:
    """A time on the command line, in UTC. The end of a period that is given as a day includes the day."""
    if ago := AGO.fullmatch(text):
        return now - int(ago[1]) * SECONDS[ago[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} {text!r}: write a date (2026-01-31), a time (2026-01-31T12:00:00Z), or how long ago (12h, 7d, 4w)"
        ) from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    if ends_day and len(text) == len("2026-01-31"):
        found += timedelta(days=1)
    return found.timestamp()
