"""Rows of a usage report: usage by group with hours and costs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.accounting.api import GPU, UsageRow
from volcano.cli.accounting import hours
from volcano.cli.usage.prices import Prices


@dataclass(slots=True)
class ReportRow:
    """Usage of one group."""

    group: Mapping[str, str]
    period: str = ""
    resources: dict[str, float] = field(default_factory=dict)  # resource-seconds
    runs: int = 0
    evictions: int = 0
    waiting: float = 0.0
    cost: float = 0.0

    def add(self, row: UsageRow, cost: float) -> None:
        for name, amount in row.resources.items():
            self.resources[name] = self.resources.get(name, 0.0) + amount
        self.runs += row.runs
        self.evictions += row.evictions
        self.waiting += row.waiting
        self.cost += cost

    @property
    def mean_waiting(self) -> float:
        return self.waiting / self.runs if self.runs else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """Rows, the largest first, and their total."""

    by: tuple[str, ...]
    rows: Sequence[ReportRow]
    total: ReportRow
    prices: Prices | None
    unpriced: tuple[str, ...]  # GPU types without a price

    @property
    def measure(self) -> str:
        """What rows are compared by: the cost, else hours of GPUs, else of cores."""
        if self.prices is not None:
            return "cost"
        return GPU if self.total.resources.get(GPU) else "cpu"

    def size(self, row: ReportRow) -> float:
        return row.cost if self.measure == "cost" else hours(row.resources, self.measure)


def requested_dimensions(by: Sequence[str], prices: Prices | None) -> tuple[str, ...]:
    """What to ask the API for: prices differ by GPU type and queue, so that usage must be divided by them too."""
    more = ("gpu-type", "queue") if prices is not None else ()
    return tuple(dict.fromkeys((*by, *more)))


def build_report(rows: Iterable[UsageRow], by: tuple[str, ...], prices: Prices | None) -> Report:
    found: dict[tuple[str, ...], ReportRow] = {}
    total = ReportRow({})
    unpriced: dict[str, None] = {}
    for row in rows:
        group = {name: row.group[name] for name in by}
        cost = 0.0
        if prices is not None:
            gpu_type = row.group["gpu-type"]
            cost = prices.cost(row.resources, gpu_type, row.group["queue"])
            if row.resources.get(GPU) and prices.unpriced(gpu_type):
                unpriced[gpu_type] = None
        for each in (found.setdefault((row.period, *group.values()), ReportRow(group, row.period)), total):
            each.add(row, cost)
    report = Report(by, [], total, prices, tuple(unpriced))
    ordered = sorted(found.values(), key=lambda row: (row.period, -report.size(row), *row.group.values()))
    return Report(by, ordered, total, prices, tuple(unpriced))


def row_manifest(row: ReportRow, *, priced: bool) -> dict[str, Any]:
    """One row as JSON: hours, of memory GiB-hours."""
    return {
        **({"period": row.period} if row.period else {}),
        "group": dict(row.group),
        "hours": {name: hours(row.resources, name) for name in sorted(row.resources)},
        "runs": row.runs,
        "evictions": row.evictions,
        "meanWaitingSeconds": row.mean_waiting,
        **({"cost": row.cost} if priced else {}),
    }
