"""Metric registries on the Prometheus client library; each program names its own metrics."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "CollectorRegistry", "Parts", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: CollectorRegistry) -> bytes:
    """Every metric of a registry in Prometheus' text format."""
    return generate_latest(registry)


class Parts(Collector):
    """The registries of several parts of one program, shown as one; a part that starts afresh brings a new one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registries: dict[str, CollectorRegistry] = {}
        registry.register(self)

    def fresh(self, part: str) -> CollectorRegistry:
        """An empty registry for a part, in the place of the one it had."""
        self._registries[part] = CollectorRegistry()
        return self._registries[part]

    def collect(self) -> Iterator[Metric]:
        for registry in self._registries.values():
            yield from registry.collect()
