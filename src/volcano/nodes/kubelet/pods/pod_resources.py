"""Resources of pods: totals of a pod, limits of a container, and admission by free capacity."""

from collections.abc import Iterable, Mapping
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_requests import pod_amounts
from volcano.nodes.kubelet.gpus.sharing import assignment_problem
from volcano.nodes.kubelet.node import LocalNode
from volcano.nodes.kubelet.pods.lifecycle import PodFailure

Amounts = dict[str, float]


def amounts(values: Mapping[str, Any] | None) -> Amounts:
    """A resource list as numbers: cpu in millicores, everything else in whole units."""
    return {
        name: quantity.milli(value) if name == "cpu" else quantity.units(value)
        for name, value in (values or {}).items()
    }


def totals(spec: Manifest, which: str) -> Amounts:
    """The `requests` or `limits` of a pod: the sum of its containers, or the maximum during initialization."""
    return pod_amounts(spec, which, amounts)


def pod_limit(spec: Manifest, resource: str) -> float:
    """The limit of a pod; 0 if one of its containers has none."""
    own = ((spec.get("resources") or {}).get("limits") or {}).get(resource)
    every_container = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if own is None and not all(
        ((container.get("resources") or {}).get("limits") or {}).get(resource)
        for container in every_container
    ):
        return 0.0
    return totals(spec, "limits").get(resource, 0.0)


def check_fit(pod: Manifest, others: Iterable[Amounts], allocatable: Mapping[str, str]) -> PodFailure | None:
    """The reason why a pod does not fit beside `others`, in the kubelet's words; None if it fits."""
    wanted = totals(pod["spec"], "requests") | {"pods": 1.0}
    capacity = amounts(allocatable)
    used: Amounts = {}
    for other in others:
        used = _sum(used, other | {"pods": 1.0})
    # A kubelet ignores extended resources that are unknown to the node.
    known = [name for name in wanted if name != "pods" and (name in capacity or "/" not in name)]
    for resource in ("pods", *known):
        taken, most = used.get(resource, 0.0), capacity.get(resource, 0.0)
        if wanted[resource] and wanted[resource] + taken > most:
            return PodFailure(
                f"OutOf{resource}",
                f"Node didn't have enough resource: {resource}, requested: {int(wanted[resource])}, "
                f"used: {int(taken)}, capacity: {int(most)}",
            )
    return None


def assignment_failure(pod: Manifest, node: LocalNode) -> PodFailure | None:
    """The reason why a node cannot hand out the shares of cards that a pod asks for; None if it can."""
    problem = assignment_problem(pod, node.name, {card.uuid for card in node.cards} if node.split else ())
    if not problem:
        return None
    return PodFailure("UnexpectedAdmissionError", f"Allocate failed: {problem}")


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, 0.0) + right.get(name, 0.0) for name in left.keys() | right.keys()}
