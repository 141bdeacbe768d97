"""Effective requests and limits of a whole pod: its containers, init containers and overhead together."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from volcano.kube.api import quantity
from volcano.kube.api.quantity import Quantity
from volcano.kube.devices import vgpu
from volcano.kube.resources.extended import containers_of, is_extended

Amounts = dict[str, Decimal]
Number = TypeVar("Number", float, Decimal)
Resources = dict[str, Any]  # a resource list of a manifest

REQUESTS, LIMITS = "requests", "limits"
# Resources that say how a device is shared; nodes do not offer them, and no scheduler counts them.
NOT_COUNTED = re.compile(rf"{re.escape(vgpu.MEMORY_PERCENTAGE)}|huawei\.com/.*-(?:memory|core)")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def pod_amounts(
    spec: Mapping[str, Any], which: str, read: Callable[[Resources], Mapping[str, Number]]
) -> dict[str, Number]:
    """Requests or limits of a pod, as numbers that `read` makes of a resource list; requests default to limits."""
    return _effective(spec, which, lambda holder: read(resource_list(holder, which)), read)


def scheduled_requests(
    spec: Mapping[str, Any],
    statuses: Iterable[Mapping[str, Any]],
    read: Callable[[Resources], Mapping[str, float]],
    which: str = REQUESTS,
) -> dict[str, float]:
    """Requests as a scheduler counts them: at least what running containers were given, and all shared cards."""
    running = {status.get("name"): status for status in statuses} if which == REQUESTS else {}

    def of(holder: Mapping[str, Any]) -> Mapping[str, float]:
        given = resource_list(holder, which)
        if which == LIMITS or not (vgpu.NUMBER in given or vgpu.MEMORY in given):
            found = dict(read(given))
        else:  # memory and cores are those of one card
            one, found = read({vgpu.NUMBER: 1})[vgpu.NUMBER], dict(read({vgpu.NUMBER: 1, **given}))
            for name in found.keys() & {vgpu.MEMORY, vgpu.CORES}:
                found[name] *= found.get(vgpu.NUMBER, one) / one
        if status := running.get(holder.get("name")):
            _raise_to(found, read(status.get("allocatedResources") or {}))
            _raise_to(found, read((status.get("resources") or {}).get(REQUESTS) or {}))
        return found

    total = _effective(spec, which, of, read)
    return {
        name: amount
        for name, amount in total.items()
        if name != "pods" and not (which == REQUESTS and NOT_COUNTED.fullmatch(name))
    }


def _effective(
    spec: Mapping[str, Any],
    which: str,
    of: Callable[[Mapping[str, Any]], Mapping[str, Number]],
    read: Callable[[Resources], Mapping[str, Number]],
) -> dict[str, Number]:
    """Containers and sidecars, or one init container beside the sidecars started before it, whichever is more."""
    total: dict[str, Number] = {}  # sidecars, then the containers too
    peak: dict[str, Number] = {}
    for container in spec.get("initContainers") or ():
        own = dict(of(container))
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            own = total
        else:
            _add(own, total)
        _raise_to(peak, own)
    for container in spec.get("containers") or ():
        _add(total, of(container))
    _raise_to(total, peak)
    if spec.get("resources"):
        # Resources of the pod as a whole override the sum of its containers.
        total |= {name: amount for name, amount in of(spec).items() if _is_pod_level(name)}
    if overhead := spec.get("overhead"):
        _add(total, {k: v for k, v in read(overhead).items() if which == REQUESTS or k in total})
    return total


def resource_list(holder: Mapping[str, Any], which: str) -> Resources:
    """Resource list of a container, or of the pod as a whole."""
    resources = holder.get("resources") or {}
    limits: Resources = resources.get(LIMITS) or {}
    return limits if which == LIMITS else {**limits, **(resources.get(REQUESTS) or {})}


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _add(total: dict[str, Number], more: Mapping[str, Number]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, Number], least: Mapping[str, Number]) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def amounts(values: Resources | None) -> Amounts:
    """A resource list as numbers."""
    return {name: quantity.parse(value) for name, value in (values or {}).items()}


def requests_and_limits(spec: Mapping[str, Any]) -> tuple[Amounts, Amounts]:
    """The pod's requests and limits, resource by resource."""
    return pod_amounts(spec, REQUESTS, amounts), pod_amounts(spec, LIMITS, amounts)


def requests_of(spec: Mapping[str, Any]) -> dict[str, float]:
    """The amounts that a pod occupies on its node: cores, bytes, and numbers of devices."""
    return {name: float(amount) for name, amount in pod_amounts(spec, REQUESTS, amounts).items()}


def container_requests(spec: Mapping[str, Any]) -> dict[str, str]:
    """The requests of a pod's containers together, without those of the pod as a whole and its overhead."""
    parts = {part: spec.get(part) for part in ("containers", "initContainers")}
    total = _effective(
        parts, REQUESTS, lambda holder: amounts((holder.get("resources") or {}).get(REQUESTS)), amounts
    )
    return {name: str(amount) for name, amount in _with_suffixes(spec, total).items()}


def usage(spec: Mapping[str, Any]) -> dict[str, Quantity]:
    """The usage of one pod as ResourceQuotas count it."""
    one = quantity.read("1")
    used = {"count/pods": one, "pods": one}
    requests, limits = requests_and_limits(spec)
    for name, amount in _with_suffixes(spec, requests).items():
        if name in _COMPUTE or name.startswith("hugepages-") or is_extended(name):
            used[name] = used[f"requests.{name}"] = amount
    for name, amount in _with_suffixes(spec, limits).items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def _with_suffixes(spec: Mapping[str, Any], total: Amounts) -> dict[str, Quantity]:
    """Amounts with the kind of suffix that the pod uses for each."""
    written: dict[str, Any] = dict(spec.get("overhead") or {})
    for holder in (spec, *reversed(containers_of(spec))):
        written |= resource_list(holder, LIMITS) | resource_list(holder, REQUESTS)
    return {name: Quantity(amount, quantity.read(written[name]).family) for name, amount in total.items()}
