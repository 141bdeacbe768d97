"""Metrics of queues and flows, under Volcano's names."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.registry import Collector

from volcano.base.metrics import CollectorRegistry

PHASES = ("inqueue", "pending", "running", "unknown", "completed")
# Final phase of a flow → its metric.
ENDINGS = {"Succeed": "volcano_jobflow_succeed_phase_count", "Failed": "volcano_jobflow_failed_phase_count"}


class QueueMetrics(Collector):
    """PodGroups of each queue by phase."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counts: dict[str, Mapping[str, int]] = {}
        registry.register(self)

    def counted(self, queue: str, counts: Mapping[str, int]) -> None:
        self._counts[queue] = {phase: counts.get(phase, 0) for phase in PHASES}

    def forget(self, queue: str) -> None:
        """Removes a deleted queue's series."""
        self._counts.pop(queue, None)

    def collect(self) -> Iterator[Metric]:
        for phase in PHASES:
            name = f"volcano_queue_pod_group_{phase}_count"
            metric = Metric(name, f"PodGroups of a queue in phase {phase}", "gauge")
            for queue, counts in sorted(self._counts.items()):
                metric.add_sample(name, {"queue_name": queue}, counts[phase])
            yield metric


class JobFlowMetrics(Collector):
    """Completed and failed flows by namespace since the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended: dict[str, Counter[str]] = {phase: Counter() for phase in ENDINGS}
        registry.register(self)

    def ended(self, phase: str, namespace: str) -> None:
        self._ended[phase][namespace] += 1

    def collect(self) -> Iterator[Metric]:
        for phase, name in ENDINGS.items():
            # The library would add `_total` to the name of a counter.
            metric = Metric(name, f"Flows that ended in phase {phase}", "unknown")
            for namespace, count in sorted(self._ended[phase].items()):
                metric.add_sample(name, {"jobflow_namespace": namespace}, count)
            yield metric
