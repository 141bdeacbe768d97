"""Readings: numbers that plugins know and people watch, under Volcano's metric names."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client import Gauge

from volcano.metrics import CollectorRegistry
from volcano.model.resources import CPU, MEMORY, PODS, ResourceIndex, Vector
from volcano.model.snapshot import Snapshot

QUEUE = ("queue_name",)
SCALAR = ("queue_name", "resource")
JOB = ("job_ns", "job_id")
# Metric → its labels. The first label, or the first two for jobs, say what it is about.
METRICS: Mapping[str, tuple[str, ...]] = {
    "job_share": JOB,
    "queue_share": QUEUE,
    "queue_overused": QUEUE,
    "queue_weight": QUEUE,
    **{
        f"queue_{what}_{unit}": labels
        for what in ("allocated", "request", "inqueue", "deserved", "capacity", "real_capacity")
        for unit, labels in (("milli_cpu", QUEUE), ("memory_bytes", QUEUE), ("scalar_resources", SCALAR))
    },
}


class MetricSample(NamedTuple):
    """One value of one metric; `labels` in the order METRICS names them."""

    metric: str
    labels: tuple[str, ...]
    value: float


def amounts(what: str, queue: str, vector: Vector, resources: ResourceIndex) -> Iterable[MetricSample]:
    """A queue's vector as readings; what is unlimited has none."""
    for column, name in enumerate(resources.names):
        value = float(vector[column])
        if column == PODS or value == float("inf"):
            continue
        if column == CPU:
            yield MetricSample(f"queue_{what}_milli_cpu", (queue,), value)
        elif column == MEMORY:
            yield MetricSample(f"queue_{what}_memory_bytes", (queue,), value)
        else:
            yield MetricSample(f"queue_{what}_scalar_resources", (queue, name), value)


class PluginGauges:
    """The gauges that show readings; series go with the queue or job they are about."""

    def __init__(self, namespace: str, registry: CollectorRegistry) -> None:
        self._gauges = {
            name: Gauge(name, name.replace("_", " "), labels, namespace=namespace, registry=registry)
            for name, labels in METRICS.items()
        }
        self._shown: dict[str, set[tuple[str, ...]]] = {name: set() for name in METRICS}

    def show(self, samples: Iterable[MetricSample], snapshot: Snapshot) -> None:
        """Shows what one cycle read; what was not read again stays, unless its subject is gone."""
        for metric, labels, value in samples:
            self._gauges[metric].labels(*labels).set(value)
            self._shown[metric].add(labels)
        for metric, shown in self._shown.items():
            about_jobs = METRICS[metric] is JOB
            for labels in list(shown):
                there = "/".join(labels) in snapshot.jobs if about_jobs else labels[0] in snapshot.queues
                if not there:
                    self._gauges[metric].remove(*labels)
                    shown.discard(labels)
