"""Metrics of accounting: usage of queues, and the state of the recorder."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from volcano.accounting.recorder.recorder import Recorder
from volcano.base.clock import Clock
from volcano.base.metrics import CollectorRegistry


class AccountingMetrics(Collector):
    """Computed when they are read."""

    def __init__(self, registry: CollectorRegistry, recorder: Recorder, clock: Clock) -> None:
        self.failures = 0  # of the database, in a row
        self._recorder = recorder
        self._clock = clock
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        used = CounterMetricFamily(
            "volcano_queue_resource_seconds",
            "Resource-seconds that the pods of a queue have occupied: requests times run time",
            labels=("queue", "resource"),
        )
        for (queue, resource), seconds in sorted(self._recorder.meter.totals(self._clock.now().wall).items()):
            used.add_metric((queue, resource), seconds)
        yield used
        yield GaugeMetricFamily(
            "volcano_accounting_pending_rows", "Rows that are not written yet", self._recorder.pending
        )
        yield CounterMetricFamily(
            "volcano_accounting_dropped_rows",
            "Rows that were dropped because the database was not available for too long",
            self._recorder.dropped,
        )
        yield GaugeMetricFamily(
            "volcano_accounting_database_failures",
            "Failed writes since the last successful one",
            self.failures,
        )
