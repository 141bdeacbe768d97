"""Metrics of jobs: how they ended, and how long it took to create their pods."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import Histogram, Metric
from prometheus_client.registry import Collector

from volcano.base.metrics import CollectorRegistry
from volcano.kube.api.manifest import Key

_SHORTEST, _LONGEST, _BUCKETS = 50.0, 60_000.0, 30
_ENDINGS = {
    "volcano_job_completed_phase_count": "Jobs that completed",
    "volcano_job_failed_phase_count": "Jobs that failed",
}


class JobMetrics(Collector):
    """The job controller's metrics on one registry.

    The library would add `_total` to the name of a counter; dashboards know Volcano's names without it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended: dict[str, dict[Key, Counter[str]]] = {name: {} for name in _ENDINGS}
        ratio = (_LONGEST / _SHORTEST) ** (1 / (_BUCKETS - 1))
        self._latency = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Time from a job's creation to that of each of its pods",
            buckets=[_SHORTEST * ratio**step for step in range(_BUCKETS)],
            registry=registry,
        )
        registry.register(self)

    def completed(self, job: Key, queue: str) -> None:
        self._ended["volcano_job_completed_phase_count"].setdefault(job, Counter())[queue] += 1

    def failed(self, job: Key, queue: str) -> None:
        self._ended["volcano_job_failed_phase_count"].setdefault(job, Counter())[queue] += 1

    def pod_made(self, milliseconds: float) -> None:
        self._latency.observe(milliseconds)

    def forget(self, job: Key) -> None:
        """Removes a deleted job's series."""
        for ended in self._ended.values():
            ended.pop(job, None)

    def collect(self) -> Iterator[Metric]:
        for name, explanation in _ENDINGS.items():
            metric = Metric(name, explanation, "unknown")
            for job, ended in self._ended[name].items():
                for queue, count in ended.items():
                    metric.add_sample(name, {"job_name": str(job), "queue_name": queue}, count)
            yield metric
