"""Conversion of HorizontalPodAutoscalers between autoscaling/v2, as stored, and v1.

v1 has a target for cpu only; other metrics, behavior and conditions are JSON in annotations.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from volcano.kube.api.kinds import HORIZONTAL_POD_AUTOSCALER, HORIZONTAL_POD_AUTOSCALER_V1
from volcano.kube.api.manifest import Manifest

_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT_METRICS = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
BEHAVIOR, CONDITIONS = f"{_PREFIX}behavior", f"{_PREFIX}conditions"
ANNOTATIONS = (
    METRICS, BEHAVIOR, f"{_PREFIX}scale-down-tolerance", f"{_PREFIX}scale-up-tolerance", CURRENT_METRICS, CONDITIONS,
)  # fmt: skip
DEFAULT_CPU_UTILIZATION = 80
CPU_TARGET, CPU_CURRENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
_SOURCES = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
# The annotation for the behavior has Go's field names.
_GO_NAMES = {
    "scaleUp": "ScaleUp",
    "scaleDown": "ScaleDown",
    "stabilizationWindowSeconds": "StabilizationWindowSeconds",
    "selectPolicy": "SelectPolicy",
    "policies": "Policies",
    "tolerance": "Tolerance",
    "type": "Type",
    "value": "Value",
    "periodSeconds": "PeriodSeconds",
}
_JSON_NAMES = {name.lower(): name for name in _GO_NAMES}


def to_v2(autoscaler: Manifest) -> None:
    """Converts an autoscaling/v1 object to v2, in place."""
    autoscaler["apiVersion"] = HORIZONTAL_POD_AUTOSCALER.api_version
    spec = autoscaler["spec"] = dict(autoscaler.get("spec") or {})
    status = autoscaler["status"] = dict(autoscaler.get("status") or {})
    annotations = _annotations(autoscaler)
    metrics = [_converted(each, _source_to_v2) for each in _decoded(annotations, METRICS, list)]
    target = spec.pop(CPU_TARGET, None)
    if target is not None:
        metrics.append(cpu_utilization(target))
    spec["metrics"] = metrics or [cpu_utilization(DEFAULT_CPU_UTILIZATION)]
    if behavior := _renamed(
        _decoded(annotations, BEHAVIOR, dict), lambda name: _JSON_NAMES.get(name.lower())
    ):
        spec["behavior"] = behavior
    current = status.pop(CPU_CURRENT, None)
    if CURRENT_METRICS in annotations:
        found = _decoded(annotations, CURRENT_METRICS, list)
        status["currentMetrics"] = [_converted(each, _status_to_v2) for each in found]
    elif current is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    else:
        status.setdefault("currentMetrics", None)
    if CONDITIONS in annotations:
        status["conditions"] = _decoded(annotations, CONDITIONS, list)
    _set_annotations(autoscaler, {})


def from_v2(autoscaler: Manifest) -> None:
    """Converts an autoscaling/v2 object to v1, in place."""
    autoscaler["apiVersion"] = HORIZONTAL_POD_AUTOSCALER_V1.api_version
    spec = autoscaler["spec"] = dict(autoscaler.get("spec") or {})
    status = autoscaler["status"] = dict(autoscaler.get("status") or {})
    kept: dict[str, str] = {}
    metrics, others = spec.pop("metrics", None) or [], []
    for metric in metrics:
        utilization = _cpu_utilization(metric, "target")
        if utilization is None:
            others.append(_converted(metric, partial(_from_v2, "target")))
        else:
            spec.setdefault(CPU_TARGET, utilization)
    if others:
        kept[METRICS] = _encoded(others)
    if behavior := spec.pop("behavior", None):
        kept[BEHAVIOR] = _encoded(_go_behavior(behavior))
    if current := status.pop("currentMetrics", None):
        kept[CURRENT_METRICS] = _encoded([_converted(each, partial(_from_v2, "current")) for each in current])
        for metric in current:
            if (utilization := _cpu_utilization(metric, "current")) is not None:
                status[CPU_CURRENT] = utilization
    if conditions := status.pop("conditions", None):
        kept[CONDITIONS] = _encoded(conditions)
    status.setdefault("currentReplicas", 0)
    _set_annotations(autoscaler, kept)


def cpu_utilization(percent: int) -> Manifest:
    """A metric: the average use of cpu, in percent of the requests."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_utilization(metric: Mapping[str, Any], field: str) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get(field) or {}).get("averageUtilization")
    return found


# -- metrics -----------------------------------------------------------------------------------------

Fields = Mapping[str, Any]


def _converted(metric: Fields, convert: Callable[[str, Fields], Manifest]) -> Manifest:
    """A metric of another version; `convert` is called with the name of its source and its fields."""
    kind = metric.get("type", "")
    source = _SOURCES.get(kind, "")
    return {"type": kind, source: convert(source, metric.get(source) or {})} if source else {"type": kind}


