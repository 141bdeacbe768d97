"""Structural schemas compiled once into closures that find what is wrong with a value."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.schema.formats import format_named
from volcano.apiserver.schema.validation.field import shown
from volcano.kube.errors import Cause

Schema = Mapping[str, Any]
# Finds what is wrong with one value; None when nothing is.
Check = Callable[[Any], "list[Problem] | None"]

_TYPES: Mapping[str, type] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
_NAMES: Mapping[type, str] = {
    dict: "object", list: "array", str: "string", int: "integer", float: "number", bool: "boolean",
    type(None): "null",
}  # fmt: skip
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
IMPLICIT = ("apiVersion", "kind", "metadata")


class Problem:
    """One finding below some value; its path is put together on the way up, and only when there is one."""

    __slots__ = ("path", "reason", "text", "value")

    def __init__(self, reason: str, text: str, value: Any = "") -> None:
        self.reason = reason
        self.text = text  # `{path}` stands for the path of the value
        self.value = value
        self.path = ""

    def under(self, step: str) -> "Problem":
        self.path = step + self.path
        return self

    def cause(self) -> Cause:
        path = self.path.removeprefix(".")
        field = "<nil>" if self.reason == "Composite" else path
        reason = "FieldValueInvalid" if self.reason == "Composite" else self.reason
        return Cause(reason, self.text.replace("{path}", path), field)


@dataclass(slots=True)
class Node:
    """What there is to check below one schema. A value whose type is `plain` needs no look at all."""

    check: Check
    plain: type | None = None


def compile_schema(schema: Schema, *, root: bool = False) -> Node:
    """The checks a schema asks for. At the root, apiVersion, kind and metadata are somebody else's to check."""
    if root:
        properties = {
            name: sub for name, sub in (schema.get("properties") or {}).items() if name not in IMPLICIT
        }
        required = [name for name in schema.get("required") or () if name not in IMPLICIT]
        schema = {**schema, "properties": properties, "required": required}
    wanted = _wanted(schema)
    checks = [check for build in _BUILDERS if (check := build(schema)) is not None]
    by_type = _by_type(schema)
    plain = wanted if wanted is not None and not checks and wanted not in by_type else None
    return Node(_checker(schema, wanted, checks, by_type), plain)


def causes_of(problems: Iterable[Problem] | None) -> list[Cause]:
    """Findings as field errors."""
    return [problem.cause() for problem in problems or ()]


def _wanted(schema: Schema) -> type | None:
    """The one Python type that values of this schema have, when there is just one."""
    return None if schema.get("x-kubernetes-int-or-string") else _TYPES.get(schema.get("type", ""))


def _checker(
    schema: Schema, wanted: type | None, checks: list[Check], by_type: Mapping[type, Check]
) -> Check:
    """Type first; then what applies to any value; then what applies to values of that type."""
    type_name = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    nullable = bool(schema.get("nullable"))
    name = _enforced_format(schema)
    enforced = bool(type_name)

    def check(value: Any) -> list[Problem] | None:
        kind = type(value)
        problems: list[Problem] | None = None
        if kind is not wanted and enforced and not _fits(value, type_name, nullable):
            problems = [_wrong_type(type_name, value, name)]
        if value is None:
            return problems
        for each in checks:
            if found := each(value):
                problems = found if problems is None else problems + found
        special = by_type.get(kind)
        if special is not None and (found := special(value)):
            problems = found if problems is None else problems + found
        return problems

    return check


def _fits(value: Any, type_name: str, nullable: bool) -> bool:
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


def _wrong_type(type_name: str, value: Any, format_name: str) -> Problem:
    """parity: where the schema has a format, it and the value's own format are named instead of the types."""
    wanted, actual = type_name, _NAMES.get(type(value), "string")
    if format_name and value is not None and not isinstance(value, str | list):
        wanted = format_name
        actual = {bool: "", int: "int64", float: "float64"}.get(type(value), "")
    text = f'Invalid value: "{actual}": {{path}} in body must be of type {wanted}: "{actual}"'
    return Problem("FieldValueTypeInvalid", text)


def _invalid(value: Any, rule: str) -> list[Problem]:
    return [Problem("FieldValueInvalid", f"Invalid value: {_safe(value)}: {{path}} in body {rule}")]


def _safe(value: Any) -> str:
    """A value as error texts show it, with nothing in it that looks like our place-holder."""
    return shown(value).replace("{path}", "{ path }")


# -- what applies to any value ---------------------------------------------------------------------------------------


def _enum(schema: Schema) -> Check | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    choices = ", ".join(json.dumps(each if isinstance(each, str) else json.dumps(each)) for each in allowed)

    def check(value: Any) -> list[Problem] | None:
        for each in allowed:
            if each == value and isinstance(each, bool) == isinstance(value, bool):
                return None
        return [
            Problem(
                "FieldValueNotSupported", f"Unsupported value: {_safe(value)}: supported values: {choices}"
            )
        ]

    return check


