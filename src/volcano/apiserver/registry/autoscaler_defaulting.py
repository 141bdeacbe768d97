"""Defaults of HorizontalPodAutoscalers."""

from typing import Any

from volcano.apiserver.registry.pod_defaulting import canonical
from volcano.apiserver.schema.autoscaler_conversion import (
    CPU_TARGET,
    DEFAULT_CPU_UTILIZATION,
    METRICS,
    cpu_utilization,
)
from volcano.kube.api.manifest import Manifest, annotations_of

_PERIOD = 15  # seconds
_QUANTITIES = ("value", "averageValue")


def default_autoscaler(autoscaler: Manifest) -> None:
    """Sets the defaults of an autoscaling/v2 object."""
    spec = autoscaler.setdefault("spec", {})
    _default_replicas(spec)
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_utilization(DEFAULT_CPU_UTILIZATION)]
    for metric in spec["metrics"]:
        for source in metric.values():
            if isinstance(source, dict):
                _canonical_quantities(source.get("target"))
    if (behavior := spec.get("behavior")) is not None:
        behavior["scaleUp"] = {**_scale_up(), **_without_nulls(behavior.get("scaleUp"))}
        behavior["scaleDown"] = {**_scale_down(), **_without_nulls(behavior.get("scaleDown"))}
    for metric in (autoscaler.get("status") or {}).get("currentMetrics") or ():
        for source in metric.values():
            if isinstance(source, dict):
                _canonical_quantities(source.get("current"))


def default_autoscaler_v1(autoscaler: Manifest) -> None:
    """Sets the defaults of an autoscaling/v1 object."""
    spec = autoscaler.setdefault("spec", {})
    _default_replicas(spec)
    if METRICS not in annotations_of(autoscaler):
        spec.setdefault(CPU_TARGET, DEFAULT_CPU_UTILIZATION)


def _default_replicas(spec: Manifest) -> None:
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1


def _scale_up() -> Manifest:
    policies = [("Pods", 4), ("Percent", 100)]
    return {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [_policy(*each) for each in policies],
    }


def _scale_down() -> Manifest:
    return {"selectPolicy": "Max", "policies": [_policy("Percent", 100)]}


def _policy(kind: str, value: int) -> Manifest:
    return {"type": kind, "value": value, "periodSeconds": _PERIOD}


def _without_nulls(rules: Any) -> Manifest:
    found = {name: value for name, value in (rules or {}).items() if value is not None}
    if "tolerance" in found:
        found["tolerance"] = canonical(found["tolerance"])
    return found


def _canonical_quantities(values: Any) -> None:
    for name in _QUANTITIES:
        if isinstance(values, dict) and values.get(name) is not None:
            values[name] = canonical(values[name])
