"""Metrics that the library's own classes cannot show: counters without its suffix, moments of jobs that come and go."""

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.registry import Collector

from volcano.metrics import CollectorRegistry
from volcano.model.job import Job


class Counts(Collector):
    """A counter under exactly the name given: the library would add `_total`, which dashboards do not know."""

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


class _Moments(NamedTuple):
    name: str
    queue: str
    namespace: str
    start: float  # when the job was created
    last: float  # when one of its tasks was last given a node


class JobMoments(Collector):
    """When each job came, when it was last given a node, and the time between, until the job is gone."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self._prefix = prefix
        self._moments: dict[str, _Moments] = {}
        registry.register(self)

    def placed(self, job: Job, now: float) -> None:
        """One of the job's tasks was given a node."""
        self._moments[job.uid] = _Moments(job.name, job.queue, job.namespace, job.created, now)

    def forget(self, uid: str) -> None:
        self._moments.pop(uid, None)

    def collect(self) -> Iterator[Metric]:
        duration = Metric(f"{self._prefix}_duration", "milliseconds from creation to the last node", "gauge")
        start = Metric(f"{self._prefix}_start_time", "when the job was created, unix seconds", "gauge")
        last = Metric(f"{self._prefix}_last_time", "when a task was last given a node, unix seconds", "gauge")
        for moments in list(self._moments.values()):
            labels = {"job_name": moments.name, "queue": moments.queue, "job_namespace": moments.namespace}
            duration.add_sample(duration.name, labels, max(moments.last - moments.start, 0.0) * 1000)
            start.add_sample(start.name, labels, moments.start)
            last.add_sample(last.name, labels, moments.last)
        yield from (duration, start, last)