def _composite(text: str) -> Problem:
    return Problem("Composite", f'Invalid value: "": "{{path}}" {text}')


def _any_of(schema: Schema) -> Check | None:
    options = [compile_schema(each).check for each in schema.get("anyOf") or ()]
    if not options:
        return None

    def check(value: Any) -> list[Problem] | None:
        first: list[Problem] | None = None
        for option in options:
            found = option(value)
            if not found:
                return None
            first = first or found
        return [_composite("must validate at least one schema (anyOf)"), *(first or ())]

    return check


def _one_of(schema: Schema) -> Check | None:
    options = [compile_schema(each).check for each in schema.get("oneOf") or ()]
    if not options:
        return None

    def check(value: Any) -> list[Problem] | None:
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

    return check


def _all_of(schema: Schema) -> Check | None:
    options = [compile_schema(each).check for each in schema.get("allOf") or ()]
    if not options:
        return None

    def check(value: Any) -> list[Problem] | None:
        failures = [found for option in options if (found := option(value))]
        if not failures:
            return None
        extra = ". None validated" if len(failures) == len(options) else ""
        return [
            *(each for found in failures for each in found),
            _composite(f"must validate all the schemas (allOf){extra}"),
        ]

    return check


def _not(schema: Schema) -> Check | None:
    if schema.get("not") is None:
        return None
    inner = compile_schema(schema["not"]).check
    return lambda value: None if inner(value) else [_composite("must not validate the schema (not)")]


_BUILDERS: tuple[Callable[[Schema], Check | None], ...] = (_enum, _any_of, _one_of, _all_of, _not)


# -- what applies to values of one type ------------------------------------------------------------------------------


def _by_type(schema: Schema) -> Mapping[type, Check]:
    """The checks that only values of one type undergo."""
    checks: dict[type, Check] = {}
    if (check := _string(schema)) is not None:
        checks[str] = check
    if (check := _number(schema)) is not None:
        checks[int] = checks[float] = check
    if (check := _array(schema)) is not None:
        checks[list] = check
    if (check := _object(schema)) is not None:
        checks[dict] = check
    return checks


def _string(schema: Schema) -> Check | None:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    matches = re.compile(re2_pattern(pattern)).search if pattern else None
    name = schema.get("format", "") if schema.get("type", "string") == "string" else ""
    holds = format_named(name) if name else None
    if longest is None and not shortest and matches is None and holds is None:
        return None

    def check(value: Any) -> list[Problem] | None:
        if longest is not None and len(value) > longest:
            return [Problem("FieldValueTooLong", f"Too long: may not be more than {longest} bytes")]
        if shortest and len(value) < shortest:
            return _invalid(value, f"should be at least {shortest} chars long")
        if matches is not None and matches(value) is None:
            return _invalid(value, f"should match '{pattern}'")
        if holds is not None and not holds(value):
            text = f"Invalid value: {_safe(value)}: {{path}} in body must be of type {name}: {_safe(value)}"
            return [Problem("FieldValueTypeInvalid", text)]
        return None

    return check


def _number(schema: Schema) -> Check | None:
    bounds: list[tuple[Callable[[Any], bool], str]] = []
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if step:
        bounds.append((lambda value: value % step == 0, f"should be a multiple of {_plain(step)}"))
    if low is not None:
        if schema.get("exclusiveMinimum"):
            bounds.append((lambda value: value > low, f"should be greater than {_plain(low)}"))
        else:
            bounds.append((lambda value: value >= low, f"should be greater than or equal to {_plain(low)}"))
    if high is not None:
        if schema.get("exclusiveMaximum"):
            bounds.append((lambda value: value < high, f"should be less than {_plain(high)}"))
        else:
            bounds.append((lambda value: value <= high, f"should be less than or equal to {_plain(high)}"))
    size = _INT_RANGES.get(schema.get("format", "")) if schema.get("type") == "integer" else None
    if not bounds and size is None:
        return None
    wording = f"Checked value must be of type integer with format {schema.get('format')} in {{path}}"

    def check(value: Any) -> list[Problem] | None:
        problems = []
        if size is not None and not (size[0] <= value <= size[1] and value == int(value)):
            problems.append(Problem("Composite", f'Invalid value: "": {wording}'))
        for holds, rule in bounds:
            if not holds(value):
                problems += _invalid(value, rule)
        return problems or None

    return check


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _array(schema: Schema) -> Check | None:
    most, least = schema.get("maxItems"), schema.get("minItems")
    items = compile_schema(schema["items"]) if schema.get("items") is not None else None
    unique = _uniqueness(schema)
    if most is None and not least and items is None and unique is None:
        return None
    plain, look = (items.plain, items.check) if items is not None else (None, None)

    def check(value: Any) -> list[Problem] | None:
        problems: list[Problem] = []
        size = len(value)
        if most is not None and size > most:
            noun = "item" if most == 1 else "items"
            text = f"Too many: {size}: must have at most {most} {noun}"
            problems.append(Problem("FieldValueTooMany", text))
        if least and size < least:
            problems += _invalid(size, f"should have at least {least} items")
        if look is not None:
            for index, item in enumerate(value):
                if type(item) is not plain and (found := look(item)):
                    problems += [problem.under(f"[{index}]") for problem in found]
        if unique is not None:
            problems += unique(value)
        return problems or None

    return check


