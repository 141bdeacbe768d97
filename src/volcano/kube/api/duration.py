"""Durations in Go's format ("1h30m", "500ms", "-1.5s"), and as kubectl shows them ("5m30s", "2d4h")."""

import re
from decimal import Decimal
from typing import Any

from volcano.kube.api.fields import wall_time

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST = 2**63 - 1


def parse_nanoseconds(text: str) -> int:
    """Parses a Go duration to nanoseconds. Raises ValueError naming the text."""
    body = text[1:] if text[:1] in ("+", "-") else text
    parts = list(_PART.finditer(body))
    complete = bool(parts) and "".join(part.group() for part in parts) == body
    if body != "0" and not complete:
        raise ValueError(f"{text!r} is not a duration; write numbers with units, such as 1h30m, 45s or 500ms")
    total = sum(int(Decimal(part.group(1)) * _NANOSECONDS[part.group(2)]) for part in parts)
    if total > _LONGEST:
        raise ValueError(f"{text!r} is too long a duration; about 292 years is the most")
    return -total if text.startswith("-") else total


def parse(text: str) -> float:
    """Parses a Go duration to seconds. Raises ValueError naming the text."""
    return parse_nanoseconds(text) / 1e9


def format_nanoseconds(nanoseconds: int) -> str:
    """Formats a duration as Go does: "1h30m0s", "1.5s", "500ms", "0s"."""
    if nanoseconds == 0:
        return "0s"
    sign, amount = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, name in ((1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms")):
        if amount < unit:
            return f"{sign}{_decimal(amount, max(unit // 1_000, 1))}{name}"
    minutes, rest = divmod(amount, 60 * 1_000_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, 1_000_000_000)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}s"
    return f"{sign}{minutes}m{seconds}s" if minutes else f"{sign}{seconds}s"


def format(seconds: float) -> str:
    """Formats seconds as a Go duration."""
    return format_nanoseconds(round(seconds * 1e9))


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    fraction = str(rest).zfill(len(str(unit)) - 1).rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def human_duration(seconds: float) -> str:
    """Formats a duration with two or three significant figures: 90s, 5m30s, 3h, 2d4h, 1y200d."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(timestamp: Any, now: float) -> str:
    """Formats the time since a timestamp; `<unknown>` for anything else."""
    wall = wall_time(timestamp)
    return "<unknown>" if wall is None else human_duration(now - wall)
