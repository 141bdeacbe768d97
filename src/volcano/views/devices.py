"""Load of the GPUs of local nodes, from the metrics of the API server."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from volcano.kube.api.fields import at
from volcano.kube.api.manifest import Manifest

RUNTIME_PREFIX = "volcano-"  # of the nodes whose GPUs the API server's process measures
SAMPLE = re.compile(r"^volcano_gpu_(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Load of one GPU; None where it is not known."""

    node: str
    uuid: str
    name: str
    utilization: float | None  # 0 to 1
    memory_used: float  # bytes
    memory: float
    temperature: float | None
    power: float | None
    healthy: bool


def is_measured(nodes: Iterable[Manifest]) -> bool:
    """Whether the API server may have figures: of local nodes with GPUs, not of other clusters."""
    return any(
        str(at(node, "status", "nodeInfo", "containerRuntimeVersion", default="")).startswith(RUNTIME_PREFIX)
        and any("gpu" in name for name in at(node, "status", "capacity", default={}) or {})
        for node in nodes
    )


def parse_gpu_load(text: str) -> tuple[GpuFigures, ...]:
    """Figures in metrics in Prometheus' text format."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for name, labels, value in SAMPLE.findall(text):
        named = {label: ESCAPED.sub(r"\1", text) for label, text in LABEL.findall(labels)}
        key = (named.get("node", ""), named.get("gpu", ""), named.get("name", ""))
        found.setdefault(key, {})[name] = float(value)
    return tuple(
        GpuFigures(
            *key,
            utilization=values.get("utilization_ratio"),
            memory_used=values.get("memory_used_bytes", 0.0),
            memory=values.get("memory_bytes", 0.0),
            temperature=values.get("temperature_celsius"),
            power=values.get("power_watts"),
            healthy=values.get("healthy", 1.0) > 0,
        )
        for key, values in sorted(found.items())
    )