def _uniqueness(schema: Schema) -> Callable[[list[Any]], list[Problem]] | None:
    """Finds items that lists of type set or map may hold only once."""
    kind, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if kind == "set":
        return lambda value: _repeated(value) if len(value) > 1 else []
    if kind != "map":
        return None
    properties = (schema.get("items") or {}).get("properties") or {}
    defaults = {key: (properties.get(key) or {}).get("default") for key in keys}

    def identity(item: Any) -> Any:
        named = {key: (item or {}).get(key, defaults[key]) for key in keys}
        return {key: value for key, value in named.items() if value is not None}

    def duplicates(value: list[Any]) -> list[Problem]:
        for index, item in enumerate(value):
            if item.__class__ is not dict and item is not None:
                text = f"Invalid value: {_safe(item)}: must be an object for an array of list-type map"
                return [Problem("FieldValueInvalid", text).under(f"[{index}]")]
        return _repeated([identity(item) for item in value]) if len(value) > 1 else []

    return duplicates


def _repeated(values: list[Any]) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for index, value in enumerate(values):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if text in seen:
            shown_text = text.replace("{path}", "{ path }")
            problems.append(
                Problem("FieldValueDuplicate", f"Duplicate value: {shown_text}").under(f"[{index}]")
            )
        seen.add(text)
    return problems


def _object(schema: Schema) -> Check | None:
    nodes = {name: compile_schema(sub) for name, sub in (schema.get("properties") or {}).items()}
    children = {name: (node.plain, node.check) for name, node in nodes.items()}
    extra = schema.get("additionalProperties")
    others: tuple[type | None, Check | None] = (None, None)
    if isinstance(extra, Mapping):
        node = compile_schema(extra)
        others = (node.plain, node.check)
    required = tuple(schema.get("required") or ())
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if not children and others[1] is None and not required and most is None and not least and not embedded:
        return None
    find: Callable[..., tuple[type | None, Check | None]] = children.get

    def check(value: Any) -> list[Problem] | None:
        problems: list[Problem] = []
        for name, item in value.items():
            plain, look = find(name, others)
            if item.__class__ is not plain and look is not None and (found := look(item)):
                problems += [problem.under(f".{name}") for problem in found]
        for name in required:
            if name not in value:
                problems.append(Problem("FieldValueRequired", "Required value").under(f".{name}"))
        if most is not None and len(value) > most:
            noun = "item" if most == 1 else "items"
            text = f"Too many: {len(value)}: must have at most {most} {noun}"
            problems.append(Problem("FieldValueTooMany", text))
        if least and len(value) < least:
            problems += _invalid(len(value), f"should have at least {least} properties")
        if embedded:
            problems += _embedded(value)
        return problems or None

    return check


def _embedded(value: Mapping[str, Any]) -> list[Problem]:
    """An embedded object names its version and kind."""
    problems = []
    for name in ("apiVersion", "kind"):
        if not value.get(name):
            problems.append(
                Problem("FieldValueRequired", "Required value: must not be empty").under(f".{name}")
            )
    return problems


def re2_pattern(pattern: str) -> str:
    """A pattern in RE2's syntax as Python's: `$` means the very end, and POSIX classes are spelled out."""
    text = re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\Z", _outside_classes(pattern))
    return (
        text.replace("(?s:", "(?s:").replace(r"\z", r"\Z").replace(r"\pL", r"[^\W\d_]").replace(r"\pN", r"\d")
    )


_POSIX = {
    "[:alnum:]": "0-9A-Za-z", "[:alpha:]": "A-Za-z", "[:digit:]": "0-9", "[:lower:]": "a-z", "[:upper:]": "A-Z",
    "[:space:]": r"\t\n\v\f\r ", "[:word:]": "0-9A-Za-z_", "[:xdigit:]": "0-9A-Fa-f", "[:punct:]": "!-/:-@[-`{-~",
}  # fmt: skip


def _outside_classes(pattern: str) -> str:
    for name, characters in _POSIX.items():
        pattern = pattern.replace(name, characters)
    # A dollar inside a character class is just a dollar.
    return re.sub(r"\[(?:\\.|[^\]\\])+\]", lambda found: found[0].replace("$", r"\x24"), pattern)
