"""Rules that claims, device classes and slices share: names, selectors, opaque parameters, taints and tolerations."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.formats.names import dns_label, dns_subdomain, label_value, qualified_name
from volcano.kube.cel.program import InvalidExpression
from volcano.kube.devices.dra.selectors import (
    LONGEST_EXPRESSION,
    LONGEST_IDENTIFIER,
    MOST_COST,
    compile_selector,
)

MOST_REQUESTS = 32
MOST_SELECTORS = 32
MOST_CONFIGURATIONS = 32
LONGEST_PARAMETERS = 10 * 1024
MOST_CONDITIONS = 4
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")
_LONGEST_DRIVER = 63
_LONGEST_POOL = 253
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
Validate = Callable[[Any, str], Causes]


def items(values: Sequence[Any] | None, path: str, most: int, validate: Validate) -> Causes:
    """Validates the entries of a list of at most `most`; entries of a longer list are not looked at."""
    values = values or ()
    if 0 <= most < len(values):
        yield field.too_many(path, len(values), most)
        return
    for index, value in enumerate(values):
        yield from validate(value, f"{path}[{index}]")


def unique_items(
    values: Sequence[Any] | None, path: str, most: int, validate: Validate, key: Callable[[Any], Any]
) -> Causes:
    """Like `items`, and no two entries have the same key."""
    yield from items(values, path, most, validate)
    if values and not 0 <= most < len(values):
        yield from duplicates(map(key, values), path)


def duplicates(keys: Iterable[Any], path: str) -> Causes:
    seen: set[str] = set()
    for index, key in enumerate(keys):
        shown = json.dumps(key, sort_keys=True)
        if shown in seen:
            yield field.duplicate(f"{path}[{index}]", key)
        seen.add(shown)


def driver_name(name: str, path: str) -> Causes:
    if not name:
        yield field.required(path)
        return
    if len(name) > _LONGEST_DRIVER:
        yield field.too_long(path, _LONGEST_DRIVER)
    yield from field.each(path, name, dns_subdomain(name.lower()))


def pool_name(name: str, path: str) -> Causes:
    if not name:
        yield field.required(path)
        return
    if len(name) > _LONGEST_POOL:
        yield field.too_long(path, _LONGEST_POOL)
    for part in name.split("/"):
        yield from field.each(path, part, dns_subdomain(part))


def label(name: str, path: str) -> Causes:
    """Validates the name of a request, device or counter set."""
    yield from field.each(path, name, dns_label(name))


def label_name(name: str, path: str) -> Causes:
    yield from field.each(path, name, qualified_name(name))


def attribute_name(name: str, path: str) -> Causes:
    """Validates the name of an attribute or capacity, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from _identifier(parts[0], path)
    elif len(parts) == 2:
        if parts[0]:
            yield from driver_name(parts[0], path)
        else:
            yield field.invalid(path, "", "the domain must not be empty")
        if parts[1]:
            yield from _identifier(parts[1], path)
        else:
            yield field.invalid(path, "", "the name must not be empty")


def full_attribute_name(name: str, path: str) -> Causes:
    yield from attribute_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        yield field.invalid(path, name, detail)


def _identifier(name: str, path: str) -> Causes:
    if len(name) > LONGEST_IDENTIFIER:
        yield field.too_long(path, LONGEST_IDENTIFIER)
    if not _IDENTIFIER.fullmatch(name):
        yield field.invalid(path, name, _IDENTIFIER_RULE)


def selector(value: Mapping[str, Any], path: str) -> Causes:
    """Validates a device selector: its expression compiles and is cheap enough."""
    if (cel := value.get("cel")) is None:
        yield field.required(f"{path}.cel")
        return
    source, where = cel.get("expression") or "", f"{path}.cel.expression"
    if len(source.encode()) > LONGEST_EXPRESSION:
        yield field.too_long(where, LONGEST_EXPRESSION)
        return
    try:
        program = compile_selector(source)
    except InvalidExpression as error:
        yield field.invalid(where, source, str(error))
        return
    if program.cost.most > MOST_COST:
        yield field.forbidden(where, "too complex, exceeds cost limit")


def configuration(value: Mapping[str, Any], path: str) -> Causes:
    """Validates parameters for a driver."""
    if (opaque := value.get("opaque")) is None:
        yield field.required(f"{path}.opaque")
        return
    yield from driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    yield from raw_object(opaque.get("parameters"), f"{path}.opaque.parameters", LONGEST_PARAMETERS)


def raw_object(value: Any, path: str, longest: int) -> Causes:
    """Validates a JSON object of any content."""
    if value is None:
        yield field.required(path)
    elif len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > longest:
        yield field.too_long(path, longest)
    elif not isinstance(value, dict):
        yield field.invalid(path, "<value omitted>", "must be a valid JSON object")


def taint(value: Mapping[str, Any], path: str) -> Causes:
    key = value.get("key") or ""
    yield from label_name(key, f"{path}.key")
    if content := value.get("value"):
        yield from field.each(f"{path}.value", content, label_value(content))
    yield from field.one_of(f"{path}.effect", value.get("effect"), TAINT_EFFECTS, needed=True)


def toleration(value: Mapping[str, Any], path: str) -> Causes:
    if key := value.get("key"):
        yield from label_name(key, f"{path}.key")
    operator, content = value["operator"], value.get("value") or ""
    if operator == "Exists" and content:
        yield field.invalid(f"{path}.value", content, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from field.each(f"{path}.value", content, label_value(content))
    yield from field.one_of(f"{path}.operator", operator, _OPERATORS)
    yield from field.one_of(f"{path}.effect", value.get("effect"), TAINT_EFFECTS)


def binding_conditions(value: Mapping[str, Any], path: str) -> Causes:
    """Validates the conditions that a driver sets before a pod may be bound."""
    names = ("bindingConditions", "bindingFailureConditions")
    wanted, failures = (value.get(name) or [] for name in names)
    for name, conditions in zip(names, (wanted, failures), strict=True):
        yield from items(conditions, f"{path}.{name}", MOST_CONDITIONS, label_name)
    yield from duplicates(wanted, f"{path}.bindingConditions")
    yield from duplicates(failures, f"{path}.bindingFailureConditions")
    for index, condition in enumerate(failures):
        if condition in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield field.invalid(f"{path}.bindingFailureConditions[{index}]", condition, detail)
    if failures and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield field.invalid(f"{path}.bindingConditions", None, detail)
    if wanted and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield field.invalid(f"{path}.bindingFailureConditions", None, detail)
