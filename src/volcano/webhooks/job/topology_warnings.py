"""Warnings about networkTopology: accepted, but probably not what was meant."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from volcano.kube.api.kinds import HYPER_NODE, JOB
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import AdmissionRequest

WITHOUT_LIMIT = (
    "{}: mode hard without highestTierAllowed or highestTierName is treated as soft: the pods are placed in the lowest "
    "tier that fits"
)
UNKNOWN_NAME = '{}.highestTierName: no HyperNode has the tierName "{}"; {}. The pods wait until one has it'


def topology_warnings(request: AdmissionRequest) -> Iterator[str]:
    """Hard limits without a tier, and names of tiers that no HyperNode has."""
    assert request.new is not None
    for path, topology in _topologies(request):
        if topology.get("mode", "hard") != "hard" or topology.get("highestTierAllowed") is not None:
            continue
        name = topology.get("highestTierName")
        if not name:
            yield WITHOUT_LIMIT.format(path)
        elif name not in (known := _tier_names(request.lookup.all(HYPER_NODE))):
            hint = f"known names: {', '.join(known)}" if known else "none has any"
            yield UNKNOWN_NAME.format(path, name, hint)


def _topologies(request: AdmissionRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The networkTopology of a Job or PodGroup and those of its parts, with their paths."""
    spec = (request.new or {}).get("spec") or {}
    found: list[tuple[str, Any]] = [("spec.networkTopology", spec.get("networkTopology"))]
    if request.kind == JOB:
        parts = [(task or {}).get("partitionPolicy") for task in spec.get("tasks") or ()]
        where = "spec.tasks[{}].partitionPolicy.networkTopology"
    else:
        parts = list(spec.get("subGroupPolicy") or ())
        where = "spec.subGroupPolicy[{}].networkTopology"
    found += [(where.format(index), (part or {}).get("networkTopology")) for index, part in enumerate(parts)]
    return ((path, topology) for path, topology in found if topology is not None)


def _tier_names(hyper_nodes: Iterable[Manifest]) -> list[str]:
    names = {(found.get("spec") or {}).get("tierName") for found in hyper_nodes}
    return sorted(name for name in names if name)
