"""Metrics of notifications: what was sent and what was not, how many wait, and how long attempts take."""

from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from volcano.base.metrics import CollectorRegistry
from volcano.model.annotations.notify import NotificationType

BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds; an attempt has ten

RESULTS: Final = ("accepted", "failed")


class NotificationMetrics:
    """Labels are types of notifications; neither targets, which tenants choose, nor jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._sent = self._counter("sent", "Notifications that their target accepted")
        self._failed = self._counter("failed", "Notifications that were given up")
        self._dropped = self._counter("dropped", "Notifications that were lost because of an internal error")
        self._retried = self._counter("retried", "Failed attempts that are repeated")
        self._deferred = Counter(
            "volcano_notifications_deferred",
            "Offers of notifications that found the queue full and are repeated",
            registry=registry,
        )
        self._seconds = Histogram(
            "volcano_notification_attempt_duration_seconds",
            "Time of an attempt to send, by result",
            labelnames=("result",),
            buckets=BUCKETS,
            registry=registry,
        )
        for result in RESULTS:
            self._seconds.labels(result)

    def _counter(self, name: str, explanation: str) -> Counter:
        counter = Counter(
            f"volcano_notifications_{name}", explanation, labelnames=("type",), registry=self._registry
        )
        for kind in NotificationType:
            counter.labels(kind)  # 0 from the beginning: the first increase is seen as one
        return counter

    def watch_queue(self, length: Callable[[], int]) -> None:
        """Shows the length of a queue, read with the metrics."""
        gauge = Gauge(
            "volcano_notification_queue_length",
            "Notifications that wait or are being sent",
            registry=self._registry,
        )
        gauge.set_function(length)

    def sent(self, kind: str) -> None:
        self._sent.labels(kind).inc()

    def failed(self, kind: str) -> None:
        self._failed.labels(kind).inc()

    def dropped(self, kind: str) -> None:
        self._dropped.labels(kind).inc()

    def retried(self, kind: str) -> None:
        self._retried.labels(kind).inc()

    def deferred(self) -> None:
        self._deferred.inc()

    def attempted(self, seconds: float, *, accepted: bool) -> None:
        self._seconds.labels(RESULTS[not accepted]).observe(seconds)
