"""Load values of Elasticsearch, as Metricbeat writes them: one search for all nodes."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from volcano.model.node import Node
from volcano.scheduler.engine.load_settings import COLLECTED_PERIOD, LoadSettings
from volcano.scheduler.load.http import send
from volcano.scheduler.load.values import LoadSourceError, NodeLoad

CPU_FIELD, MEMORY_FIELD = "host.cpu.usage", "system.memory.actual.used.pct"  # fractions


class Elasticsearch:
    """Searches with an aggregation by host."""

    async def fetch(
        self, settings: LoadSettings, nodes: Mapping[str, Node], now: float
    ) -> Mapping[str, NodeLoad]:
        if not nodes:
            return {}
        path = f"/{quote(settings.index, safe='*,-')}/_search"
        body = orjson.dumps(search(settings.hostname_field, list(nodes)))
        answer = await send(settings, "POST", path, kind="application/json", body=body)
        try:
            buckets = answer["aggregations"]["nodes"]["buckets"]
            found = {bucket["key"]: (bucket["cpu"]["value"], bucket["memory"]["value"]) for bucket in buckets}
        except (KeyError, TypeError):
            raise LoadSourceError("it did not answer the search with an aggregation by node") from None
        return {
            node: NodeLoad(cpu * 100, memory * 100, now)
            for node, (cpu, memory) in found.items()
            if node in nodes and isinstance(cpu, float | int) and isinstance(memory, float | int)
        }


def search(hostname_field: str, nodes: list[str]) -> dict[str, Any]:
    """The averages of the collected period, by node."""
    averages = {
        name: {"avg": {"field": field}} for name, field in (("cpu", CPU_FIELD), ("memory", MEMORY_FIELD))
    }
    return {
        "size": 0,
        "query": {
            "bool": {
                "filter": [
                    {"range": {"@timestamp": {"gte": f"now-{COLLECTED_PERIOD}", "lt": "now"}}},
                    {"terms": {hostname_field: nodes}},
                ]
            }
        },
        "aggs": {"nodes": {"terms": {"field": hostname_field, "size": len(nodes)}, "aggs": averages}},
    }
