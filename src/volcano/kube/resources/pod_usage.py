"""Requests, limits and QoS class of a whole pod: its containers, init containers and overhead together."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest

Amounts = dict[str, Decimal]


def requests_and_limits(spec: Manifest) -> tuple[Amounts, Amounts]:
    """The pod's requests and limits, resource by resource."""
    return _total(spec, "requests"), _total(spec, "limits")


def container_requests(spec: Mapping[str, Any]) -> dict[str, str]:
    """The requests of a pod's containers together, without those of the pod as a whole and its overhead."""
    containers = {part: spec.get(part) for part in ("containers", "initContainers")}
    families: dict[str, quantity.Family] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for name, value in ((container.get("resources") or {}).get("requests") or {}).items():
            families.setdefault(name, quantity.read(value).family)
    total = _total(containers, "requests")
    return {name: str(quantity.Quantity(amount, families[name])) for name, amount in total.items()}


def _total(spec: Manifest, part: str) -> Amounts:
    total = _sum(_parts(spec.get("containers"), part))
    running: Amounts = {}  # of sidecar containers
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = amounts((container.get("resources") or {}).get(part))
        if container.get("restartPolicy") == "Always":
            running = _sum([running, own])
            total = _sum([total, own])
            own = running
        else:
            own = _sum([running, own])
        largest = _most(largest, own)
    total = _most(total, largest)
    if (whole := spec.get("resources")) and whole.get(part):
        total |= amounts(whole[part])
    if overhead := spec.get("overhead"):
        extra = amounts(overhead)
        total = _sum([total, extra if part == "requests" else {k: v for k, v in extra.items() if k in total}])
    return total


def amounts(values: Mapping[str, Any] | None) -> Amounts:
    """A resource list as numbers."""
    return {name: quantity.parse(value) for name, value in (values or {}).items()}


def _parts(containers: Iterable[Manifest] | None, part: str) -> list[Amounts]:
    return [amounts((container.get("resources") or {}).get(part)) for container in containers or ()]


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, Decimal(0)) + value
    return total


def _most(left: Amounts, right: Amounts) -> Amounts:
    return {
        name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0)))
        for name in left.keys() | right.keys()
    }


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
