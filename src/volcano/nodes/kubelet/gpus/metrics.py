"""Metrics of the GPUs of local nodes: load, memory, temperature, power and health."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from volcano.nodes.kubelet.gpus.inventory import MIB
from volcano.nodes.kubelet.gpus.monitor import GpuMonitor

LABELS = ("node", "gpu", "name")


class GpuMetrics(Collector):
    """The latest readings of a monitor, collected when metrics are read. `nodes` returns the node of each card."""

    def __init__(
        self,
        monitor: Callable[[], GpuMonitor | None],
        nodes: Callable[[], Mapping[str, str]],
        registry: CollectorRegistry,
    ) -> None:
        self._monitor = monitor
        self._nodes = nodes
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        monitor = self._monitor()
        if monitor is None or not monitor.load:
            return
        gauges = {
            name: GaugeMetricFamily(f"volcano_gpu_{name}", text, labels=LABELS)
            for name, text in (
                ("utilization_ratio", "Part of the time in which a kernel ran on the GPU."),
                ("memory_used_bytes", "Used memory of the GPU."),
                ("memory_bytes", "Memory of the GPU."),
                ("temperature_celsius", "Temperature of the GPU."),
                ("power_watts", "Power drawn by the GPU."),
                ("healthy", "1 for a GPU that can be allocated, 0 for one that failed."),
            )
        }
        nodes, names = self._nodes(), {card.uuid: card.name for card in monitor.cards}
        for load in monitor.load:
            labels = (nodes.get(load.uuid, ""), load.uuid, names.get(load.uuid, ""))
            values = {
                "utilization_ratio": None if load.utilization is None else load.utilization / 100,
                "memory_used_bytes": load.memory_used * MIB,
                "memory_bytes": load.memory_total * MIB,
                "temperature_celsius": load.temperature,
                "power_watts": load.power,
                "healthy": float(load.uuid not in monitor.problems),
            }
            for name, value in values.items():
                if value is not None:
                    gauges[name].add_metric(labels, value)
        yield from gauges.values()
