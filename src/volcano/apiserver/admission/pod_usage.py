"""Requests and limits of a whole pod: the sum of its containers, the maximum of its init containers, plus
overhead."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from volcano.kube import quantity
from volcano.kube.manifest import Manifest

Amounts = dict[str, Decimal]


def requests_and_limits(spec: Manifest) -> tuple[Amounts, Amounts]:
    """The pod's requests and limits, resource by resource."""
    return _total(spec, "requests"), _total(spec, "limits")


def _total(spec: Manifest, part: str) -> Amounts:
    total = _sum(_parts(spec.get("containers"), part))
    running: Amounts = {}  # of sidecars
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
