"""Print handlers for HorizontalPodAutoscalers, metrics and APIServices."""

import copy
from collections.abc import Mapping
from typing import Any

from volcano.apiserver.endpoints.tables.cells import AGE, NAME, NONE, UNKNOWN, UNSET, Printer, age, text
from volcano.apiserver.schema.autoscaler_conversion import to_v2
from volcano.kube.api import quantity
from volcano.kube.api.fields import at, items, name_of, number
from volcano.kube.api.manifest import Manifest

SHOWN_METRICS = 2  # of an autoscaler
# Fields of the sources of metrics, by type.
SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def print_autoscaler(autoscaler: Manifest, now: float) -> list[Any]:
    spec = at(autoscaler, "spec", default={})
    least = at(spec, "minReplicas")
    return [
        name_of(autoscaler),
        f"{at(spec, 'scaleTargetRef', 'kind', default='')}/{at(spec, 'scaleTargetRef', 'name', default='')}",
        _metrics(items(spec, "metrics"), items(autoscaler, "status", "currentMetrics")),
        UNSET if least is None else str(least),
        number(spec, "maxReplicas"),
        number(autoscaler, "status", "currentReplicas"),
        age(autoscaler, now),
    ]


def print_autoscaler_v1(autoscaler: Manifest, now: float) -> list[Any]:
    converted = copy.deepcopy(autoscaler)
    to_v2(converted)
    return print_autoscaler(converted, now)


def _metrics(specs: list[Mapping[str, Any]], statuses: list[Mapping[str, Any]]) -> str:
    if not specs:
        return NONE
    shown = [_metric(spec, statuses[i] if i < len(statuses) else {}) for i, spec in enumerate(specs)]
    more = len(shown) - SHOWN_METRICS
    joined = ", ".join(shown[:SHOWN_METRICS])
    return f"{joined} + {more} more..." if more > 0 else joined


def _metric(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    source = SOURCES.get(str(spec.get("type")))
    if source is None:
        return "<unknown type>"
    target, current = at(spec, source, "target", default={}), at(status, source, "current")
    if source in ("resource", "containerResource"):
        return f"{at(spec, source, 'name', default='')}: {_utilization(target, current)}"
    if target.get("averageValue") is None:
        return f"{_value(current, 'value')}/{target.get('value')}"
    average = f"{_value(current, 'averageValue')}/{target['averageValue']}"
    return average if source == "pods" else f"{average} (avg)"


def _utilization(target: Mapping[str, Any], current: Mapping[str, Any] | None) -> str:
    if target.get("averageValue") is not None:
        return f"{_value(current, 'averageValue')}/{target['averageValue']}"
    used, wanted = at(current, "averageUtilization"), target.get("averageUtilization")
    shown = UNKNOWN if used is None else f"{used}%"
    return f"{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _value(current: Mapping[str, Any] | None, name: str) -> str:
    return UNKNOWN if current is None or current.get(name) is None else str(current[name])


def print_metrics(metrics: Manifest, now: float) -> list[Any]:
    """Of a node, or the sum over the containers of a pod."""
    usages = [metrics["usage"]] if "usage" in metrics else [each["usage"] for each in metrics["containers"]]
    cpu = sum(quantity.milli(usage["cpu"]) for usage in usages)
    memory = sum(quantity.units(usage["memory"]) for usage in usages)
    return [
        name_of(metrics),
        f"{round(cpu)}m",
        f"{round(memory / 1024)}Ki",
        str(metrics["window"]),
    ]


def print_api_service(service: Manifest, now: float) -> list[Any]:
    reference = at(service, "spec", "service")
    place = f"{reference['namespace']}/{reference['name']}" if reference else "Local"
    available = next(
        (each for each in items(service, "status", "conditions") if each.get("type") == "Available"), {}
    )
    status = str(available.get("status", "Unknown"))
    shown = status if status == "True" else f"{status} ({available.get('reason', '')})"
    return [name_of(service), place, shown, age(service, now)]


_AUTOSCALER = (NAME, *text("Reference", "Targets", "MinPods", "MaxPods", "Replicas"), AGE)
AUTOSCALER_PRINTER = Printer(_AUTOSCALER, print_autoscaler)
AUTOSCALER_V1_PRINTER = Printer(_AUTOSCALER, print_autoscaler_v1)
METRICS_PRINTER = Printer((NAME, *text("cpu", "memory", "Window")), print_metrics)
API_SERVICE_PRINTER = Printer((NAME, *text("Service", "Available"), AGE), print_api_service)
