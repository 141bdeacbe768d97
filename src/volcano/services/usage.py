"""Reports of usage: who used which resources for how long, and what it costs."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from volcano.accounting.api import GPU, USAGE, UsageRow, parse_usage
from volcano.base.clock import micro_timestamp
from volcano.kube.client.http import HttpClient
from volcano.services.accounting import ask, hours
from volcano.services.prices import Prices

TITLES: Final = {
    "queue": "Queue",
    "user": "User",
    "namespace": "Namespace",
    "job": "Job",
    "gpu-type": "GPU type",
}
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """Usage of one group."""

    group: Mapping[str, str]
    period: str = ""
    resources: Mapping[str, float] = field(default_factory=dict)  # resource-seconds
    runs: int = 0
    evictions: int = 0
    waiting: float = 0.0
    cost: float = 0.0

    def plus(self, row: UsageRow, cost: float) -> "UsageGroup":
        resources = dict(self.resources)
        for name, amount in row.resources.items():
            resources[name] = resources.get(name, 0.0) + amount
        return UsageGroup(
            self.group, self.period, resources, self.runs + row.runs, self.evictions + row.evictions,
            self.waiting + row.waiting, self.cost + cost,
        )  # fmt: skip

    @property
    def hours(self) -> Mapping[str, float]:
        """Hours of each resource, of memory GiB-hours."""
        return {name: hours(self.resources, name) for name in sorted(self.resources)}

    @property
    def mean_waiting(self) -> float:
        return self.waiting / self.runs if self.runs else 0.0


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows, the largest first, and their total."""

    by: tuple[str, ...]
    rows: Sequence[UsageGroup]
    total: UsageGroup
    prices: Prices | None
    start: float = 0.0  # seconds since the epoch
    end: float = 0.0
    notes: tuple[str, ...] = ()  # what may be missing

    @property
    def measure(self) -> str:
        """What rows are compared by: the cost, else hours of GPUs, else of cores."""
        if self.prices is not None:
            return "cost"
        return GPU if self.total.resources.get(GPU) else "cpu"

    def size(self, row: UsageGroup) -> float:
        return row.cost if self.measure == "cost" else hours(row.resources, self.measure)


async def read_usage(
    client: HttpClient,
    *,
    start: float,
    end: float,
    by: Sequence[str] = ("queue",),
    period: str = "",
    namespace: str = "",
    queue: str = "",
    user: str = "",
    job: str = "",
    gpu_type: str = "",
    prices: Prices | None = None,
) -> UsageReport:
    """Usage between two times, in seconds since the epoch; divided by `period`, if there is one."""
    # Prices differ by GPU type and queue, so that usage must be divided by them too.
    more = ("gpu-type", "queue") if prices is not None else ()
    answer = await ask(
        client,
        USAGE,
        namespace,
        by=",".join(dict.fromkeys((*by, *more))),
        period=period,
        queue=queue,
        user=user,
        job=job,
        gpuType=gpu_type,
        **{"from": micro_timestamp(start), "to": micro_timestamp(end)},
    )
    report = build_report(map(parse_usage, answer["items"]), tuple(by), prices)
    return replace(report, start=start, end=end, notes=(*(answer.get("warnings") or ()), *report.notes))


def build_report(rows: Iterable[UsageRow], by: tuple[str, ...], prices: Prices | None) -> UsageReport:
    """Sums rows up by group."""
    found: dict[tuple[str, ...], UsageGroup] = {}
    total = UsageGroup({})
    unpriced: dict[str, None] = {}
    for row in rows:
        group = {name: row.group[name] for name in by}
        cost = 0.0
        if prices is not None:
            gpu_type = row.group["gpu-type"]
            cost = prices.cost(row.resources, gpu_type, row.group["queue"])
            if row.resources.get(GPU) and prices.unpriced(gpu_type):
                unpriced[gpu_type] = None
        key = (row.period, *group.values())
        found[key] = found.get(key, UsageGroup(group, row.period)).plus(row, cost)
        total = total.plus(row, cost)
    notes = tuple(f"GPUs of type {name!r} have no price" for name in unpriced)
    report = UsageReport(by, (), total, prices, notes=notes)
    ordered = sorted(found.values(), key=lambda row: (row.period, -report.size(row), *row.group.values()))
    return replace(report, rows=ordered)


def _plain(name: str) -> str:
    """A name that no spreadsheet takes for a formula: users choose some of these names."""
    return f"'{name}" if name.startswith(FORMULA_STARTS) else name


def csv_text(report: UsageReport) -> str:
    """One line for each group; hours of every resource that occurs, of memory GiB-hours."""
    names = sorted(report.total.resources)
    is_divided = any(row.period for row in report.rows)
    header = [
        *(["period"] if is_divided else []),
        *report.by,
        *("memory_gib_hours" if name == "memory" else f"{name}_hours" for name in names),
        "pods",
        "evictions",
        "mean_waiting_seconds",
        *(["cost"] if report.prices is not None else []),
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in report.rows:
        writer.writerow(
            [
                *([row.period] if is_divided else []),
                *map(_plain, row.group.values()),
                *(f"{hours(row.resources, name):.6g}" for name in names),
                row.runs,
                row.evictions,
                f"{row.mean_waiting:.1f}",
                *([f"{row.cost:.4f}"] if report.prices is not None else []),
            ]
        )
    return text.getvalue()
