"""Metric registries on the Prometheus client library; each program names its own metrics."""

from prometheus_client import CollectorRegistry, generate_latest

__all__ = ["CONTENT_TYPE", "CollectorRegistry", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: CollectorRegistry) -> bytes:
    """Every metric of a registry in Prometheus' text format."""
    return generate_latest(registry)
