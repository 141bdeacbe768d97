"""Validation of ResourceClaims, their status, and ResourceClaimTemplates."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.devices import common
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import annotations, labels
from volcano.apiserver.schema.validation.scheduling import node_selector
from volcano.kube.api.formats.names import dns_subdomain, interface_address, uid
from volcano.kube.api.manifest import Manifest

MOST_RESERVATIONS = 256
_MOST_ALTERNATIVES = 8
_MOST_CONSTRAINTS = 32
_MOST_RESULTS = 32
_MOST_STATUS_CONDITIONS = 8
_LONGEST_INTERFACE, _LONGEST_ADDRESS, _MOST_ADDRESSES = 256, 128, 16
_MODES = ("All", "ExactCount")
_SOURCES = ("FromClaim", "FromClass")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_REFERENCE = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
# Names of requests, each with those of its alternatives.
RequestNames = Mapping[str, frozenset[str]]


def claim(manifest: Manifest) -> Causes:
    """Validates the spec of a new ResourceClaim; that of an existing one cannot change."""
    yield from _devices((manifest.get("spec") or {}).get("devices") or {}, "spec.devices")


def claim_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    if subresource == "status":
        yield from _status(new, old)
    else:
        yield from field.immutable("spec", new.get("spec"), old.get("spec"))


def template(manifest: Manifest) -> Causes:
    """Validates a new ResourceClaimTemplate."""
    spec = manifest.get("spec") or {}
    metadata = spec.get("metadata") or {}
    yield from annotations(metadata.get("annotations") or {}, "spec.metadata.annotations")
    yield from labels(metadata.get("labels") or {}, "spec.metadata.labels")
    yield from _devices((spec.get("spec") or {}).get("devices") or {}, "spec.spec.devices")


def template_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from field.immutable("spec", new.get("spec"), old.get("spec"))


def _devices(devices: Mapping[str, Any], path: str) -> Causes:
    names = _request_names(devices)
    yield from common.unique_items(
        devices.get("requests"), f"{path}.requests", common.MOST_REQUESTS, _request, _name_of
    )

    def constraint(value: Mapping[str, Any], where: str) -> Causes:
        yield from _references(value, where, names)
        if (attribute := value.get("matchAttribute")) is not None:
            yield from common.full_attribute_name(attribute, f"{where}.matchAttribute")
        elif (attribute := value.get("distinctAttribute")) is not None:
            yield from common.full_attribute_name(attribute, f"{where}.distinctAttribute")
        else:
            both = '"matchAttribute" or "distinctAttribute"'
            yield field.required(where, f"exactly one of {both} is required, but multiple fields are set")

    def configuration(value: Mapping[str, Any], where: str) -> Causes:
        yield from _references(value, where, names)
        yield from common.configuration(value, where)

    yield from common.items(devices.get("constraints"), f"{path}.constraints", _MOST_CONSTRAINTS, constraint)
    yield from common.items(
        devices.get("config"), f"{path}.config", common.MOST_CONFIGURATIONS, configuration
    )


def _name_of(request: Mapping[str, Any]) -> str:
    return request.get("name") or ""


def _request_names(devices: Mapping[str, Any]) -> RequestNames:
    return {
        _name_of(request): frozenset(map(_name_of, request.get("firstAvailable") or ()))
        for request in devices.get("requests") or ()
    }


def _request(request: Mapping[str, Any], path: str) -> Causes:
    yield from common.label(_name_of(request), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is None and not alternatives:
        yield field.required(path, _ONE_OF)
    elif exactly is not None and alternatives:
        yield field.invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
    elif alternatives:
        yield from common.unique_items(
            alternatives, f"{path}.firstAvailable", _MOST_ALTERNATIVES, _alternative, _name_of
        )
    elif exactly is not None:
        yield from _exact(exactly, f"{path}.exactly")


def _alternative(request: Mapping[str, Any], path: str) -> Causes:
    yield from common.label(_name_of(request), f"{path}.name")
    yield from _exact(request, path)


def _exact(request: Mapping[str, Any], path: str) -> Causes:
    if name := request.get("deviceClassName"):
        yield from field.each(f"{path}.deviceClassName", name, dns_subdomain(name))
    else:
        yield field.required(f"{path}.deviceClassName")
    yield from common.items(
        request.get("selectors"), f"{path}.selectors", common.MOST_SELECTORS, common.selector
    )
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode == "All" and count:
        yield field.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield field.invalid(f"{path}.count", count, "must be greater than zero")
    elif mode not in _MODES:
        yield field.unsupported(f"{path}.allocationMode", mode, _MODES)
    yield from common.items(request.get("tolerations"), f"{path}.tolerations", -1, common.toleration)


def _references(value: Mapping[str, Any], path: str, names: RequestNames) -> Causes:
    """Validates a list of names of requests."""
    yield from common.unique_items(
        value.get("requests"),
        f"{path}.requests",
        common.MOST_REQUESTS,
        lambda name, where: _reference(name, where, names),
        str,
    )


def _reference(name: str, path: str, names: RequestNames) -> Causes:
    parts = name.split("/")
    if len(parts) > 2:
        yield field.invalid(path, name, _REFERENCE)
        return
    for part in parts:
        yield from common.label(part, path)
    if parts[0] not in names or (len(parts) == 2 and parts[1] not in names[parts[0]]):
        yield field.invalid(path, name, _REFERENCE)


# -- status ----------------------------------------------------------------------------------------------------------


def _status(new: Manifest, old: Manifest) -> Causes:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, reserved = status.get("allocation"), status.get("reservedFor") or []
    names = _request_names((new.get("spec") or {}).get("devices") or {})
    yield from common.unique_items(
        reserved, "status.reservedFor", MOST_RESERVATIONS, _consumer, lambda user: user.get("uid") or ""
    )
    allocated = {_identity(result) for result in _results(allocation)}

    def device(value: Mapping[str, Any], path: str) -> Causes:
        yield from _device_status(value, path)
        if _identity(value) not in allocated:
            yield field.invalid(path, _shown(value), "must be an allocated device in the claim")

    yield from common.unique_items(status.get("devices"), "status.devices", -1, device, _identity)
    if reserved and allocation is None:
        yield field.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif reserved and new["metadata"].get("deletionTimestamp"):
        known = before.get("reservedFor") or []
        if any(user not in known for user in reserved):
            detail = (
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            )
            yield field.forbidden("status.reservedFor", detail)
    if allocation is not None:
        if before.get("allocation") is not None:
            yield from field.immutable("status.allocation", allocation, before["allocation"])
        else:
            yield from _allocation(allocation, "status.allocation", names)


def _results(allocation: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    return ((allocation or {}).get("devices") or {}).get("results") or []


def _identity(device: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _shown(device: Mapping[str, Any]) -> str:
    return "/".join(filter(None, _identity(device)))


def _consumer(reference: Mapping[str, Any], path: str) -> Causes:
    for name in ("resource", "name", "uid"):
        if not reference.get(name):
            yield field.required(f"{path}.{name}")


def _allocation(allocation: Mapping[str, Any], path: str, names: RequestNames) -> Causes:
    devices = allocation.get("devices") or {}

    def result(value: Mapping[str, Any], where: str) -> Causes:
        yield from _reference(value.get("request") or "", f"{where}.request", names)
        yield from _place(value, where)
        yield from common.binding_conditions(value, where)
        if (share := value.get("shareID")) is not None:
            yield from field.each(f"{where}.shareID", share, uid(share))

    def configuration(value: Mapping[str, Any], where: str) -> Causes:
        yield from field.one_of(f"{where}.source", value.get("source"), _SOURCES, needed=True)
        yield from _references(value, where, names)
        yield from common.configuration(value, where)

    yield from common.items(devices.get("results"), f"{path}.devices.results", _MOST_RESULTS, result)
    most = 2 * common.MOST_CONFIGURATIONS  # of the class and of the claim
    yield from common.items(devices.get("config"), f"{path}.devices.config", most, configuration)
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from node_selector(selector, f"{path}.nodeSelector")


def _place(value: Mapping[str, Any], path: str) -> Causes:
    yield from common.driver_name(value.get("driver") or "", f"{path}.driver")
    yield from common.pool_name(value.get("pool") or "", f"{path}.pool")
    yield from common.label(value.get("device") or "", f"{path}.device")


def _device_status(value: Mapping[str, Any], path: str) -> Causes:
    yield from _place(value, path)
    if (share := value.get("shareID")) is not None:
        yield from field.each(f"{path}.shareID", share, uid(share))
    conditions = value.get("conditions") or []
    if len(conditions) > _MOST_STATUS_CONDITIONS:
        yield field.too_many(f"{path}.conditions", len(conditions), _MOST_STATUS_CONDITIONS)
    if value.get("data") is not None:
        yield from common.raw_object(value["data"], f"{path}.data", common.LONGEST_PARAMETERS)
    if (network := value.get("networkData")) is not None:
        yield from _network(network, f"{path}.networkData")


def _network(data: Mapping[str, Any], path: str) -> Causes:
    for name, longest in (("interfaceName", _LONGEST_INTERFACE), ("hardwareAddress", _LONGEST_ADDRESS)):
        if len((data.get(name) or "").encode()) > longest:
            yield field.too_long(f"{path}.{name}", longest)

    def address(value: str, where: str) -> Causes:
        yield from field.each(where, value, interface_address(value))

    yield from common.unique_items(data.get("ips"), f"{path}.ips", _MOST_ADDRESSES, address, str)
