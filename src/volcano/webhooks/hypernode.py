"""Validation of HyperNodes, and warnings about them and about networkTopology: accepted, but probably a mistake."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from volcano.kube.api import selectors
from volcano.kube.api.formats.re2_patterns import Pattern, PatternError
from volcano.kube.api.kinds import HYPER_NODE, JOB
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import AdmissionRequest, Violation

WITHOUT_LIMIT = (
    "{}: mode hard without highestTierAllowed or highestTierName is treated as soft: the pods are placed in the lowest "
    "tier that fits"
)
UNKNOWN_NAME = '{}.highestTierName: no HyperNode has the tierName "{}"; {}. The pods wait until one has it'


def check_hyper_node(request: AdmissionRequest) -> Iterable[Violation]:
    """There is at least one member, patterns are regular expressions, and a tier name has one tier."""
    assert request.new is not None
    members = (request.new.get("spec") or {}).get("members") or ()
    if not members:
        yield Violation("spec.members", "member must have at least one member")
    for index, member in enumerate(members):
        selector = (member or {}).get("selector") or {}
        try:
            selectors.from_object(selector.get("labelMatch"))
        except ValueError as error:
            yield Violation(f"spec.members[{index}].selector.labelMatch", str(error))
        pattern = (selector.get("regexMatch") or {}).get("pattern")
        if pattern is None:
            continue
        try:
            Pattern(str(pattern))
        except PatternError as error:
            text = f"member regexMatch pattern is invalid: {pattern!r}: {error}"
            yield Violation(f"spec.members[{index}].selector.regexMatch.pattern", text)
    yield from _check_tier_name(request)


def _check_tier_name(request: AdmissionRequest) -> Iterator[Violation]:
    """A tier name means the same tier everywhere. A conflict that exists already does not prevent other changes."""
    assert request.new is not None
    name, tier = _tier(request.new)
    if not name or (request.old is not None and _tier(request.old) == (name, tier)):
        return
    for other in request.lookup.all(HYPER_NODE):
        known, at = _tier(other)
        if known == name and at != tier and other["metadata"]["name"] != request.key.name:
            text = (
                f"{name!r} is the name of tier {at} in HyperNode {other['metadata']['name']} and cannot name tier "
                f"{tier} too; use another name or that tier"
            )
            yield Violation("spec.tierName", text)
            return


def _tier(hyper_node: Manifest) -> tuple[str, int]:
    spec = hyper_node.get("spec") or {}
    return str(spec.get("tierName") or ""), int(spec.get("tier") or 0)


def warn_hyper_node(request: AdmissionRequest) -> Iterator[str]:
    """Members that select nothing."""
    assert request.new is not None
    for index, member in enumerate((request.new.get("spec") or {}).get("members") or ()):
        selector = (member or {}).get("selector") or {}
        if (member or {}).get("type") == "HyperNode" and not selector.get("exactMatch"):
            yield (
                f"spec.members[{index}]: selects nothing: members of type HyperNode are selected by exactMatch "
                "only; list each by its name"
            )


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
    topologies: list[tuple[str, Any]] = [("spec.networkTopology", spec.get("networkTopology"))]
    if request.kind == JOB:
        parts = [(task or {}).get("partitionPolicy") for task in spec.get("tasks") or ()]
        where = "spec.tasks[{}].partitionPolicy.networkTopology"
    else:
        parts = list(spec.get("subGroupPolicy") or ())
        where = "spec.subGroupPolicy[{}].networkTopology"
    topologies += [
        (where.format(index), (part or {}).get("networkTopology")) for index, part in enumerate(parts)
    ]
    return ((path, topology) for path, topology in topologies if topology is not None)


def _tier_names(hyper_nodes: Iterable[Manifest]) -> list[str]:
    names = {(hyper_node.get("spec") or {}).get("tierName") for hyper_node in hyper_nodes}
    return sorted(name for name in names if name)
