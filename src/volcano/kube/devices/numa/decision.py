"""The annotation with the NUMA nodes chosen for a pod: `{"numa": {"0": {"cpu": "4"}}}`."""

import json
from collections.abc import Mapping
from functools import lru_cache

from volcano.kube.api import quantity
from volcano.kube.devices.numa.layout import CpuLayout, take


@lru_cache(maxsize=8192)
def decision_text(layout: CpuLayout, cpus: int) -> str:
    """The decision for a pod that gets these CPUs: how many of each NUMA node."""
    counts = layout.counts(cpus)
    numa = {str(number): {"cpu": str(count)} for number, count in counts.items()}
    return json.dumps({"numa": numa}, separators=(",", ":"))


@lru_cache(maxsize=8192)
def parse_decision(text: str) -> Mapping[int, int]:
    """Number of CPUs of each NUMA node; empty for a text that is no decision."""
    try:
        numa = json.loads(text)["numa"]
        found = {int(number): int(quantity.units(amounts.get("cpu", 0))) for number, amounts in numa.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {number: count for number, count in found.items() if number >= 0 and count > 0}


def take_decided(layout: CpuLayout, free: int, counts: Mapping[int, int]) -> int:
    """Chooses free CPUs for a decision; fewer than decided where a NUMA node has too few."""
    chosen = 0
    for number, count in counts.items():
        near = free & layout.numa_nodes.get(number, 0)
        chosen |= take(layout, near, min(count, near.bit_count()))
    return chosen
