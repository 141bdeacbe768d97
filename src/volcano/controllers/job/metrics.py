"""What is counted about jobs: how they ended, and how long their pods took to be made."""

from prometheus_client import Counter, Histogram

from volcano.kube.manifest import Key
from volcano.metrics import CollectorRegistry

_SHORTEST, _LONGEST, _BUCKETS = 50.0, 60_000.0, 30


class JobMetrics:
    """The job controller's metrics on one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("job_name", "queue_name")
        self._completed = Counter(
            "volcano_job_completed_phase_count", "Jobs that completed", labels, registry=registry
        )
        self._failed = Counter(
            "volcano_job_failed_phase_count", "Jobs that failed", labels, registry=registry
        )
        ratio = (_LONGEST / _SHORTEST) ** (1 / (_BUCKETS - 1))
        self._latency = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Time from a job's creation to that of each of its pods",
            buckets=[_SHORTEST * ratio**step for step in range(_BUCKETS)],
            registry=registry,
        )
        self._series: dict[Key, set[tuple[Counter, str]]] = {}

    def completed(self, job: Key, queue: str) -> None:
        self._count(self._completed, job, queue)

    def failed(self, job: Key, queue: str) -> None:
        self._count(self._failed, job, queue)

    def pod_made(self, milliseconds: float) -> None:
        self._latency.observe(milliseconds)

    def forget(self, job: Key) -> None:
        """Removes a deleted job's series."""
        for counter, queue in self._series.pop(job, ()):
            counter.remove(str(job), queue)

    def _count(self, counter: Counter, job: Key, queue: str) -> None:
        self._series.setdefault(job, set()).add((counter, queue))
        counter.labels(str(job), queue).inc()
