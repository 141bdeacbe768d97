"""Validation of HorizontalPodAutoscalers."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from volcano.apiserver.schema.autoscaler_conversion import to_v2
from volcano.apiserver.schema.validation import field, resource_quantities
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api import quantity
from volcano.kube.api.errors import Cause
from volcano.kube.api.formats.names import dns_label, path_segment
from volcano.kube.api.manifest import Manifest

_MAX_WINDOW, _MAX_PERIOD = 3600, 1800  # seconds
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
# Types of metrics and the field with the source of each, in the order in which sources are validated.
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TARGETS = ("Utilization", "Value", "AverageValue")


def autoscaler(manifest: Manifest) -> Causes:
    """Validates a HorizontalPodAutoscaler in autoscaling/v2."""
    spec = manifest.get("spec") or {}
    yield from _replicas(spec)
    reference = spec.get("scaleTargetRef") or {}
    yield from _reference(reference, "spec.scaleTargetRef")
    for path, metric in field.items(spec, "metrics", "spec"):
        yield from _metric(metric, path)
    for direction in ("scaleUp", "scaleDown"):
        if (rules := (spec.get("behavior") or {}).get(direction)) is not None:
            yield from _rules(rules, f"spec.behavior.{direction}")


def new_autoscaler(manifest: Manifest) -> Causes:
    """Validates the group of the target, which stored objects may lack."""
    yield from _target_group((manifest.get("spec") or {}).get("scaleTargetRef") or {})


def autoscaler_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    if subresource == "status":
        for name in ("currentReplicas", "desiredReplicas"):
            yield from field.not_negative(f"status.{name}", (new.get("status") or {}).get(name))
        return
    before, after = ((each.get("spec") or {}).get("scaleTargetRef") or {} for each in (old, new))
    if (before.get("apiVersion"), before.get("kind")) != (after.get("apiVersion"), after.get("kind")):
        yield from _target_group(after)


def autoscaler_v1(manifest: Manifest) -> Iterable[Cause]:
    """Validates a HorizontalPodAutoscaler in autoscaling/v1: as the v2 object that is stored."""
    return autoscaler(_converted(manifest))


def new_autoscaler_v1(manifest: Manifest) -> Iterable[Cause]:
    return new_autoscaler(_converted(manifest))


def autoscaler_v1_update(new: Manifest, old: Manifest, subresource: str) -> Iterable[Cause]:
    return autoscaler_update(new, old, subresource)


def _converted(manifest: Manifest) -> Manifest:
    converted = copy.deepcopy(manifest)
    to_v2(converted)
    return converted


def _replicas(spec: Mapping[str, Any]) -> Causes:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield field.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield field.required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield field.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield field.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    if least == 0 and not any(
        metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()
    ):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield field.forbidden("spec.metrics", detail)


def _reference(reference: Mapping[str, Any], path: str) -> Causes:
    for name in ("kind", "name"):
        if value := reference.get(name):
            yield from field.each(f"{path}.{name}", value, path_segment(value))
        else:
            yield field.required(f"{path}.{name}")


def _target_group(reference: Mapping[str, Any]) -> Causes:
    version, path = reference.get("apiVersion") or "", "spec.scaleTargetRef.apiVersion"
    if version.count("/") > 1:
        yield field.invalid(path, version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version and reference.get("kind") != "ReplicationController":
        yield field.invalid(path, version, "apiVersion must specify API group")


# -- metrics -----------------------------------------------------------------------------------------


def _metric(metric: Mapping[str, Any], path: str) -> Causes:
    kind = metric.get("type") or ""
    if not kind:
        yield field.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield field.unsupported(f"{path}.type", kind, sorted(_SOURCES))
    present = [name for name in _SOURCES.values() if metric.get(name) is not None]
    if present:
        yield from _SOURCE_CHECKS[present[0]](metric[present[0]], f"{path}.{present[0]}")
    expected = _SOURCES.get(kind)
    if expected is None:
        yield field.unsupported(f"{path}.type", kind, sorted(_SOURCES))
    elif metric.get(expected) is None:
        yield field.required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for name in present:
            if name != expected:
                yield field.forbidden(f"{path}.{name}", "must populate the given metric source only")


def _object_source(source: Mapping[str, Any], path: str) -> Causes:
    described = source.get("describedObject") or {}
    yield from _reference(described, f"{path}.describedObject")
    yield from _identifier_and_target(source, path)
    target = source.get("target") or {}
    if target.get("value") is None and target.get("averageValue") is None:
        yield field.required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external_source(source: Mapping[str, Any], path: str) -> Causes:
    yield from _identifier_and_target(source, path)
    target = source.get("target") or {}
    given = [target.get(name) is not None for name in ("value", "averageValue")]
    if not any(given):
        detail = "must set either a target value for metric or a per-pod target"
        yield field.required(f"{path}.target.averageValue", detail)
    if all(given):
        detail = "may not set both a target value for metric and a per-pod target"
        yield field.forbidden(f"{path}.target.value", detail)


def _pods_source(source: Mapping[str, Any], path: str) -> Causes:
    yield from _identifier_and_target(source, path)
    if (source.get("target") or {}).get("averageValue") is None:
        yield field.required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource_source(source: Mapping[str, Any], path: str) -> Causes:
    if not source.get("name"):
        yield field.required(f"{path}.name", "must specify a resource name")
    yield from _resource_target(source.get("target") or {}, f"{path}.target")


def _container_source(source: Mapping[str, Any], path: str) -> Causes:
    if not (name := source.get("name")):
        yield field.required(f"{path}.name", "must specify a resource name")
    else:
        yield from resource_quantities.container_name(name, f"{path}.name")
    if not (container := source.get("container")):
        yield field.required(f"{path}.container", "must specify a container")
    else:
        yield from field.each(f"{path}.container", container, dns_label(container))
    yield from _resource_target(source.get("target") or {}, f"{path}.target")


def _resource_target(target: Mapping[str, Any], path: str) -> Causes:
    yield from _target(target, path)
    given = [target.get(name) is not None for name in ("averageUtilization", "averageValue")]
    if not any(given):
        detail = "must set either a target raw value or a target utilization"
        yield field.required(f"{path}.averageUtilization", detail)
    if all(given):
        detail = "may not set both a target raw value and a target utilization"
        yield field.forbidden(f"{path}.averageValue", detail)


def _identifier_and_target(source: Mapping[str, Any], path: str) -> Causes:
    if name := (source.get("metric") or {}).get("name"):
        yield from field.each(f"{path}.metric.name", name, path_segment(name))
    else:
        yield field.required(f"{path}.metric.name", "must specify a metric name")
    yield from _target(source.get("target") or {}, f"{path}.target")


def _target(target: Mapping[str, Any], path: str) -> Causes:
    kind = target.get("type") or ""
    if not kind:
        yield field.required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield field.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        if (value := target.get(name)) is not None and quantity.parse(value) <= 0:
            yield field.invalid(f"{path}.{name}", value, "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield field.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")


_SOURCE_CHECKS = {
    "object": _object_source,
    "external": _external_source,
    "pods": _pods_source,
    "resource": _resource_source,
    "containerResource": _container_source,
}


# -- behavior ----------------------------------------------------------------------------------------


def _rules(rules: Mapping[str, Any], path: str) -> Causes:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        yield field.invalid(
            f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
        )
    if window is not None and window > _MAX_WINDOW:
        detail = f"must be less than or equal to {_MAX_WINDOW}"
        yield field.invalid(f"{path}.stabilizationWindowSeconds", window, detail)
    if select is not None and select not in _SELECT_POLICIES:
        yield field.unsupported(f"{path}.selectPolicy", select, _SELECT_POLICIES)
    if not rules.get("policies"):
        yield field.required(f"{path}.policies", "must specify at least one Policy")
    for place, policy in field.items(rules, "policies", path):
        yield from _policy(policy, place)
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity.parse(tolerance) < 0:
        yield field.invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to 0")


def _policy(policy: Mapping[str, Any], path: str) -> Causes:
    if policy.get("type") not in _POLICIES:
        yield field.unsupported(f"{path}.type", policy.get("type") or "", _POLICIES)
    for name in ("value", "periodSeconds"):
        if (policy.get(name) or 0) <= 0:
            yield field.invalid(f"{path}.{name}", policy.get(name) or 0, "must be greater than zero")
    if (policy.get("periodSeconds") or 0) > _MAX_PERIOD:
        detail = f"must be less than or equal to {_MAX_PERIOD}"
        yield field.invalid(f"{path}.periodSeconds", policy["periodSeconds"], detail)
