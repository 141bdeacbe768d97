"""Defaults and preparation of the kinds of resource.k8s.io."""

from collections.abc import Iterator
from typing import Any

from volcano.apiserver.registry.pod_defaulting import canonical
from volcano.base.clock import Instant
from volcano.kube.api.manifest import Manifest

# Fields of features that are off by default in kube-apiserver; it ignores them.
_LIST_VALUES = ("bools", "ints", "strings", "versions")
_MAPPINGS = "nodeAllocatableResourceMappings"


def default_claim(claim: Manifest) -> None:
    _default_spec(claim.get("spec") or {})
    status = claim.get("status") or {}
    for name in ("devices", "reservedFor"):  # as Go, which omits empty lists
        if status.get(name) == []:
            del status[name]
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results")
    for result in results or ():
        _canonical_values(result.get("consumedCapacity"))


def default_claim_template(template: Manifest) -> None:
    spec = template.setdefault("spec", {})
    spec.setdefault("metadata", {})
    _default_spec(spec.setdefault("spec", {}))


def _default_spec(spec: Manifest) -> None:
    for request in spec.setdefault("devices", {}).get("requests") or ():
        exactly = request.get("exactly")
        for each in ([exactly] if exactly is not None else []) + list(request.get("firstAvailable") or ()):
            if not each.get("allocationMode"):
                each["allocationMode"] = "ExactCount"
            if each["allocationMode"] == "ExactCount" and not each.get("count"):
                each["count"] = 1
            for toleration in each.get("tolerations") or ():
                toleration["operator"] = toleration.get("operator") or "Equal"
            _canonical_values((each.get("capacity") or {}).get("requests"))


def default_slice(resource_slice: Manifest) -> None:
    spec = resource_slice.get("spec") or {}
    for device in spec.get("devices") or ():
        for capacity in (device.get("capacity") or {}).values():
            _canonical_capacity(capacity)
        for consumption in device.get("consumesCounters") or ():
            _canonical_counters(consumption)
    for counter_set in spec.get("sharedCounters") or ():
        _canonical_counters(counter_set)


def _canonical_capacity(capacity: Manifest) -> None:
    _canonical_fields(capacity, "value")
    policy = capacity.get("requestPolicy") or {}
    _canonical_fields(policy, "default")
    _canonical_fields(policy.get("validRange") or {}, "min", "max", "step")
    if policy.get("validValues"):
        policy["validValues"] = [canonical(value) for value in policy["validValues"]]


def _canonical_counters(holder: Manifest) -> None:
    for counter in (holder.get("counters") or {}).values():
        _canonical_fields(counter, "value")


def _canonical_fields(holder: Manifest, *names: str) -> None:
    for name in names:
        if holder.get(name) is not None:
            holder[name] = canonical(holder[name])


def _canonical_values(amounts: dict[str, Any] | None) -> None:
    for name in amounts or ():
        assert amounts is not None
        amounts[name] = canonical(amounts[name])


def prepare_slice(resource_slice: Manifest, now: Instant) -> None:
    """Ignores fields of features that are off, and records when a taint was added."""
    for device in (resource_slice.get("spec") or {}).get("devices") or ():
        device.pop(_MAPPINGS, None)
        for attribute in (device.get("attributes") or {}).values():
            for name in _LIST_VALUES:
                attribute.pop(name, None)
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now.timestamp())


def drop_deallocated_devices(new: Manifest, old: Manifest) -> None:
    """Removes the driver's status of devices that are not allocated any more."""
    status = new.get("status") or {}
    gone = set(_identities(old)) - set(_identities(new))
    if gone and status.get("devices"):
        kept = [device for device in status["devices"] if _identity(device) not in gone]
        status.pop("devices")
        if kept:
            status["devices"] = kept


def _identities(claim: Manifest) -> Iterator[tuple[str, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield _identity(result)


def _identity(device: Manifest) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))
