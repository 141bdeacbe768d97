"""Metric samples that plugins measure in a cycle, under Volcano's metric names."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from volcano.model.resources import CPU, MEMORY, PODS, ResourceIndex, Vector

QUEUE = ("queue_name",)
SCALAR = ("queue_name", "resource")
JOB = ("job_ns", "job_id")
CARD = ("devID", "NodeName")
CARD_OF_POD = (*CARD, "podName")
# Labels of each metric: the first one, or the first two for jobs, name its subject.
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
    **{
        f"vgpu_device_{what}": CARD
        for what in ("shared_number", "allocated_memory", "allocated_cores", "memory_limit")
    },
    **{f"vgpu_device_{what}_allocation_for_a_certain_pod": CARD_OF_POD for what in ("memory", "core")},
}


class MetricSample(NamedTuple):
    """One value of one metric, or None to remove its series; `labels` in the order METRICS names them."""

    metric: str
    labels: tuple[str, ...]
    value: float | None


def amounts(what: str, queue: str, vector: Vector, resources: ResourceIndex) -> Iterable[MetricSample]:
    """Samples of a queue's resource vector; unlimited resources have none."""
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
