"""QoS class of a pod."""

from functools import lru_cache
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest


def qos_class(spec: Manifest) -> str:
    """Guaranteed when all containers limit cpu and memory to their requests; BestEffort when none has either."""
    if spec.get("resources"):
        return _qos([spec["resources"]])
    containers = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    return _qos([container.get("resources") or {} for container in containers])


def _qos(resources: list[Manifest]) -> str:
    amounts = []
    for each in resources:
        requests, limits = each.get("requests") or {}, each.get("limits") or {}
        amounts += [(requests.get(name), limits.get(name)) for name in ("cpu", "memory")]
    return _qos_of(tuple(amounts))


@lru_cache(maxsize=1024)
def _qos_of(amounts: tuple[tuple[Any, Any], ...]) -> str:
    """The QoS class of (request, limit) pairs of cpu and memory of all containers."""
    guaranteed, asked = True, False
    for requested, most in amounts:
        request, limit = _positive(requested), _positive(most)
        asked = asked or request is not None or limit is not None
        if limit is None or (request is not None and request != limit):
            guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amount: Any) -> Any:
    if amount is None:
        return None
    try:
        value = quantity.parse(amount)
    except ValueError:
        return None
    return value if value > 0 else None