def _source_to_v2(source: str, found: Fields) -> Manifest:
    if source in ("resource", "containerResource"):
        target = _some(
            averageValue=found.get("targetAverageValue"),
            averageUtilization=found.get("targetAverageUtilization"),
        )
        target["type"] = "Utilization" if "averageUtilization" in target else "AverageValue"
        return {**_some(name=found.get("name"), container=found.get("container")), "target": target}
    selector = found.get("metricSelector" if source == "external" else "selector")
    metric = _some(name=found.get("metricName"), selector=selector)
    average = found.get("averageValue" if source == "object" else "targetAverageValue")
    value = found.get("targetValue")
    if source == "pods" and average is None:
        average = "0"
    if source == "object" and average is None and value is None:
        value = "0"
    if source == "object" and average is not None and value in ("0", 0):
        value = None  # v1 cannot omit it
    target = _some(value=value, averageValue=average)
    target["type"] = (
        "Value" if "value" in target and (source == "external" or average is None) else "AverageValue"
    )
    described = {"describedObject": dict(found.get("target") or {})} if source == "object" else {}
    return {**described, "metric": metric, "target": target}


# Amounts that v1 cannot omit, by part and source: "0" where v2 has none.
_REQUIRED = frozenset(
    (
        ("target", "object", "value"),
        ("target", "pods", "averageValue"),
        ("current", "resource", "averageValue"),
        ("current", "containerResource", "averageValue"),
        ("current", "object", "value"),
        ("current", "pods", "averageValue"),
        ("current", "external", "value"),
    )
)


def _from_v2(part: str, source: str, found: Fields) -> Manifest:
    """The `target` of a metric's specification, or the `current` of its status."""
    amounts = found.get(part) or {}

    def amount(name: str) -> Any:
        value = amounts.get(name)
        return (value or "0") if (part, source, name) in _REQUIRED else value

    value, average = {f"{part}Value": amount("value")}, {f"{part}AverageValue": amount("averageValue")}
    if source in ("resource", "containerResource"):
        utilization = {f"{part}AverageUtilization": amounts.get("averageUtilization")}
        return _some(name=found.get("name"), **utilization, **average, container=found.get("container"))
    metric = found.get("metric") or {}
    name, selector = metric.get("name"), metric.get("selector")
    if source == "object":
        described = dict(found.get("describedObject") or {})
        own = {"selector": selector, "averageValue": amounts.get("averageValue")}
        return _some(target=described, metricName=name, **value, **own)
    if source == "pods":
        return _some(metricName=name, **average, selector=selector)
    return _some(metricName=name, metricSelector=selector, **value, **average)


def _status_to_v2(source: str, found: Fields) -> Manifest:
    if source in ("resource", "containerResource"):
        current = _some(
            averageUtilization=found.get("currentAverageUtilization"),
            averageValue=found.get("currentAverageValue"),
        )
        return {**_some(name=found.get("name"), container=found.get("container")), "current": current}
    selector = found.get("metricSelector" if source == "external" else "selector")
    average = found.get("averageValue" if source == "object" else "currentAverageValue")
    described = {"describedObject": dict(found.get("target") or {})} if source == "object" else {}
    return {
        **described,
        "metric": _some(name=found.get("metricName"), selector=selector),
        "current": _some(value=found.get("currentValue"), averageValue=average),
    }


# -- annotations -------------------------------------------------------------------------------------


def _go_behavior(behavior: Fields) -> Manifest:
    """The behavior as Go encodes its internal type: all fields, in order."""

    def rules(found: Fields | None) -> Manifest | None:
        if found is None:
            return None
        names = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
        whole = {name: found.get(name) for name in names}
        renamed: Manifest = _renamed(whole, _GO_NAMES.get)
        return renamed

    return {_GO_NAMES[name]: rules(behavior.get(name)) for name in ("scaleUp", "scaleDown")}


def _renamed(value: Any, name_of: Callable[[str], str | None]) -> Any:
    """A value with the fields of all its objects renamed; unknown and absent ones are left out."""
    if isinstance(value, dict):
        pairs = ((name_of(name), _renamed(each, name_of)) for name, each in value.items())
        keeps_null = name_of("scaleUp") == "ScaleUp"
        return {name: each for name, each in pairs if name and (each is not None or keeps_null)}
    return [_renamed(each, name_of) for each in value] if isinstance(value, list) else value


def _annotations(autoscaler: Manifest) -> Mapping[str, str]:
    return (autoscaler.get("metadata") or {}).get("annotations") or {}


def _set_annotations(autoscaler: Manifest, kept: Mapping[str, str]) -> None:
    found = {name: text for name, text in _annotations(autoscaler).items() if name not in ANNOTATIONS}
    metadata = autoscaler["metadata"] = dict(autoscaler.get("metadata") or {})
    metadata.pop("annotations", None)
    if found or kept:
        metadata["annotations"] = {**found, **kept}


def _decoded(annotations: Mapping[str, str], name: str, kind: type[Any]) -> Any:
    """The value of an annotation; empty when it is missing or malformed."""
    try:
        return msgspec.json.decode(annotations.get(name) or "null", type=kind)
    except msgspec.MsgspecError:
        return kind()


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _some(**fields: Any) -> Manifest:
    return {name: value for name, value in fields.items() if value is not None}
