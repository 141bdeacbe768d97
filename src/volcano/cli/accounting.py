"""Requests of commands to the accounting API, and times on their command lines."""

import argparse
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from volcano.accounting import api
from volcano.accounting.periods import period_start
from volcano.base.clock import timestamp
from volcano.cli.errors import CommandError, NoServer, UsageError
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden, NotFound, Unavailable

HOUR: Final = 3600.0
AGO: Final = re.compile(r"(\d{1,6})([smhdw])")
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOST_PAGES: Final = 200
NOT_SERVED: Final = (
    "accounting is not enabled: start vc-controller-manager with --accounting-database (in the chart: "
    "custom.accounting_enable), or `volcano up` without --accounting-database none"
)


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


async def ask(session: Session, resource: str, namespace: str, **parameters: str) -> dict[str, Any]:
    """Answer of the accounting API; an empty namespace means all."""
    where = f"/namespaces/{namespace}" if namespace else ""
    given = {name: value for name, value in parameters.items() if value}
    target = f"{api.ROOT}{where}/{resource}" + (f"?{urlencode(given)}" if given else "")
    try:
        answer: dict[str, Any] = orjson.loads((await session.client.raw("GET", target)).body)
    except NotFound:
        raise NoServer(NOT_SERVED) from None
    except Forbidden as error:
        hint = "" if namespace else "; with -n NAMESPACE, the usage in one namespace is shown"
        raise NoServer(f"{error.message}{hint}") from None
    except Unavailable as error:
        raise NoServer(f"accounting does not answer: {error.message}") from None
    except ValueError:
        raise CommandError(f"{target}: the answer is not JSON") from None
    return answer


async def ask_all(session: Session, resource: str, namespace: str, most: int, **parameters: str) -> list[Any]:
    """Items of all pages of an answer, at most `most`."""
    items: list[Any] = []
    following = ""
    for _ in range(MOST_PAGES):
        limit = str(min(most - len(items), 1000))
        page = await ask(
            session, resource, namespace, **{**parameters, "limit": limit, "continue": following}
        )
        items += page["items"]
        following = page.get("continue") or ""
        if not following or len(items) >= most:
            break
    return items


def hours(resources: Mapping[str, float], name: str) -> float:
    """Resource-hours; of memory, GiB-hours."""
    amount = resources.get(name, 0.0) / HOUR
    return amount / 2**30 if name == "memory" else amount


def number_text(amount: float) -> str:
    """A number for people: few digits, thousands apart."""
    if amount == 0:
        return "0"
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:,.1f}" if amount >= 10 else f"{amount:.2f}"
