"""Metric registries on the Prometheus client library; each program names its own metrics."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "CollectorRegistry", "CompositeRegistry", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: CollectorRegistry) -> bytes:
    """Returns every metric of a registry in Prometheus' text format."""
    return generate_latest(registry)


class CompositeRegistry(Collector):
    """Registries of several components of one program, exposed as one; a restarted component gets a new
    registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registries: dict[str, CollectorRegistry] = {}
        registry.register(self)

    def reset(self, part: str) -> CollectorRegistry:
        """Replaces the registry of a component by an empty one."""
        self._registries[part] = CollectorRegistry()
        return self._registries[part]

    def collect(self) -> Iterator[Metric]:
        for registry in self._registries.values():
            yield from registry.collect()
