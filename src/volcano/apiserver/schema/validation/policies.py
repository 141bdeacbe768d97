"""Validation of PriorityClasses, ResourceQuotas and LimitRanges."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.resource_quantities import amount, container_name, quota_name
from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest

SYSTEM_PRIORITIES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_MAX_USER_PRIORITY = 1_000_000_000
SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)  # fmt: skip
_FOR_SCOPES = "value when `operator` is {} for scope selector"
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods")
_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def priority_class(manifest: Manifest) -> Causes:
    """Validates a PriorityClass."""
    name, value = manifest["metadata"].get("name") or "", manifest.get("value") or 0
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            yield field.forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class",
            )
    elif value > _MAX_USER_PRIORITY:
        yield field.forbidden(
            "value", f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        )
    policy = manifest.get("preemptionPolicy")
    yield from field.one_of("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def priority_class_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield field.forbidden("value", "may not be changed in an update.")
    yield from field.immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def resource_quota(manifest: Manifest) -> Causes:
    """Validates a ResourceQuota."""
    spec = manifest.get("spec") or {}
    for name, value in (spec.get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        yield from quota_name(name, path)
        yield from amount(name, value, path)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in SCOPES:
            yield field.invalid("spec.scopes", scopes, "unsupported scope")
        elif any(not _scope_applies(scope, name) for name in spec.get("hard") or {}):
            yield field.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        yield field.invalid("spec.scopes", scopes, "conflicting scopes")
    for requirement in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield from _scope_requirement(requirement, "spec.scopeSelector.matchExpressions")


def _scope_requirement(requirement: Manifest, path: str) -> Causes:
    scope, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
    values = requirement.get("values") or []
    if scope not in SCOPES:
        yield field.invalid(f"{path}.scopeName", scope, "unsupported scope")
    elif scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
        yield field.invalid(f"{path}.operator", operator, _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            yield field.required(
                f"{path}.values", "must be at least one " + _FOR_SCOPES.format("'In' or 'NotIn'")
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no " + _FOR_SCOPES.format("'Exist' or 'DoesNotExist'")
            yield field.invalid(f"{path}.values", values, detail)
    else:
        yield field.invalid(f"{path}.operator", operator, "not a valid selector operator")


def _scope_applies(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    return name in _COMPUTE or name.startswith(("requests.", "limits.")) or "/" in name


def resource_quota_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    after, before = (new.get("spec") or {}).get("scopes") or [], (old.get("spec") or {}).get("scopes") or []
    if subresource != "status" and sorted(after) != sorted(before):
        yield field.invalid("spec.scopes", after, field.IMMUTABLE)


def limit_range(manifest: Manifest) -> Causes:
    """Validates a LimitRange."""
    seen: set[str] = set()
    for where, item in field.items(manifest.get("spec") or {}, "limits", "spec"):
        kind = item.get("type") or ""
        if kind not in _LIMIT_TYPES and "/" not in kind:
            yield field.invalid(f"{where}.type", kind, "must be a standard limit type or fully qualified")
        yield from field.unique(f"{where}.type", kind, seen)
        if kind == "Pod":
            for name in ("default", "defaultRequest"):
                if item.get(name):
                    yield field.forbidden(f"{where}.{name}", "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not _bounds_storage(item):
            text = "either minimum or maximum storage value is required, but neither was provided"
            yield field.required(f"{where}.limits", text)
        yield from _limits(item, where, kind)


def _bounds_storage(item: Manifest) -> bool:
    return any("storage" in (item.get(name) or {}) for name in ("min", "max"))


def _limits(item: Manifest, path: str, kind: str) -> Causes:
    parts = {
        name: item.get(name) or {}
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    pod = kind == "Pod"
    for name in sorted({key for part in parts.values() for key in part}):
        for part in parts if kind in ("Container", "Pod") else ():
            if name in parts[part]:
                yield from container_name(name, f"{path}.{part}[{name}]")
        high, low, default, request, ratio = (parts[part].get(name) for part in parts)
        yield from _ordered(path, name, "min", low, "min value", high, "max value")
        if pod:
            continue
        yield from _ordered(
            path, name, "defaultRequest", low, "min value", request, "default request value", shown=request
        )
        yield from _ordered(path, name, "defaultRequest", request, "default request value", high, "max value")
        yield from _ordered(
            path, name, "defaultRequest", request, "default request value", default, "default limit value"
        )
        yield from _ordered(path, name, "default", low, "min value", default, "default value", shown=low)
        yield from _ordered(path, name, "default", default, "default value", high, "max value", shown=high)
        if ratio is not None and quantity.parse(ratio) < 1:
            yield field.invalid(
                f"{path}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1"
            )


def _ordered(
    path: str, name: str, part: str, low: Any, low_name: str, high: Any, high_name: str, *, shown: Any = None
) -> Causes:
    """Validates that the first quantity is at most the second."""
    if low is not None and high is not None and quantity.parse(low) > quantity.parse(high):
        text = f"{low_name} {low} is greater than {high_name} {high}"
        yield field.invalid(f"{path}.{part}[{name}]", str(low if shown is None else shown), text)
