"""Shares of queues over the last hour, from the samples of the dashboard."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from volcano.dashboard.data.queues import QueueRow
from volcano.dashboard.samples import Sample
from volcano.views.amounts import short_name

Line = Sequence[tuple[int, float]]  # milliseconds since the epoch, percent
MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class ShareHistory:
    """Lines of a chart, with what they show in words."""

    lines: Mapping[str, Line]
    sentence: str


def share_history(samples: Iterable[Sample], rows: Sequence[QueueRow]) -> ShareHistory:
    """Dominant shares of these queues; of the ones with the largest share now when they are many."""
    largest = sorted(rows, key=lambda row: -row.share)[:MOST_LINES]
    names = [row.name for row in rows if row in largest]
    kept = [sample for sample in samples if sample.total]
    lines = {
        name: tuple(
            (_milliseconds(sample), _percent(sample.queues[name].share(sample.total)))
            for sample in kept
            if name in sample.queues
        )
        for name in names
    }
    return ShareHistory(lines, _sentence(lines))


def queue_history(samples: Iterable[Sample], name: str, resource: str) -> ShareHistory:
    """What a queue held and deserved of one resource, in percent of the cluster."""
    kept = [
        (sample, sample.queues[name])
        for sample in samples
        if name in sample.queues and sample.total.get(resource)
    ]
    lines = {
        title: tuple(
            (
                _milliseconds(sample),
                _percent(getattr(queue, field).get(resource, 0.0) / sample.total[resource]),
            )
            for sample, queue in kept
        )
        for title, field in (
            (f"{short_name(resource)} allocated", "allocated"),
            ("deserved by weight", "deserved"),
        )
    }
    return ShareHistory(lines, _sentence(lines))


def _sentence(lines: Mapping[str, Line]) -> str:
    """First and last value of each line."""
    parts = [f"{name} {line[0][1]:g} % to {line[-1][1]:g} %" for name, line in lines.items() if line]
    return ", ".join(parts)


def _milliseconds(sample: Sample) -> int:
    return round(sample.at * 1000)


def _percent(part: float) -> float:
    return round(part * 100, 1)
