"""Collectors beyond those of the client library: plain counters, timestamps of jobs, gauges of plugins."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector

from volcano.base.metrics import CollectorRegistry
from volcano.model.job import Job
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.plugin_metrics import CARD, CARD_OF_POD, JOB, METRICS, MetricSample


class PlainCounter(Collector):
    """A counter without the suffix `_total` that the library adds: Volcano's dashboards use the plain name."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry, label: str = "") -> None:
        self._name, self._text, self._label = name, text, label
        self._counts: dict[str, int] = {} if label else {"": 0}
        registry.register(self)

    def inc(self, subject: str = "") -> None:
        self._counts[subject] = self._counts.get(subject, 0) + 1

    def forget(self, subject: str) -> None:
        self._counts.pop(subject, None)

    def collect(self) -> Iterator[Metric]:
        metric = Metric(self._name, self._text, "unknown")
        for subject, count in self._counts.copy().items():
            metric.add_sample(self._name, {self._label: subject} if self._label else {}, count)
        yield metric


class _Timestamps(NamedTuple):
    name: str
    queue: str
    namespace: str
    start: float  # creation of the job
    last: float  # last placement of one of its tasks


class JobTimestamps(Collector):
    """Creation and last placement of each job, and the time between, until the job is deleted."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self._prefix = prefix
        self._timestamps: dict[str, _Timestamps] = {}
        registry.register(self)

    def placed(self, job: Job, now: float) -> None:
        """Records the placement of one of the job's tasks."""
        self._timestamps[job.uid] = _Timestamps(job.name, job.queue, job.namespace, job.created, now)

    def forget(self, uid: str) -> None:
        self._timestamps.pop(uid, None)

    def collect(self) -> Iterator[Metric]:
        duration = Metric(f"{self._prefix}_duration", "milliseconds from creation to the last node", "gauge")
        start = Metric(f"{self._prefix}_start_time", "when the job was created, unix seconds", "gauge")
        last = Metric(f"{self._prefix}_last_time", "when a task was last given a node, unix seconds", "gauge")
        for times in list(self._timestamps.values()):
            labels = {"job_name": times.name, "queue": times.queue, "job_namespace": times.namespace}
            duration.add_sample(duration.name, labels, max(times.last - times.start, 0.0) * 1000)
            start.add_sample(start.name, labels, times.start)
            last.add_sample(last.name, labels, times.last)
        yield from (duration, start, last)


class PluginGauges:
    """Gauges of the metrics that plugins measure; a series is removed with its queue or job, or by its plugin."""

    def __init__(self, namespace: str, registry: CollectorRegistry) -> None:
        self._gauges = {
            name: Gauge(name, name.replace("_", " "), labels, namespace=namespace, registry=registry)
            for name, labels in METRICS.items()
        }
        self._series: dict[str, set[tuple[str, ...]]] = {name: set() for name in METRICS}
        self._queues: frozenset[str] = frozenset()

    def update(self, samples: Iterable[MetricSample], snapshot: Snapshot) -> None:
        """Sets the samples of one cycle; other series keep their value until their subject is deleted."""
        for metric, labels, value in samples:
            if value is None:
                self._remove(metric, labels)
                continue
            self._gauges[metric].labels(*labels).set(value)
            self._series[metric].add(labels)
        queues = frozenset(snapshot.queues)
        if queues == self._queues and all(uid in snapshot.jobs for uid in snapshot.changed):
            return  # nothing was deleted
        self._queues = queues
        for metric, series in self._series.items():
            about_jobs = METRICS[metric] is JOB
            if METRICS[metric] in (CARD, CARD_OF_POD):
                continue  # removed by the plugin
            for labels in list(series):
                exists = "/".join(labels) in snapshot.jobs if about_jobs else labels[0] in snapshot.queues
                if not exists:
                    self._remove(metric, labels)

    def _remove(self, metric: str, labels: tuple[str, ...]) -> None:
        if labels in self._series[metric]:
            self._gauges[metric].remove(*labels)
            self._series[metric].discard(labels)
