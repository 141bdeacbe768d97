"""The usage of a pod as ResourceQuotas count it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from volcano.kube.extended import is_extended
from volcano.kube.quantity import Quantity, read

Amounts = dict[str, Quantity]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def usage(spec: Mapping[str, Any]) -> Amounts:
    """The quota usage of one pod; requests default to limits."""
    one = read("1")
    used: Amounts = {"count/pods": one, "pods": one}
    requests, limits = _effective(spec, "requests"), _effective(spec, "limits")
    for name, quantity in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-") or is_extended(name):
            used[name] = used[f"requests.{name}"] = quantity
    for name, quantity in limits.items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = quantity
    return used


def requests_of(spec: Mapping[str, Any]) -> dict[str, float]:
    """The amounts that a pod occupies on its node: cores, bytes, and numbers of devices."""
    return {name: float(quantity.amount) for name, quantity in _effective(spec, "requests").items()}


def _effective(spec: Mapping[str, Any], field: str) -> Amounts:
    """The effective amounts of a pod: its containers together, or one init container, whichever is more."""
    main: Amounts = {}
    for container in spec.get("containers") or ():
        _add_all(main, _amounts(container, field))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            _add_all(main, own)
            _add_all(sidecars, own)
            own = {}
        _add_all(own, sidecars)
        _raise_to(peak, own)
    _raise_to(main, peak)
    main |= _amounts(spec, field)  # pod-level resources override the sum of its containers
    for name, text in (spec.get("overhead") or {}).items():
        if field == "requests" or name in main:
            add(main, name, read(text))
    return main


def _amounts(holder: Mapping[str, Any], field: str) -> Amounts:
    resources = holder.get("resources") or {}
    raw = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    if field == "limits":
        raw = resources.get("limits") or {}
    return {name: read(amount) for name, amount in raw.items()}


def add(total: Amounts, name: str, quantity: Quantity) -> None:
    known = total.get(name)
    total[name] = quantity if known is None else Quantity(known.amount + quantity.amount, known.family)


def _add_all(total: Amounts, more: Amounts) -> None:
    for name, quantity in more.items():
        add(total, name, quantity)


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, quantity in least.items():
        if quantity.amount > total.get(name, Quantity(Decimal(-1), quantity.family)).amount:
            total[name] = quantity
