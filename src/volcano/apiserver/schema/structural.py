"""Validation against structural schemas: each schema is compiled once into nested validation functions."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.schema.validation.field import shown
from volcano.kube.api.errors import Cause
from volcano.kube.api.formats import re2_patterns
from volcano.kube.api.formats.string_formats import format_named

Schema = Mapping[str, Any]
# Returns the errors of a value; None if it is valid.
Validate = Callable[[Any], "list[FieldError] | None"]

_TYPES: Mapping[str, type] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
_NAMES: Mapping[type, str] = {
    dict: "object", list: "array", str: "string", int: "integer", float: "number", bool: "boolean",
    type(None): "null",
}  # fmt: skip
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
IMPLICIT = ("apiVersion", "kind", "metadata")


class FieldError:
    """Error of a value. Its path is assembled from the leaf upwards, so that valid values need no paths."""

    __slots__ = ("path", "reason", "text")

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        self.text = text  # `{path}` is a placeholder for the path of the value
        self.path = ""

    def prepend(self, step: str) -> "FieldError":
        self.path = step + self.path
        return self

    def cause(self) -> Cause:
        path = self.path.removeprefix(".")
        field = "<nil>" if self.reason == "Composite" else path
        reason = "FieldValueInvalid" if self.reason == "Composite" else self.reason
        return Cause(reason, self.text.replace("{path}", path), field)


@dataclass(slots=True)
class Validator:
    """Compiled schema. Every value of class `always_valid` is valid, so that `validate` need not be called."""

    validate: Validate
    always_valid: type | None = None


def compile_schema(schema: Schema, *, root: bool = False) -> Validator:
    """Compiles a schema. At the root, apiVersion, kind and metadata are left out: they are validated elsewhere."""
    if root:
        properties = {
            name: sub for name, sub in (schema.get("properties") or {}).items() if name not in IMPLICIT
        }
        required = [name for name in schema.get("required") or () if name not in IMPLICIT]
        schema = {**schema, "properties": properties, "required": required}
    expected = _python_type(schema)
    for_any_type = [validate for build in _BUILDERS if (validate := build(schema)) is not None]
    by_type = _by_type(schema)
    always_valid = expected if not for_any_type and expected not in by_type else None
    return Validator(_validate(schema, expected, for_any_type, by_type), always_valid)


def causes_of(errors: Iterable[FieldError] | None) -> list[Cause]:
    """Converts errors to the causes of a Status."""
    return [error.cause() for error in errors or ()]


def _python_type(schema: Schema) -> type | None:
    """Python type of the values of a schema, if there is just one."""
    return None if schema.get("x-kubernetes-int-or-string") else _TYPES.get(schema.get("type", ""))


def _validate(
    schema: Schema, expected: type | None, for_any_type: list[Validate], by_type: Mapping[type, Validate]
) -> Validate:
    """Validates the type, then the constraints on any value, then those on values of that type."""
    type_name = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    nullable = bool(schema.get("nullable"))
    name = _enforced_format(schema)
    enforced = bool(type_name)

    def validate(value: Any) -> list[FieldError] | None:
        kind = type(value)
        errors: list[FieldError] | None = None
        if kind is not expected and enforced and not _has_type(value, type_name, nullable):
            errors = [_wrong_type(type_name, value, name)]
        if value is None:
            return errors
        for each in for_any_type:
            if found := each(value):
                errors = found if errors is None else errors + found
        for_type = by_type.get(kind)
        if for_type is not None and (found := for_type(value)):
            errors = found if errors is None else errors + found
        return errors

    return validate


def _has_type(value: Any, type_name: str, nullable: bool) -> bool:
    if value is None:
        return nullable
    kind = type(value)
    if type_name == "number":
        return kind in (int, float)
    if type_name == "integer,string":
        return kind in (int, str)
    if type_name == "integer" and kind is float:
        return bool(value.is_integer())
    return kind is _TYPES.get(type_name)


def _enforced_format(schema: Schema) -> str:
    name = str(schema.get("format") or "")
    known = {"integer": name in _INT_RANGES, "number": name in ("float", "double")}
    return name if known.get(schema.get("type", ""), False) or format_named(name) else ""


def _wrong_type(type_name: str, value: Any, format_name: str) -> FieldError:
    """parity: where the schema has a format, the formats are reported instead of the types."""
    expected, actual = type_name, _NAMES.get(type(value), "string")
    if format_name and value is not None and not isinstance(value, str | list):
        expected = format_name
        actual = {bool: "", int: "int64", float: "float64"}.get(type(value), "")
    text = f'Invalid value: "{actual}": {{path}} in body must be of type {expected}: "{actual}"'
    return FieldError("FieldValueTypeInvalid", text)


def _invalid(value: Any, rule: str) -> list[FieldError]:
    return [FieldError("FieldValueInvalid", f"Invalid value: {_safe(value)}: {{path}} in body {rule}")]


def _safe(value: Any) -> str:
    """Formats a value for an error message, without the placeholder for the path."""
    return shown(value).replace("{path}", "{ path }")


# -- constraints on values of any type -------------------------------------------------------------------------------


def _enum(schema: Schema) -> Validate | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    choices = ", ".join(json.dumps(each if isinstance(each, str) else json.dumps(each)) for each in allowed)

    def validate(value: Any) -> list[FieldError] | None:
        for each in allowed:
            if each == value and isinstance(each, bool) == isinstance(value, bool):
                return None
        return [
            FieldError(
                "FieldValueNotSupported", f"Unsupported value: {_safe(value)}: supported values: {choices}"
            )
        ]

    return validate


def _composite(text: str) -> FieldError:
    return FieldError("Composite", f'Invalid value: "": "{{path}}" {text}')


def _any_of(schema: Schema) -> Validate | None:
    options = [compile_schema(each).validate for each in schema.get("anyOf") or ()]
    if not options:
        return None

    def validate(value: Any) -> list[FieldError] | None:
        first: list[FieldError] | None = None
        for option in options:
            found = option(value)
            if not found:
                return None
            first = first or found
        return [_composite("must validate at least one schema (anyOf)"), *(first or ())]

    return validate


def _one_of(schema: Schema) -> Validate | None:
    options = [compile_schema(each).validate for each in schema.get("oneOf") or ()]
    if not options:
        return None

    def validate(value: Any) -> list[FieldError] | None:
        failures = [found for option in options if (found := option(value))]
        valid = len(options) - len(failures)
        if valid == 1:
            return None
        if valid:
            extra = f"Found {valid} valid alternatives"
            return [_composite(f"must validate one and only one schema (oneOf). {extra}")]
        return [
            _composite("must validate one and only one schema (oneOf). Found none valid"),
            *failures[0],
        ]

    return validate


def _all_of(schema: Schema) -> Validate | None:
    options = [compile_schema(each).validate for each in schema.get("allOf") or ()]
    if not options:
        return None

    def validate(value: Any) -> list[FieldError] | None:
        failures = [found for option in options if (found := option(value))]
        if not failures:
            return None
        extra = ". None validated" if len(failures) == len(options) else ""
        return [
            *(each for found in failures for each in found),
            _composite(f"must validate all the schemas (allOf){extra}"),
        ]

    return validate


def _not(schema: Schema) -> Validate | None:
    if schema.get("not") is None:
        return None
    inner = compile_schema(schema["not"]).validate
    return lambda value: None if inner(value) else [_composite("must not validate the schema (not)")]


_BUILDERS: tuple[Callable[[Schema], Validate | None], ...] = (_enum, _any_of, _one_of, _all_of, _not)


# -- constraints on values of one type -------------------------------------------------------------------------------


def _by_type(schema: Schema) -> Mapping[type, Validate]:
    """Constraints that apply only to values of one type."""
    constraints: dict[type, Validate] = {}
    if (validate := _string(schema)) is not None:
        constraints[str] = validate
    if (validate := _number(schema)) is not None:
        constraints[int] = constraints[float] = validate
    if (validate := _array(schema)) is not None:
        constraints[list] = validate
    if (validate := _object(schema)) is not None:
        constraints[dict] = validate
    return constraints


def _string(schema: Schema) -> Validate | None:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    matches = re2_patterns.compiled(pattern).contains if pattern else None
    name = schema.get("format", "") if schema.get("type", "string") == "string" else ""
    is_valid = format_named(name) if name else None
    if longest is None and not shortest and matches is None and is_valid is None:
        return None

    def validate(value: Any) -> list[FieldError] | None:
        if longest is not None and len(value) > longest:
            return [FieldError("FieldValueTooLong", f"Too long: may not be more than {longest} bytes")]
        if shortest and len(value) < shortest:
            return _invalid(value, f"should be at least {shortest} chars long")
        if matches is not None and not matches(value):
            return _invalid(value, f"should match '{pattern}'")
        if is_valid is not None and not is_valid(value):
            text = f"Invalid value: {_safe(value)}: {{path}} in body must be of type {name}: {_safe(value)}"
            return [FieldError("FieldValueTypeInvalid", text)]
        return None

    return validate


def _number(schema: Schema) -> Validate | None:
    bounds: list[tuple[Callable[[Any], bool], str]] = []
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if step:
        bounds.append((lambda value: value % step == 0, f"should be a multiple of {_number_text(step)}"))
    if low is not None:
        if schema.get("exclusiveMinimum"):
            bounds.append((lambda value: value > low, f"should be greater than {_number_text(low)}"))
        else:
            bounds.append(
                (lambda value: value >= low, f"should be greater than or equal to {_number_text(low)}")
            )
    if high is not None:
        if schema.get("exclusiveMaximum"):
            bounds.append((lambda value: value < high, f"should be less than {_number_text(high)}"))
        else:
            bounds.append(
                (lambda value: value <= high, f"should be less than or equal to {_number_text(high)}")
            )
    size = _INT_RANGES.get(schema.get("format", "")) if schema.get("type") == "integer" else None
    if not bounds and size is None:
        return None
    text = f"Checked value must be of type integer with format {schema.get('format')} in {{path}}"

    def validate(value: Any) -> list[FieldError] | None:
        errors = []
        if size is not None and not (size[0] <= value <= size[1] and value == int(value)):
            errors.append(FieldError("Composite", f'Invalid value: "": {text}'))
        for is_satisfied, rule in bounds:
            if not is_satisfied(value):
                errors += _invalid(value, rule)
        return errors or None

    return validate


def _number_text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _array(schema: Schema) -> Validate | None:
    most, least = schema.get("maxItems"), schema.get("minItems")
    items = compile_schema(schema["items"]) if schema.get("items") is not None else None
    unique = _uniqueness(schema)
    if most is None and not least and items is None and unique is None:
        return None
    always_valid, validate_item = (items.always_valid, items.validate) if items is not None else (None, None)

    def validate(value: Any) -> list[FieldError] | None:
        errors: list[FieldError] = []
        size = len(value)
        if most is not None and size > most:
            noun = "item" if most == 1 else "items"
            text = f"Too many: {size}: must have at most {most} {noun}"
            errors.append(FieldError("FieldValueTooMany", text))
        if least and size < least:
            errors += _invalid(size, f"should have at least {least} items")
        if validate_item is not None:
            for index, item in enumerate(value):
                if type(item) is not always_valid and (found := validate_item(item)):
                    errors += [error.prepend(f"[{index}]") for error in found]
        if unique is not None:
            errors += unique(value)
        return errors or None

    return validate


def _uniqueness(schema: Schema) -> Callable[[list[Any]], list[FieldError]] | None:
    """Returns a function that finds duplicate items of lists of type set or map."""
    kind, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if kind == "set":
        return lambda value: _duplicates(value) if len(value) > 1 else []
    if kind != "map":
        return None
    properties = (schema.get("items") or {}).get("properties") or {}
    defaults = {key: (properties.get(key) or {}).get("default") for key in keys}

    def identity(item: Any) -> Any:
        named = {key: (item or {}).get(key, defaults[key]) for key in keys}
        return {key: value for key, value in named.items() if value is not None}

    def duplicates(value: list[Any]) -> list[FieldError]:
        for index, item in enumerate(value):
            if item.__class__ is not dict and item is not None:
                text = f"Invalid value: {_safe(item)}: must be an object for an array of list-type map"
                return [FieldError("FieldValueInvalid", text).prepend(f"[{index}]")]
        return _duplicates([identity(item) for item in value]) if len(value) > 1 else []

    return duplicates


def _duplicates(values: list[Any]) -> list[FieldError]:
    seen: set[str] = set()
    errors = []
    for index, value in enumerate(values):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if text in seen:
            shown_text = text.replace("{path}", "{ path }")
            errors.append(
                FieldError("FieldValueDuplicate", f"Duplicate value: {shown_text}").prepend(f"[{index}]")
            )
        seen.add(text)
    return errors


def _object(schema: Schema) -> Validate | None:
    properties = {name: compile_schema(sub) for name, sub in (schema.get("properties") or {}).items()}
    children = {name: (each.always_valid, each.validate) for name, each in properties.items()}
    extra = schema.get("additionalProperties")
    others: tuple[type | None, Validate | None] = (None, None)
    if isinstance(extra, Mapping):
        additional = compile_schema(extra)
        others = (additional.always_valid, additional.validate)
    required = tuple(schema.get("required") or ())
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if not children and others[1] is None and not required and most is None and not least and not embedded:
        return None
    find: Callable[..., tuple[type | None, Validate | None]] = children.get

    def validate(value: Any) -> list[FieldError] | None:
        errors: list[FieldError] = []
        for name, item in value.items():
            always_valid, validate_item = find(name, others)
            if (
                item.__class__ is not always_valid
                and validate_item is not None
                and (found := validate_item(item))
            ):
                errors += [error.prepend(f".{name}") for error in found]
        for name in required:
            if name not in value:
                errors.append(FieldError("FieldValueRequired", "Required value").prepend(f".{name}"))
        if most is not None and len(value) > most:
            noun = "item" if most == 1 else "items"
            text = f"Too many: {len(value)}: must have at most {most} {noun}"
            errors.append(FieldError("FieldValueTooMany", text))
        if least and len(value) < least:
            errors += _invalid(len(value), f"should have at least {least} properties")
        if embedded:
            errors += _embedded(value)
        return errors or None

    return validate


def _embedded(value: Mapping[str, Any]) -> list[FieldError]:
    """Validates that an embedded object has apiVersion and kind."""
    errors = []
    for name in ("apiVersion", "kind"):
        if not value.get(name):
            errors.append(
                FieldError("FieldValueRequired", "Required value: must not be empty").prepend(f".{name}")
            )
    return errors
