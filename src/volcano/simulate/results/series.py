"""Figures over time of a simulation, for programs that draw them: the file `series.json` of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.simulate.results.recorder import RESOURCES, Recorder
from volcano.simulate.results.summary import CDF, Summary

MOST_QUEUES = 20  # with the largest shares
DIGITS = 6
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One configuration over time. Each value is the average of the interval that ends at its time, in seconds."""

    name: str
    times: tuple[float, ...] = ()
    allocated: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict
    )  # share of the cluster, by resource
    used: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    waiting: tuple[float, ...] = ()  # pods
    queue_share: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # dominant share
    queue_deserved: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    fragmentation: Points = ()  # time and share of what is free
    waits: tuple[float, ...] = ()  # seconds that each hundredth of the jobs waited at most

    @classmethod
    def of(cls, summary: Summary, recorder: Recorder) -> "Series":
        ends, levels = recorder.timeline.averages()

        def column(position: int) -> tuple[float, ...]:
            return tuple(round(float(level), DIGITS) for level in levels[:, position])

        count = len(recorder.queues)
        asking = [row for row, queue in enumerate(summary.queues) if queue.deserved]
        shown = sorted(asking, key=lambda row: -summary.queues[row].share)[:MOST_QUEUES]
        return cls(
            summary.name,
            tuple(round(float(end), 3) for end in ends),
            {
                name: column(position)
                for position, name in enumerate(RESOURCES)
                if recorder.capacity[position]
            },
            {
                name: column(3 + position)
                for position, name in enumerate(RESOURCES)
                if recorder.capacity[position]
            },
            column(6),
            {recorder.queues[row]: column(7 + row) for row in shown},
            {recorder.queues[row]: column(7 + count + row) for row in shown},
            tuple((round(at, 3), round(value, DIGITS)) for at, value in recorder.fragmentation),
            tuple(round(each, 3) for each in recorder.wait.quantiles(CDF)),
        )

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "configuration": self.name,
            "time_s": list(self.times),
            "allocated": {name: list(values) for name, values in self.allocated.items()},
            "used": {name: list(values) for name, values in self.used.items()},
            "waiting_pods": list(self.waiting),
            "queue_share": {name: list(values) for name, values in self.queue_share.items()},
            "queue_deserved": {name: list(values) for name, values in self.queue_deserved.items()},
            "fragmentation": [list(point) for point in self.fragmentation],
            "wait_quantiles_s": list(self.waits),
        }

    @classmethod
    def from_json(cls, data: Any) -> "Series":
        """Reads what `as_json` wrote. Raises ValueError for anything else."""
        try:
            return cls(
                str(data["configuration"]),
                _numbers(data["time_s"]),
                _columns(data["allocated"]),
                _columns(data["used"]),
                _numbers(data["waiting_pods"]),
                _columns(data["queue_share"]),
                _columns(data["queue_deserved"]),
                tuple((float(at), float(value)) for at, value in data["fragmentation"]),
                _numbers(data["wait_quantiles_s"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the figures over time of a simulation: {error!r}") from None


def series_document(
    title: str, results: Sequence[tuple[Summary, Recorder]], notes: Sequence[str]
) -> dict[str, Any]:
    """Content of `series.json`."""
    return {
        "title": title,
        "notes": list(notes),
        "configurations": [Series.of(summary, recorder).as_json() for summary, recorder in results],
    }


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _columns(data: Any) -> dict[str, tuple[float, ...]]:
    return {str(name): _numbers(values) for name, values in data.items()}
