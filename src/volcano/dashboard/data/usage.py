"""The page of usage: what the viewer asked for, and the chart of a report of `vcctl usage`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from volcano.accounting.api import DIMENSIONS, GPU, PERIODS
from volcano.accounting.periods import period_name, period_start, periods
from volcano.services.accounting import SECONDS, hours
from volcano.services.usage import UsageGroup, UsageReport

# Length of the time that is shown, by its name in the address.
RANGES: Mapping[str, str] = {
    "day": "Last 24 hours",
    "week": "Last 7 days",
    "month": "This month",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
    "365d": "Last 365 days",
}
LENGTHS = {"day": "1d", "week": "7d", "30d": "30d", "90d": "90d", "365d": "365d"}
MEASURES: Mapping[str, str] = {GPU: "GPU hours", "cpu": "CPU hours", "memory": "GiB hours", "cost": "Cost"}
OTHERS, NONE = "Others", "<none>"
MOST_GROUPS = 8  # of the chart; the rest is shown together
MOST_BARS = 62


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is shown. Every field is a name in the address of the page."""

    by: str = "queue"
    range: str = "month"
    period: str = ""  # divide the table by day, week or month; "" for the whole time
    measure: str = ""  # of the chart; "" for GPU hours, or CPU hours in a cluster without GPUs
    queue: str = ""
    user: str = ""
    namespace: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "Wanted":
        """Values that do not exist are replaced by the usual ones: addresses are edited by hand."""
        given = cls(**{each.name: query.get(each.name, "").strip() for each in fields(cls)})
        usual = cls()
        return replace(
            given,
            by=given.by if given.by in DIMENSIONS else usual.by,
            range=given.range if given.range in RANGES else usual.range,
            period=given.period if given.period in PERIODS else usual.period,
            measure=given.measure if given.measure in MEASURES else usual.measure,
        )

    def query(self) -> dict[str, str]:
        """Values for the address; "" for the usual ones."""
        usual = Wanted()
        return {
            each.name: value if (value := getattr(self, each.name)) != getattr(usual, each.name) else ""
            for each in fields(self)
        }

    def bounds(self, now: float) -> tuple[float, float]:
        """Begin and end in seconds since the epoch."""
        if self.range not in LENGTHS:
            return period_start(self.range, now), now
        text = LENGTHS[self.range]
        return now - int(text[:-1]) * SECONDS[text[-1]], now

    @property
    def chart_period(self) -> str:
        """What the bars of the chart stand for: the period of the table, or one that gives a readable number."""
        return self.period or {"90d": "week", "365d": "month"}.get(self.range, "day")


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each period, divided by group."""

    periods: tuple[str, ...]
    groups: Mapping[str, tuple[float, ...]]
    measure: str

    @property
    def title(self) -> str:
        return MEASURES[self.measure]

    def sentence(self) -> str:
        """The sums, largest first, for those who cannot see the chart."""
        sums = [f"{name} {sum(values):,.1f}" for name, values in self.groups.items()]
        return f"{self.title}: {', '.join(sums)}" if sums else f"{self.title}: none"


def bars(report: UsageReport, wanted: Wanted) -> Bars:
    """The chart of a report that is divided by period; the largest groups, then all others together."""
    measure = measure_of(report, wanted)
    names = [
        period_name(wanted.chart_period, begin)
        for begin, _ in periods(wanted.chart_period, report.start, report.end)
    ]
    names = names[-MOST_BARS:]
    amounts: dict[str, dict[str, float]] = {}
    for row in report.rows:
        by_period = amounts.setdefault(group_name(row), {})
        by_period[row.period] = by_period.get(row.period, 0.0) + amount_of(row, measure)
    ordered = sorted(amounts, key=lambda name: (-sum(amounts[name].values()), name))
    groups = {name: _values(amounts[name], names) for name in ordered[:MOST_GROUPS]}
    rest = [_values(amounts[name], names) for name in ordered[MOST_GROUPS:]]
    if rest:
        groups[OTHERS] = tuple(map(sum, zip(*rest, strict=True)))
    return Bars(tuple(names), groups, measure)


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of days and weeks without the year where all have the same one."""
    years = {name[:4] for name in names}
    if len(years) != 1 or any(len(name) <= len("2026-11") for name in names):
        return tuple(names)
    return tuple(name[5:] for name in names)


def measure_of(report: UsageReport, wanted: Wanted) -> str:
    """The measure that was chosen where it can be shown; else the one of the report."""
    if wanted.measure and (wanted.measure != "cost" or report.prices is not None):
        return wanted.measure
    return report.measure


def amount_of(row: UsageGroup, measure: str) -> float:
    return row.cost if measure == "cost" else hours(row.resources, measure)


def group_name(row: UsageGroup) -> str:
    return ", ".join(value or NONE for value in row.group.values())


def _values(by_period: Mapping[str, float], names: Sequence[str]) -> tuple[float, ...]:
    return tuple(round(by_period.get(name, 0.0), 3) for name in names)
