"""Nodes: whether they take pods, what they have together, and what their pods request."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from volcano.kube.api.fields import at, is_true, items, wall_time
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.model.node import CONTROL_PLANE_TAINTS, UNUSABLE_TAINTS
from volcano.views.amounts import HUGE_PAGES, UNINTERESTING, Amounts, amounts, largest_part
from volcano.views.devices import GpuFigures
from volcano.views.pods import held_by


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, with the number and the requests of its pods."""

    key: Key
    status: str
    pods: int
    created: float
    used: Amounts
    allocatable: Amounts
    gpus: Sequence[GpuFigures] = ()

    def dominant(self) -> float:
        """Largest used share of a resource."""
        return largest_part(self.used, self.allocatable)


def node_row(node: Manifest, pods: Sequence[Manifest], gpus: Sequence[GpuFigures]) -> NodeRow:
    closed = bool(at(node, "spec", "unschedulable"))
    status = "Ready" if is_true(node, "Ready") else "NotReady"
    return NodeRow(
        key=key_of(node),
        status=f"{status},SchedulingDisabled" if closed else status,
        pods=len(pods),
        created=wall_time(at(node, "metadata", "creationTimestamp")) or 0.0,
        used=held_by(pods),
        allocatable=amounts(at(node, "status", "allocatable")),
        gpus=[each for each in gpus if each.node == key_of(node).name],
    )


def cluster_total(nodes: Iterable[Manifest]) -> dict[str, float]:
    """Allocatable resources of all ready nodes that accept ordinary pods."""
    total: dict[str, float] = defaultdict(float)
    for node in nodes:
        if serves(node):
            for name, amount in amounts(at(node, "status", "allocatable")).items():
                total[name] += amount
    return {
        name: amount
        for name, amount in total.items()
        if name not in UNINTERESTING and (amount > 0 or not name.startswith(HUGE_PAGES))
    }


def serves(node: Manifest) -> bool:
    """Whether a node is ready and not part of the control plane."""
    reserved = any(taint.get("key") in CONTROL_PLANE_TAINTS for taint in items(node, "spec", "taints"))
    return is_true(node, "Ready") and not reserved


def is_usable(node: Manifest) -> bool:
    """Whether the scheduler expects jobs to run on a node."""
    taints = (str(taint.get("key")) for taint in items(node, "spec", "taints"))
    closed = at(node, "spec", "unschedulable") or any(key.startswith(UNUSABLE_TAINTS) for key in taints)
    return serves(node) and not closed


def numbered(name: str) -> tuple[str, int, str]:
    """Order in which rack-2 precedes rack-10."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return (stem, int(digits) if digits else -1, name)
