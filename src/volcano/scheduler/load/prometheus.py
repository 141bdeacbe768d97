"""Load values of Prometheus, from the metrics of node_exporter: one query for all nodes and resource."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from volcano.model.node import Node
from volcano.scheduler.engine.load_settings import LoadSettings
from volcano.scheduler.load.http import send
from volcano.scheduler.load.values import LoadSourceError, NodeLoad

# Labels that may have the name of the node, or its name and a port, in this order.
NODE_LABELS = ("instance", "node", "kubernetes_node")
STEP = "30s"  # resolution of the averages
# The idle part of all time: right from the second sample on, where rates over five minutes are still too low.
CPU = (
    '100 * avg_over_time(clamp_min(1 - sum by ({labels}) (rate(node_cpu_seconds_total{{mode="idle"}}[5m]))'
    " / sum by ({labels}) (rate(node_cpu_seconds_total[5m])), 0)[10m:{step}])"
)
MEMORY = (
    "100 * avg_over_time((1 - max by ({labels}) (node_memory_MemAvailable_bytes)"
    " / max by ({labels}) (node_memory_MemTotal_bytes))[10m:{step}])"
)
FORM = "application/x-www-form-urlencoded"


class Prometheus:
    """Queries Prometheus' HTTP API."""

    def __init__(self, step: str = STEP) -> None:
        self._step = step

    async def fetch(
        self, settings: LoadSettings, nodes: Mapping[str, Node], now: float
    ) -> Mapping[str, NodeLoad]:
        labels = (settings.node_label,) if settings.node_label else NODE_LABELS
        cpu, memory = [
            dict(_by_node(await self._query(settings, query, labels), labels, nodes))
            for query in (CPU, MEMORY)
        ]
        return {
            node: NodeLoad(cpu[node][0], memory[node][0], min(cpu[node][1], memory[node][1]))
            for node in cpu.keys() & memory.keys()
        }

    async def _query(self, settings: LoadSettings, query: str, labels: Collection[str]) -> list[Any]:
        text = query.format(labels=", ".join(labels), step=self._step)
        answer = await send(
            settings, "POST", "/api/v1/query", kind=FORM, body=urlencode({"query": text}).encode()
        )
        match answer:
            case {"status": "success", "data": {"resultType": "vector", "result": list() as rows}}:
                return rows
        raise LoadSourceError("it did not answer the query with a vector")


def _by_node(
    rows: list[Any], labels: Collection[str], nodes: Collection[str]
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Value and time by node; rows that belong to no node, or have no number, are left out."""
    for row in rows:
        try:
            measured, text = row["value"]
            value = float(text)
            names = [str(row["metric"].get(label) or "") for label in labels]
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        node = _node_of(names, nodes)
        if node and math.isfinite(value):
            yield node, (value, float(measured))


def _node_of(names: list[str], nodes: Collection[str]) -> str:
    found = next((name for name in names if name in nodes), "")
    return found or next((host for name in names if (host := name.rpartition(":")[0]) in nodes), "")
