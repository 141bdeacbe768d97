"""Metrics of the store."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from volcano.apiserver.storage.store import Store
from volcano.base.metrics import CollectorRegistry


class StoreMetrics(Collector):
    """Objects, history and listener failures of a store; read when metrics are collected."""

    def __init__(self, store: Store, registry: CollectorRegistry) -> None:
        self._store = store
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily("apiserver_resource_objects", "Stored objects.", labels=("resource",))
        changes = GaugeMetricFamily(
            "volcano_store_history_changes", "Changes kept to resume watches.", labels=("resource",)
        )
        size = GaugeMetricFamily(
            "volcano_store_history_bytes", "Bytes of superseded objects kept by them.", labels=("resource",)
        )
        for collection in self._store.collections():
            objects.add_metric((collection.name,), len(collection.records))
            changes.add_metric((collection.name,), len(collection.history))
            size.add_metric((collection.name,), collection.history.size)
        yield from (objects, changes, size)
        failures = CounterMetricFamily(
            "volcano_store_listener_failures",
            "Failures of listeners of the store; writes are not affected.",
            labels=("listener",),
        )
        for name, count in self._store.listeners.failures.items():
            failures.add_metric((name,), count)
        yield failures
