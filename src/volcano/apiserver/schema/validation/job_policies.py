"""Validation of the policies and the per-index settings of batch/v1 Jobs."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import domain_prefixed_path
from volcano.kube.api.errors import Cause
from volcano.kube.api.formats.names import qualified_name

_MAX_PARALLELISM = 100_000
# Completions above which a limit per index needs further limits, and these.
_MANY_COMPLETIONS, _MAX_OF_MANY = 100_000, 10_000
_LONGEST_MANAGER = 63
_MOST_RULES, _MOST_CODES = 20, 255
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
        if per_index is not None and completions is not None and completions > _MANY_COMPLETIONS:
            yield from _many_completions(spec, path)
    elif spec.get("completionMode") in (None, "", "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield field.invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")


def _many_completions(spec: Mapping[str, Any], path: str) -> Causes:
    """Limits that keep the status of a job with a limit per index small."""
    if spec.get("maxFailedIndexes") is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        yield field.required(f"{path}.maxFailedIndexes", detail)
    for name in ("parallelism", "maxFailedIndexes"):
        if (spec.get(name) or 0) > _MAX_OF_MANY:
            detail = (
                f"must be less than or equal to {_MAX_OF_MANY} when completions are above {_MANY_COMPLETIONS}"
            )
            yield field.invalid(
                f"{path}.{name}", spec[name], f"{detail} and used with backoff limit per index"
            )


def managed_by(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates the name of another controller."""
    name = spec.get("managedBy")
    if name is None:
        return
    yield from domain_prefixed_path(f"{path}.managedBy", name)
    if len(name) > _LONGEST_MANAGER:
        yield field.too_long(f"{path}.managedBy", _LONGEST_MANAGER)


def success_policy(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates successPolicy."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        yield field.invalid(path, policy, "requires indexed completion mode")
        return
    rules, completions = policy.get("rules") or (), spec.get("completions") or 0
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield field.required(f"{path}.rules", detail)
    if len(rules) > _MOST_RULES:
        yield field.too_many(f"{path}.rules", len(rules), _MOST_RULES)
    for where, rule in field.items(policy, "rules", path):
        yield from _success_rule(rule, where, completions)


def _success_rule(rule: Mapping[str, Any], path: str, completions: int) -> Causes:
    count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and text is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        yield field.required(path, detail)
    indexes: int | None = None
    if text is not None:
        try:
            indexes = _count_indexes(text, completions)
        except ValueError as error:
            detail = f"error parsing succeededIndexes: {error}"
            yield field.invalid(f"{path}.succeededIndexes", text, detail)
    if count is None:
        return
    where = f"{path}.succeededCount"
    yield from field.not_negative(where, count)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield field.invalid(where, count, detail)
    if indexes is not None and count > indexes:
        among = "the number of indexes in the specified succeededIndexes field"
        detail = f"must be less than or equal to {indexes} ({among})"
        yield field.invalid(where, count, detail)


def _count_indexes(text: str, completions: int) -> int:
    """The number of indexes in a text such as `0,2-4`. Raises ValueError with Kubernetes' message."""
    previous, total = -1, 0
    for part in filter(None, text.split(",")):
        ends = part.split("-")
        if len(ends) > 2:
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts '
                "separated by '-'"
            )
        first = -1
        for end in ends:
            if not end.isascii() or not end.isdigit():
                raise ValueError(f'cannot convert string to integer for index: "{end}"')
            if int(end) >= completions:
                raise ValueError(f'too large index: "{end}"')
            if int(end) <= previous:
                raise ValueError(f"non-increasing order, previous: {previous}, current: {int(end)}")
            first, previous = (int(end) if first < 0 else first), int(end)
        total += previous - first + 1
    return total


def failure_policy(spec: Mapping[str, Any], path: str) -> Causes:
    """Validates podFailurePolicy."""
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {one.get("name") for one in (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))}
    given = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    if len(given) > _MOST_RULES:
        yield field.too_many(f"{path}.rules", len(given), _MOST_RULES)
    for where, rule in field.items(spec.get("podFailurePolicy") or {}, "rules", path):
        action = rule.get("action")
        if not action:
            yield field.required(f"{where}.action", _choices(_ACTIONS))
        elif action not in _ACTIONS:
            yield field.unsupported(f"{where}.action", action, _ACTIONS)
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield field.invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if len(conditions or ()) > _MOST_RULES:
            yield field.too_many(f"{where}.onPodConditions", len(conditions), _MOST_RULES)
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
    if len(values) > _MOST_CODES:
        yield field.too_many(f"{path}.values", len(values), _MOST_CODES)
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
