"""Load values of the API server: NodeMetrics of metrics-server, and the custom metrics of Prometheus' adaptor."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from volcano.base.clock import parse_timestamp
from volcano.kube.api import quantity
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import NODE_METRICS, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client
from volcano.model.node import Node
from volcano.scheduler.engine.load_settings import LoadSettings
from volcano.scheduler.load.values import LoadSourceError, NodeLoad

PERIOD = 600.0  # seconds that values are averaged over
ReadNodeMetrics = Callable[[], Awaitable[Sequence[Manifest]]]


def listed_by(client: Client) -> ReadNodeMetrics:
    """Lists NodeMetrics with a client."""

    async def read() -> Sequence[Manifest]:
        items: Sequence[Manifest] = (await client.list(NODE_METRICS)).items
        return items

    return read


class MetricsServer:
    """NodeMetrics, averaged here over the collected period."""

    def __init__(self, read: ReadNodeMetrics) -> None:
        self._read = read
        self._history: dict[str, deque[NodeLoad]] = {}

    async def fetch(
        self, settings: LoadSettings, nodes: Mapping[str, Node], now: float
    ) -> Mapping[str, NodeLoad]:
        try:
            found = await self._read()
        except ApiError as error:
            raise LoadSourceError(error.message) from error
        for metrics in found:
            node = nodes.get(metrics["metadata"]["name"])
            if node is not None:
                self._add(node, metrics)
        for name in list(self._history):
            self._drop_old(name, now, exists=name in nodes)
        return {name: _average(history) for name, history in self._history.items()}

    def _add(self, node: Node, metrics: Manifest) -> None:
        usage, measured = metrics["usage"], parse_timestamp(metrics["timestamp"])
        cpu, memory = node.capacity.get("cpu", 0.0), node.capacity.get("memory", 0.0)
        history = self._history.setdefault(node.name, deque())
        if not cpu or not memory or (history and history[-1].measured >= measured):
            return
        load = NodeLoad(
            quantity.milli(usage["cpu"]) / cpu * 100, quantity.units(usage["memory"]) / memory * 100, measured
        )
        history.append(load)

    def _drop_old(self, name: str, now: float, *, exists: bool) -> None:
        history = self._history[name]
        while history and (not exists or history[0].measured < now - PERIOD):
            history.popleft()
        if not history:
            del self._history[name]


def _average(history: deque[NodeLoad]) -> NodeLoad:
    count = len(history)
    return NodeLoad(
        sum(load.cpu for load in history) / count,
        sum(load.memory for load in history) / count,
        history[-1].measured,
    )


class PrometheusAdaptor:
    """Custom metrics of nodes, as fractions."""

    METRICS = ("node_cpu_usage_avg", "node_memory_usage_avg")
    KIND = Kind("custom.metrics.k8s.io", "v1beta1", "MetricValueList", "nodes", False)

    def __init__(self, client: Client) -> None:
        self._client = client

    async def fetch(
        self, settings: LoadSettings, nodes: Mapping[str, Node], now: float
    ) -> Mapping[str, NodeLoad]:
        try:
            answers = [
                await self._client.get(self.KIND, Key("", "*"), subresource=each) for each in self.METRICS
            ]
            cpu, memory = (dict(map(_value, answer["items"])) for answer in answers)
        except ApiError as error:
            raise LoadSourceError(error.message) from error
        except (KeyError, TypeError, ValueError):
            raise LoadSourceError("it did not answer with a MetricValueList") from None
        return {
            node: NodeLoad(cpu[node][0] * 100, memory[node][0] * 100, min(cpu[node][1], memory[node][1]))
            for node in cpu.keys() & memory.keys()
            if node in nodes
        }


def _value(item: Any) -> tuple[str, tuple[float, float]]:
    value = quantity.milli(item["value"]) / 1000
    return item["describedObject"]["name"], (value, parse_timestamp(item["timestamp"]))
