"""Cron schedules: five fields or a descriptor such as `@hourly` or `@every 1h30m`, and when they are next due."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from volcano.kube.api.duration import parse as parse_duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
DESCRIPTORS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Long enough for 29 February across a century year; a schedule such as 30 February is never due.
FAR_AHEAD = timedelta(days=366 * 9)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule. With `every` it is due at fixed intervals instead of at calendar times."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = True
    any_weekday: bool = True
    every: timedelta | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """Returns the first due time after `moment`, in its time zone; None when there is none for years."""
        if self.every is not None:
            return _later(moment.replace(microsecond=0), self.every)
        candidate = _later(moment.replace(second=0, microsecond=0), _MINUTE)
        end = moment + FAR_AHEAD
        while candidate <= end:
            if candidate.month not in self.months:
                year, month = divmod(candidate.year * 12 + candidate.month, 12)
                candidate = _later(_midnight(candidate).replace(year=year, month=month + 1, day=1))
            elif not self._on(candidate):
                candidate = _later(_midnight(candidate) + timedelta(days=1))
            elif candidate.hour not in self.hours:
                candidate = _later(candidate.replace(minute=0), timedelta(hours=1))
            elif candidate.minute not in self.minutes:
                candidate = _later(candidate, _MINUTE)
            else:
                return candidate
        return None

    def _on(self, moment: datetime) -> bool:
        """Whether the day matches: when both day fields are restricted, either suffices."""
        day = moment.day in self.days
        weekday = moment.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day or self.any_weekday else (day or weekday)


def _later(moment: datetime, by: timedelta = timedelta()) -> datetime:
    """Returns the moment `by` later in elapsed time, also across a change of the clocks."""
    return (moment.astimezone(UTC) + by).astimezone(moment.tzinfo)


def _midnight(moment: datetime) -> datetime:
    """Returns the start of a moment's day in local time."""
    return moment.replace(hour=0, minute=0, fold=0)


def parse(text: str) -> Schedule:
    """Parses a schedule; raises ValueError naming the invalid part."""
    text = text.strip()
    if text.startswith("@every "):
        seconds = parse_duration(text.removeprefix("@every ").strip())
        if seconds < 1:
            raise ValueError(f"schedule {text!r}: the interval must be at least one second")
        return Schedule(every=timedelta(seconds=int(seconds)))
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise ValueError(
                f"unrecognized descriptor {text!r}; choose from {', '.join(DESCRIPTORS)} or @every 1h"
            )
        text = DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: {text!r}; such as '*/5 * * * *'")
    fields = [_field(part, *bounds) for part, bounds in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in fields[4])
    starred = [_restricts_nothing(part) for part in parts]
    return Schedule(fields[0], fields[1], fields[2], fields[3], weekdays, starred[2], starred[4])


def _restricts_nothing(field: str) -> bool:
    """Whether a day field does not restrict the day; `*/2` does, as in Kubernetes."""
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _field(text: str, name: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _integer(step_text, name, part) if slash else 1
        if step < 1:
            raise ValueError(f"{name} {part!r}: the step must be at least 1")
        if span in ("*", "?"):
            first, last = low, high if name != "day of week" else 6
        else:
            start, dash, end = span.partition("-")
            first = _value(start, name, low, names)
            last = _value(end, name, low, names) if dash else (high if slash else first)
        if not low <= first <= last <= high:
            raise ValueError(f"{name} {part!r}: must lie between {low} and {high}, the lower end first")
        values.update(range(first, last + 1, step))
    return frozenset(values)


def _value(text: str, name: str, low: int, names: tuple[str, ...]) -> int:
    lowered = text.lower()
    if lowered in names:
        return names.index(lowered) + low
    return _integer(text, name, text)


def _integer(text: str, name: str, part: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} {part!r}: {text!r} is no number")
    return int(text)
