"""Validation of ResourceSlices: pools, devices, capacities and counters."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.devices import common
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.scheduling import node_selector
from volcano.kube.api import quantity
from volcano.kube.api.formats.names import dns_subdomain, semantic_version
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.dra.selectors import (
    LONGEST_DOMAIN,
    LONGEST_IDENTIFIER,
    LONGEST_VALUE,
    MOST_ATTRIBUTES,
)

MOST_DEVICES = 128
# With taints or counters, an entry is larger.
MOST_COMPLEX_DEVICES = 64
_MOST_COUNTER_SETS = 8
_MOST_COUNTERS = 32
_MOST_CONSUMPTIONS = 2
_MOST_TAINTS = 16
_MOST_VALID_VALUES = 10
_SELECTIONS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_SELECTION = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_VALUES = ("bool", "int", "string", "version")


def resource_slice(manifest: Manifest) -> Causes:
    """Validates a ResourceSlice."""
    spec = manifest.get("spec") or {}
    yield from common.driver_name(spec.get("driver") or "", "spec.driver")
    yield from _pool(spec.get("pool") or {})
    yield from _node_selection(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        yield field.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    is_complex = any(each.get("taints") or each.get("consumesCounters") for each in devices or ())
    most = MOST_COMPLEX_DEVICES if is_complex else MOST_DEVICES
    per_device = bool(spec.get("perDeviceNodeSelection"))
    yield from common.unique_items(
        devices, "spec.devices", most, lambda device, path: _device(device, path, per_device), _name_of
    )
    yield from common.unique_items(
        counters, "spec.sharedCounters", _MOST_COUNTER_SETS, _counter_set, _name_of
    )


def resource_slice_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    pools = [(spec.get("pool") or {}).get("name") for spec in (after, before)]
    yield from field.immutable("spec.pool.name", *pools)
    for name in ("driver", "nodeName"):
        yield from field.immutable(f"spec.{name}", after.get(name), before.get(name))


def _name_of(item: Mapping[str, Any]) -> str:
    return item.get("name") or ""


def _pool(pool: Mapping[str, Any]) -> Causes:
    yield from common.pool_name(pool.get("name") or "", "spec.pool.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield field.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield field.invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _node_selection(spec: Mapping[str, Any]) -> Causes:
    chosen = [f"`{name}`" for name in _SELECTIONS if spec.get(name) not in (None, "", False)]
    if (name := spec.get("nodeName")) is not None:
        if name:
            yield from field.each("spec.nodeName", name, dns_subdomain(name))
        else:
            yield field.invalid("spec.nodeName", name, "must be either unset or set to a non-empty string")
    if (selector := spec.get("nodeSelector")) is not None:
        yield from node_selector(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            where = "spec.nodeSelector.nodeSelectorTerms"
            yield field.invalid(where, terms, "must have exactly one node selector term")
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            yield field.invalid(f"spec.{name}", False, "must be either unset or set to true")
    if not chosen:
        yield field.required("spec", _ONE_SELECTION)
    elif len(chosen) > 1:
        detail = f"{_ONE_SELECTION}, but multiple fields are set"
        yield field.invalid("spec", f"{{{', '.join(chosen)}}}", detail)


def _device(device: Mapping[str, Any], path: str, per_device: bool) -> Causes:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    yield from common.label(_name_of(device), f"{path}.name")
    if (total := len(attributes) + len(capacity)) > MOST_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        yield field.invalid(path, total, detail)
    for name, attribute in attributes.items():
        yield from common.attribute_name(name, f"{path}.attributes")
        yield from _attribute(attribute, f"{path}.attributes[{_short(name)}]")
    for name, amount in capacity.items():
        yield from common.attribute_name(name, f"{path}.capacity")
        yield from _capacity(
            amount, f"{path}.capacity[{_short(name)}]", bool(device.get("allowMultipleAllocations"))
        )
    yield from common.items(device.get("taints"), f"{path}.taints", _MOST_TAINTS, common.taint)
    yield from common.unique_items(
        device.get("consumesCounters"),
        f"{path}.consumesCounters",
        _MOST_CONSUMPTIONS,
        _consumption,
        lambda consumption: consumption.get("counterSet") or "",
    )
    yield from _device_node(device, path, per_device)
    yield from common.binding_conditions(device, path)


def _short(name: str) -> str:
    """A key as error messages show it: too long ones without their middle."""
    longest = LONGEST_DOMAIN + 1 + LONGEST_IDENTIFIER
    if len(name) <= longest:
        return name
    remaining = longest - 3
    return f"{name[: (remaining + 1) // 2]}...{name[len(name) - remaining // 2 :]}"


def _device_node(device: Mapping[str, Any], path: str, per_device: bool) -> Causes:
    given = [name for name in _SELECTIONS[:3] if device.get(name) is not None]
    if not per_device:
        if given:
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec"
            )
            yield field.invalid(path, None, detail)
        return
    chosen = [f"`{name}`" for name in given if device[name] not in ("", False)]
    if (name := device.get("nodeName")) is not None:
        if name:
            yield from field.each(f"{path}.nodeName", name, dns_subdomain(name))
        else:
            yield field.invalid(f"{path}.nodeName", name, "must not be empty")
    if (selector := device.get("nodeSelector")) is not None:
        yield from node_selector(selector, f"{path}.nodeSelector")
    if device.get("allNodes") is False:
        yield field.invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    if not chosen:
        yield field.required(path, _DEVICE_SELECTION)
    elif len(chosen) > 1:
        yield field.invalid(path, f"{{{', '.join(chosen)}}}", _DEVICE_SELECTION)


def _attribute(attribute: Mapping[str, Any], path: str) -> Causes:
    given = [name for name in _VALUES if attribute.get(name) is not None]
    if (text := attribute.get("string")) is not None and len(text.encode()) > LONGEST_VALUE:
        yield field.too_long(f"{path}.string", LONGEST_VALUE)
    if (text := attribute.get("version")) is not None:
        yield from field.each(f"{path}.version", text, semantic_version(text))
        if len(text.encode()) > LONGEST_VALUE:
            yield field.too_long(f"{path}.version", LONGEST_VALUE)
    if len(given) != 1:
        yield field.invalid(path, attribute if given else "", "exactly one value must be specified")


def _counter_set(counter_set: Mapping[str, Any], path: str) -> Causes:
    if name := _name_of(counter_set):
        yield from common.label(name, f"{path}.name")
    else:
        yield field.required(f"{path}.name")
    yield from _counters(counter_set, path)


def _consumption(consumption: Mapping[str, Any], path: str) -> Causes:
    if name := consumption.get("counterSet"):
        yield from common.label(name, f"{path}.counterSet")
    else:
        yield field.required(f"{path}.counterSet")
    yield from _counters(consumption, path)


def _counters(holder: Mapping[str, Any], path: str) -> Causes:
    counters = holder.get("counters") or {}
    if not counters:
        yield field.required(f"{path}.counters")
    elif len(counters) > _MOST_COUNTERS:
        yield field.too_many(f"{path}.counters", len(counters), _MOST_COUNTERS)
    else:
        for name in counters:
            yield from common.label(name, f"{path}.counters")


# -- request policies of capacities that several claims may share ----------------------------------------------------


def _capacity(capacity: Mapping[str, Any], path: str, shared: bool) -> Causes:
    if (policy := capacity.get("requestPolicy")) is None:
        return
    where = f"{path}.requestPolicy"
    if not shared:
        yield field.forbidden(where, "allowMultipleAllocations must be true")
        return
    values, valid_range, default = (policy.get(name) for name in ("validValues", "validRange", "default"))
    if values and valid_range is not None:
        both = 'cannot specify "validValues" and "validRange" at the same time'
        yield field.forbidden(where, f"exactly one policy can be specified, {both}")
        return
    for name, value in (("validValues", values), ("validRange", valid_range)):
        if value and default is None:
            yield field.required(f"{where}.default", f"required when {name} is defined")
    if default is None:
        return
    most = capacity.get("value", "0")
    if values:
        yield from _valid_values(values, str(default), str(most), f"{where}.validValues")
    elif valid_range is not None:
        yield from _valid_range(valid_range, str(default), str(most), f"{where}.validRange")


def _valid_values(values: list[Any], default: str, most: str, path: str) -> Causes:
    amounts = [quantity.parse(value) for value in values]
    for index in range(1, len(amounts)):
        if amounts[index - 1] > amounts[index]:
            detail = "values must be sorted in ascending order"
            yield field.invalid(f"{path}[{index}]", str(values[index]), detail)

    def option(value: Any, where: str) -> Causes:
        if quantity.parse(value) > quantity.parse(most):
            yield field.invalid(where, str(value), f"option is larger than capacity value: {most}")

    yield from common.unique_items(
        values, path, _MOST_VALID_VALUES, option, lambda value: str(int(quantity.parse(value)))
    )
    if len(values) > _MOST_VALID_VALUES or quantity.parse(default) not in amounts:
        yield field.invalid(path, default, "default value is not valid according to the requestPolicy")


def _valid_range(valid_range: Mapping[str, Any], default: str, most: str, path: str) -> Causes:
    least, highest, step = (valid_range.get(name) for name in ("min", "max", "step"))
    if least is None:
        yield field.required(f"{path}.min", "required when validRange is defined")
        return
    low, chosen, whole = quantity.parse(least), quantity.parse(default), quantity.parse(most)
    if low > whole:
        yield field.invalid(f"{path}.min", str(least), f"min is larger than capacity value: {most}")
    if chosen < low:
        yield field.invalid(f"{path}.min", default, f"default is less than min: {least}")
    if highest is not None:
        high = quantity.parse(highest)
        if low > high:
            yield field.invalid(f"{path}.max", str(least), f"min is larger than max: {highest}")
        if high > whole:
            yield field.invalid(f"{path}.max", str(highest), f"max is larger than capacity value: {most}")
        if chosen > high:
            yield field.invalid(f"{path}.max", default, f"default is more than max: {highest}")
    if step is not None:
        yield from _step(low, quantity.parse(step), step, least, most, path)
        for value in (default, highest):
            if value is not None and (quantity.parse(value) - low) % (quantity.parse(step) or 1):
                detail = f"value is not a multiple of a given step ({step}) from ({least})"
                yield field.invalid(f"{path}.step", str(value), detail)


def _step(low: Decimal, step: Decimal, shown: Any, least: Any, most: str, path: str) -> Causes:
    if low + step > quantity.parse(most):
        reached = str(quantity.Quantity(low + step, quantity.read(least).family))
        detail = f"one step {reached} is larger than capacity value: {most}"
        yield field.invalid(f"{path}.step", str(shown), detail)
