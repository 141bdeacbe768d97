"""CPUs that the containers of a pod get for their own: whole CPUs of Guaranteed pods."""

from collections.abc import Mapping
from typing import Any

from volcano.kube.api import quantity

Limits = Mapping[str, Any]


def is_guaranteed(spec: Mapping[str, Any]) -> bool:
    """Whether a pod has the QoS class Guaranteed: cpu and memory limits everywhere, and requests equal to them."""
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return _equal(whole)
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return bool(containers) and all(_equal(each.get("resources") or {}) for each in containers)


def _equal(resources: Mapping[str, Any]) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in ("cpu", "memory"):
        limit = quantity.parse(limits.get(name, 0))
        if limit <= 0 or quantity.parse(requests.get(name, limits.get(name, 0))) != limit:
            return False
    return True


def exclusive_cpus(spec: Mapping[str, Any]) -> dict[str, int]:
    """Whole CPUs of each container, 0 for a fraction; empty for a pod that gets none of its own.

    Init containers and pods with resources of the pod as a whole use the shared CPUs.
    """
    if not is_guaranteed(spec) or any(
        (spec.get("resources") or {}).get(each) for each in ("requests", "limits")
    ):
        return {}
    found = {each.get("name") or "": whole_cpus(each) for each in spec.get("containers") or ()}
    return found if any(found.values()) else {}


def whole_cpus(container: Mapping[str, Any]) -> int:
    """CPUs of a container that requests whole ones; otherwise 0."""
    resources = container.get("resources") or {}
    requested = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.get("cpu", 0)
    amount = quantity.parse(requested)
    return int(amount) if amount == int(amount) else 0
