"""Validation of the pod failure policy and the per-index settings of batch/v1 Jobs."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.names import qualified_name
from volcano.kube.errors import Cause

_MAX_PARALLELISM = 100_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")


def indexed_settings(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates the settings of Indexed completion mode."""
    per_index, most = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    if most is not None and per_index is None:
        yield field.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("completionMode") == "Indexed":
        if parallelism is not None and parallelism > _MAX_PARALLELISM:
            detail = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
            yield field.invalid(f"{path}.parallelism", parallelism, detail)
        if most is not None and completions is not None and most > completions:
            yield field.invalid(f"{path}.maxFailedIndexes", most, "must be less than or equal to completions")
        if most is not None and most > _MAX_PARALLELISM:
            yield field.invalid(
                f"{path}.maxFailedIndexes", most, f"must be less than or equal to {_MAX_PARALLELISM}"
            )
    elif spec.get("completionMode") in (None, "", "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield field.invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")


def failure_policy(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates podFailurePolicy."""
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {one.get("name") for one in (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))}
    for where, rule in field.items(spec.get("podFailurePolicy") or {}, "rules", path):
        action = rule.get("action")
        if not action:
            yield field.required(f"{where}.action", _choices(_ACTIONS))
        elif action not in _ACTIONS:
            yield field.unsupported(f"{where}.action", action, _ACTIONS)
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield field.invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            yield from _exit_codes(codes, f"{where}.onExitCodes", known)
        for place, condition in field.items(rule, "onPodConditions", where):
            yield from _condition(condition, place)
        if (codes is not None) is bool(conditions):
            which = "both OnExitCodes and OnPodConditions is not supported"
            which = which if conditions else "one of OnExitCodes and OnPodConditions is required"
            yield Cause("FieldValueInvalid", f"Invalid value: specifying {which}", where)


def _exit_codes(codes: Mapping[str, Any], path: str, known: set[Any]) -> Causes:
    operator, name, values = codes.get("operator"), codes.get("containerName"), codes.get("values") or []
    if not operator:
        yield field.required(f"{path}.operator", _choices(_OPERATORS))
    elif operator not in _OPERATORS:
        yield field.unsupported(f"{path}.operator", operator, _OPERATORS)
    if name is not None and name not in known:
        detail = "must be one of the container or initContainer names in the pod template"
        yield field.invalid(f"{path}.containerName", name, detail)
    if not values:
        yield field.invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield field.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield field.duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield field.invalid(f"{path}.values", values, "must be ordered")


def _condition(condition: Mapping[str, Any], path: str) -> Causes:
    name, status = condition.get("type") or "", condition.get("status")
    yield from field.each(f"{path}.type", name, qualified_name(name))
    if not status:
        yield field.required(f"{path}.status", _choices(_STATUSES))
    elif status not in _STATUSES:
        yield field.unsupported(f"{path}.status", status, _STATUSES)


def _choices(names: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{name}"' for name in names) + "]"
