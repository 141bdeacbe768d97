"""Parsers of ResourceClaims, DeviceClasses and ResourceSlices."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import orjson

from volcano.kube.api import kinds, quantity, selectors
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, controller_of, key_of, uid_of
from volcano.kube.devices.dra.claims import FINALIZER
from volcano.kube.devices.dra.selectors import SelectorError, device_value, qualified
from volcano.model.devices import (
    EXACT_COUNT,
    PREVENTING,
    AllocatedDevice,
    Allocation,
    Capacity,
    ClaimSpec,
    Constraint,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceFacts,
    DeviceId,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    NodeReach,
    PoolId,
    RequestPolicy,
    ResourceSlice,
)
from volcano.model.parse_auxiliary import AuxiliaryObject

# Distinct specs of claims, and distinct facts of devices, which may have a uuid each.
MOST_CACHED = 100_000


class DeviceParser:
    """Parses objects of resource.k8s.io. Equal specs of claims, and equal facts of devices, become one object."""

    def __init__(self) -> None:
        self._specs: dict[bytes, ClaimSpec] = {}
        self._facts: dict[bytes, DeviceFacts] = {}

    def decoder(self, kind: Kind) -> Callable[[bytes], AuxiliaryObject]:
        parse = _PARSERS[kind]

        def decode(data: bytes) -> AuxiliaryObject:
            manifest = orjson.loads(data)
            key = key_of(manifest)
            try:
                value = parse(self, manifest)
            except (ValueError, TypeError, AttributeError, KeyError):
                value = None  # ignored, as if it did not exist
            version = manifest["metadata"].get("resourceVersion", "")
            return AuxiliaryObject(key.namespace, key.name, value, version)

        return decode

    # -- claims ------------------------------------------------------------------------------------

    def claim(self, manifest: Manifest) -> DeviceClaim:
        key, status = key_of(manifest), manifest.get("status") or {}
        owner = controller_of(manifest)
        allocation = status.get("allocation")
        return DeviceClaim(
            key.namespace,
            key.name,
            uid_of(manifest),
            self.claim_spec(manifest.get("spec") or {}),
            None if allocation is None else parse_allocation(allocation),
            tuple(user["uid"] for user in status.get("reservedFor") or ()),
            deleting=bool(manifest["metadata"].get("deletionTimestamp")),
            protected=FINALIZER in (manifest["metadata"].get("finalizers") or ()),
            owner=owner["uid"] if owner is not None and owner.get("kind") == "Pod" else "",
        )

    def claim_spec(self, spec: Mapping[str, Any]) -> ClaimSpec:
        """The content of a claim or template."""
        content = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        known = self._specs.get(content)
        if known is None:
            _bound(self._specs)
            devices = spec.get("devices") or {}
            known = self._specs[content] = ClaimSpec(
                tuple(tuple(_alternatives(request)) for request in devices.get("requests") or ()),
                tuple(map(_constraint, devices.get("constraints") or ())),
                tuple(devices.get("config") or ()),
            )
        return known

    # -- slices ------------------------------------------------------------------------------------

    def resource_slice(self, manifest: Manifest) -> ResourceSlice:
        spec = manifest["spec"]
        pool = PoolId(spec["driver"], spec["pool"]["name"])
        shared = bool(spec.get("perDeviceNodeSelection"))
        reach = NodeReach() if shared else _reach(spec)
        return ResourceSlice(
            key_of(manifest).name,
            pool,
            int(spec["pool"].get("generation") or 0),
            int(spec["pool"].get("resourceSliceCount") or 1),
            tuple(
                self._device(device, pool, _reach(device) if shared else reach)
                for device in spec.get("devices") or ()
            ),
            {
                (counter_set["name"], name): quantity.parse(counter["value"])
                for counter_set in spec.get("sharedCounters") or ()
                for name, counter in (counter_set.get("counters") or {}).items()
            },
        )

    def _device(self, device: Mapping[str, Any], pool: PoolId, reach: NodeReach) -> Device:
        return Device(
            DeviceId(*pool, device["name"]),
            self._device_facts(device, pool.driver),
            reach,
            shared=bool(device.get("allowMultipleAllocations")),
            capacity={name: _capacity(each) for name, each in (device.get("capacity") or {}).items()},
            taints=tuple(
                DeviceTaint(taint["key"], taint.get("value") or "", taint["effect"])
                for taint in device.get("taints") or ()
                if taint["effect"] in PREVENTING
            ),
            consumes=tuple(_consumption(device)),
            binds_to_node=bool(device.get("bindsToNode")),
            # Nothing here waits for the conditions that some drivers set before a pod is bound.
            usable=not device.get("bindingConditions"),
        )

    def _device_facts(self, device: Mapping[str, Any], driver: str) -> DeviceFacts:
        relevant = [
            driver,
            *(device.get(name) for name in ("attributes", "capacity", "allowMultipleAllocations")),
        ]
        content = orjson.dumps(relevant, option=orjson.OPT_SORT_KEYS)
        known = self._facts.get(content)
        if known is None:
            _bound(self._facts)
            try:
                value: Mapping[str, Any] = device_value(device, driver)
            except (SelectorError, ValueError):
                value = {}
            attributes = {
                "/".join(qualified(name, driver)): _comparable(attribute)
                for name, attribute in (device.get("attributes") or {}).items()
            }
            known = self._facts[content] = DeviceFacts(driver, value, attributes)
        return known


def _bound(cache: dict[bytes, Any]) -> None:
    """Forgets everything when there is too much: equal objects are then parsed again."""
    if len(cache) >= MOST_CACHED:
        cache.clear()


def device_class(parser: DeviceParser, manifest: Manifest) -> DeviceClass:
    spec = manifest.get("spec") or {}
    expressions = tuple(each["cel"]["expression"] for each in spec.get("selectors") or ())
    return DeviceClass(key_of(manifest).name, expressions, tuple(spec.get("config") or ()))


_PARSERS: Mapping[Kind, Callable[[DeviceParser, Manifest], Any]] = {
    kinds.RESOURCE_CLAIM: DeviceParser.claim,
    kinds.DEVICE_CLASS: device_class,
    kinds.RESOURCE_SLICE: DeviceParser.resource_slice,
}
DEVICE_KINDS: tuple[Kind, ...] = tuple(_PARSERS)


def _alternatives(request: Mapping[str, Any]) -> Iterator[DeviceRequest]:
    if (exactly := request.get("exactly")) is not None:
        yield _request(request["name"], exactly)
    for each in request.get("firstAvailable") or ():
        yield _request(f"{request['name']}/{each['name']}", each)


def _request(name: str, given: Mapping[str, Any]) -> DeviceRequest:
    requested = (given.get("capacity") or {}).get("requests") or {}
    return DeviceRequest(
        name,
        given["deviceClassName"],
        tuple(each["cel"]["expression"] for each in given.get("selectors") or ()),
        given.get("allocationMode") or EXACT_COUNT,
        int(given.get("count") or 1),
        bool(given.get("adminAccess")),
        _tolerations(given),
        tuple((name, quantity.parse(amount)) for name, amount in sorted(requested.items())),
    )


def _tolerations(given: Mapping[str, Any]) -> tuple[DeviceToleration, ...]:
    return tuple(
        DeviceToleration(
            each.get("key") or "",
            each.get("operator") or "Equal",
            each.get("value") or "",
            each.get("effect") or "",
        )
        for each in given.get("tolerations") or ()
    )


def _constraint(given: Mapping[str, Any]) -> Constraint:
    attribute = given.get("matchAttribute")
    requests = frozenset(given.get("requests") or ())
    if attribute is not None:
        return Constraint(attribute, requests=requests)
    return Constraint(given["distinctAttribute"], distinct=True, requests=requests)


def parse_allocation(given: Mapping[str, Any]) -> Allocation:
    """`status.allocation` of a claim."""
    selector = given.get("nodeSelector")
    results = (given.get("devices") or {}).get("results") or ()
    return Allocation(
        tuple(
            AllocatedDevice(
                result["request"],
                DeviceId(result["driver"], result["pool"], result["device"]),
                bool(result.get("adminAccess")),
                result.get("shareID") or "",
                tuple(
                    (name, quantity.parse(amount))
                    for name, amount in sorted((result.get("consumedCapacity") or {}).items())
                ),
                _tolerations(result),
            )
            for result in results
        ),
        selectors.node_selector(selector) if selector is not None else None,
    )


def _reach(given: Mapping[str, Any]) -> NodeReach:
    if node := given.get("nodeName"):
        return NodeReach(node=node)
    if (selector := given.get("nodeSelector")) is not None:
        terms = selector.get("nodeSelectorTerms") or [{}]
        return NodeReach(
            selector=selectors.node_selector(selector),
            expressions=tuple(terms[0].get("matchExpressions") or ()),
            fields=tuple(terms[0].get("matchFields") or ()),
        )
    return NodeReach(everywhere=bool(given.get("allNodes")))


def _capacity(given: Mapping[str, Any]) -> Capacity:
    policy = given.get("requestPolicy")
    if policy is None:
        return Capacity(quantity.parse(given["value"]))
    valid = policy.get("validRange") or {}

    def amount(holder: Mapping[str, Any], name: str) -> Decimal | None:
        return quantity.parse(holder[name]) if holder.get(name) is not None else None

    return Capacity(
        quantity.parse(given["value"]),
        RequestPolicy(
            amount(policy, "default"),
            tuple(quantity.parse(each) for each in policy.get("validValues") or ()),
            *(amount(valid, name) for name in ("min", "max", "step")),
        ),
    )


def _consumption(device: Mapping[str, Any]) -> Iterator[tuple[str, str, Decimal]]:
    for each in device.get("consumesCounters") or ():
        for name, counter in (each.get("counters") or {}).items():
            yield each["counterSet"], name, quantity.parse(counter["value"])


def _comparable(attribute: Mapping[str, Any]) -> tuple[str, Any] | None:
    """An attribute as constraints compare it: type and value."""
    for kind in ("int", "bool", "string", "version"):
        if attribute.get(kind) is not None:
            return kind, attribute[kind]
    return None
