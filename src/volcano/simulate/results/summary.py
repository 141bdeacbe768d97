"""Summary of one simulation: the figures of the table, of `-o json` and of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.simulate.jobs import Result
from volcano.simulate.results.distribution import Distribution
from volcano.simulate.results.recorder import RESOURCES, Recorder

HOUR = 3600.0
SHARES = (0.5, 0.95, 0.99)
MOST_REASONS = 20
NODE_FAILURE = "node failure"  # reason of the engine
CDF = tuple(index / 100 for index in range(1, 101))


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and quantiles of a figure over jobs."""

    mean: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, found: Distribution) -> "Spread":
        return cls(found.mean, *found.quantiles(SHARES))

    @classmethod
    def from_json(cls, data: Any) -> "Spread":
        return cls(*(float(data[name]) for name in ("mean", "p50", "p95", "p99")))


@dataclass(frozen=True, slots=True)
class QueueResult:
    """Share of the cluster that a queue had, against the share it deserved, on average over time."""

    name: str
    weight: float
    share: float
    deserved: float

    @property
    def satisfaction(self) -> float:
        """Share against deserved; 1 for a queue that asked for nothing."""
        return self.share / self.deserved if self.deserved > 1e-9 else 1.0

    @classmethod
    def from_json(cls, data: Any) -> "QueueResult":
        return cls(str(data["queue"]), float(data["weight"]), float(data["share"]), float(data["deserved"]))


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one configuration over one workload."""

    name: str
    jobs: int
    results: Mapping[str, int]
    placements: int
    virtual_seconds: float
    wall_seconds: float
    cycles: int
    interrupted: bool
    wait: Spread
    completion: Spread
    slowdown: Spread
    allocation: Mapping[str, float]  # share of the cluster, average over time
    utilisation: Mapping[str, float]
    fragmentation: float  # average of the samples
    queues: tuple[QueueResult, ...]
    jain: float
    evictions: Mapping[str, int]
    lost: Mapping[str, float]  # resource hours, and pod hours
    unplaced: int  # jobs that never started
    reasons: Mapping[str, int]

    @classmethod
    def from_json(cls, data: Any) -> "Summary":
        """Reads what `as_json` wrote. Raises ValueError for anything else."""
        try:
            return cls(
                str(data["configuration"]),
                int(data["jobs"]),
                {str(name): int(count) for name, count in data["results"].items()},
                int(data["placements"]),
                float(data["virtual_seconds"]),
                float(data["wall_seconds"]),
                int(data["cycles"]),
                bool(data["interrupted"]),
                Spread.from_json(data["wait_s"]),
                Spread.from_json(data["completion_s"]),
                Spread.from_json(data["bounded_slowdown"]),
                {name: float(data["allocation"][name]) for name in RESOURCES},
                {name: float(data["utilisation"][name]) for name in RESOURCES},
                float(data["fragmentation"]),
                tuple(QueueResult.from_json(queue) for queue in data["fairness"]["queues"]),
                float(data["fairness"]["jain"]),
                {str(name): int(count) for name, count in data["evictions"].items()},
                {str(name): float(hours) for name, hours in data["lost_work"].items()},
                int(data["unplaced_jobs"]),
                {str(name): int(count) for name, count in data["unplaced_reasons"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the summary of a simulation: {error!r}") from None

    @property
    def jobs_per_second(self) -> float:
        """Finished jobs per second of real time, which counts in milliseconds as in the written summary."""
        seconds = round(self.wall_seconds, 3)
        return sum(self.results.values()) / seconds if seconds > 0 else 0.0

    @property
    def preemptions(self) -> int:
        """Evictions that the scheduler decided."""
        return sum(count for reason, count in self.evictions.items() if reason != NODE_FAILURE)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        spreads = {"wait_s": self.wait, "completion_s": self.completion, "bounded_slowdown": self.slowdown}
        return {
            "configuration": self.name,
            "jobs": self.jobs,
            "results": dict(self.results),
            "placements": self.placements,
            "virtual_seconds": self.virtual_seconds,
            "wall_seconds": round(self.wall_seconds, 3),
            "jobs_per_s": round(self.jobs_per_second, 1),
            "cycles": self.cycles,
            "interrupted": self.interrupted,
            **{
                name: {"mean": spread.mean, "p50": spread.p50, "p95": spread.p95, "p99": spread.p99}
                for name, spread in spreads.items()
            },
            "allocation": dict(self.allocation),
            "utilisation": dict(self.utilisation),
            "fragmentation": self.fragmentation,
            "fairness": {
                "jain": self.jain,
                "queues": [
                    {
                        "queue": queue.name,
                        "weight": queue.weight,
                        "share": queue.share,
                        "deserved": queue.deserved,
                        "share_of_deserved": queue.satisfaction,
                    }
                    for queue in self.queues
                ],
            },
            "preemptions": self.preemptions,
            "evictions": dict(self.evictions),
            "lost_work": dict(self.lost),
            "unplaced_jobs": self.unplaced,
            "unplaced_reasons": dict(self.reasons),
        }


def summarise(
    name: str, recorder: Recorder, *, virtual: float, wall: float, cycles: int, interrupted: bool
) -> Summary:
    totals = recorder.timeline.totals()
    span = max(recorder.timeline.end, 1e-9)
    means = totals / span
    count = len(recorder.queues)
    shares, fair = means[7 : 7 + count], means[7 + count :]
    queues = tuple(
        QueueResult(queue, float(recorder.weights[row]), float(shares[row]), float(fair[row]))
        for row, queue in enumerate(recorder.queues)
    )
    asked = [queue.satisfaction for queue in queues if queue.deserved > 1e-9]
    samples = [value for _, value in recorder.fragmentation]
    never = recorder.results[Result.UNPLACED] + recorder.results[Result.WITHDRAWN]
    lost = dict(
        zip(("cpu_hours", "memory_byte_hours", "gpu_hours"), (recorder.lost / HOUR).tolist(), strict=True)
    )
    return Summary(
        name,
        recorder.arrivals,
        {result.value: recorder.results[result] for result in Result},
        recorder.placements,
        virtual,
        wall,
        cycles,
        interrupted,
        Spread.of(recorder.wait),
        Spread.of(recorder.completion),
        Spread.of(recorder.slowdown),
        dict(zip(RESOURCES, means[:3].tolist(), strict=True)),
        dict(zip(RESOURCES, means[3:6].tolist(), strict=True)),
        sum(samples) / len(samples) if samples else 0.0,
        queues,
        jain(asked),
        dict(recorder.evictions),
        lost | {"pod_hours": recorder.lost_seconds / HOUR},
        never,
        dict(recorder.reasons.most_common(MOST_REASONS)),
    )


def table_rows(summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    """Rows of the side-by-side table: a figure, and its value for each configuration."""
    gpus = any(summary.allocation["gpu"] > 0 for summary in summaries)
    rows: list[tuple[str, list[str]]] = [
        ("jobs", [str(each.jobs) for each in summaries]),
        ("completed", [str(each.results["completed"]) for each in summaries]),
        ("failed as in the trace", [str(each.results["failed"]) for each in summaries]),
        ("never started", [str(each.unplaced) for each in summaries]),
    ]
    for title, spreads, form in (
        ("wait", [each.wait for each in summaries], seconds),
        ("completion", [each.completion for each in summaries], seconds),
        ("bounded slowdown", [each.slowdown for each in summaries], "{:.2f}".format),
    ):
        for name in ("mean", "p50", "p95", "p99"):
            rows.append((f"{title}, {name}", [form(getattr(spread, name)) for spread in spreads]))
    for name in RESOURCES if gpus else RESOURCES[:2]:
        rows.append((f"{name} allocated", [percent(each.allocation[name]) for each in summaries]))
    if any(each.utilisation != each.allocation for each in summaries):
        for name in RESOURCES if gpus else RESOURCES[:2]:
            rows.append((f"{name} used", [percent(each.utilisation[name]) for each in summaries]))
    rows += [
        ("fragmentation", [percent(each.fragmentation) for each in summaries]),
        ("fairness (Jain)", [f"{each.jain:.3f}" for each in summaries]),
        ("preemptions", [str(each.preemptions) for each in summaries]),
        ("pods on failed nodes", [str(each.evictions.get(NODE_FAILURE, 0)) for each in summaries]),
        ("lost work, pod hours", [f"{each.lost['pod_hours']:.1f}" for each in summaries]),
        ("cycles", [str(each.cycles) for each in summaries]),
        ("simulated time", [seconds(each.virtual_seconds) for each in summaries]),
        ("jobs per second", [f"{each.jobs_per_second:.0f}" for each in summaries]),
    ]
    return rows


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def seconds(value: float) -> str:
    """`0 s`, `12.3 s`, `4.5 min`, `6.7 h` or `8.9 d`."""
    for limit, unit, name in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if value < limit:
            return f"{value / unit:.1f} {name}" if value else f"0 {name}"
    return f"{value / 86400:.1f} d"


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything; 1 without values."""
    total, squares = sum(values), sum(value * value for value in values)
    return total * total / (len(values) * squares) if squares > 0 else 1.0
