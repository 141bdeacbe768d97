"""CEL types of the values of a structural schema, with the sizes that bound the cost of expressions."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from volcano.kube.cel import types
from volcano.kube.cel.errors import EvaluationError
from volcano.kube.cel.types import Type
from volcano.kube.cel.values import Duration, MapList, SetList, Timestamp

Schema = Mapping[str, Any]
# Converts a JSON value to a value of CEL.
Convert = Callable[[Any], Any]

_LARGEST_REQUEST = 3 * 1024 * 1024
# Sizes of the JSON text of values: the least, and the most for formats.
_MIN_STRING, _MIN_DURATION, _DATE, _MIN_DATE_TIME, _MAX_TIME = 2, 3, 12, 21, 32
_SCALARS = {"boolean": (types.BOOL, 4), "number": (types.DOUBLE, 1), "integer": (types.INT, 1)}
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_RESERVED = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-/")
_LATER = _FIRST | frozenset("0123456789")


@dataclass(slots=True)
class Declaration:
    """Type of a value and the bounds of its size. `convert` is None where JSON values are values of CEL."""

    type: Type
    max_elements: int = 0
    min_size: int = 0
    key: "Declaration | None" = None
    element: "Declaration | None" = None
    fields: "dict[str, Field]" = field(default_factory=dict)
    convert: Convert | None = None

    def at(self, path: tuple[str, ...]) -> "Declaration | None":
        """Declaration of a value below this one."""
        found: Declaration | None = self
        for step in path:
            if found is None:
                return None
            if step in ("@items", "@values"):
                found = found.element
            elif step == "@keys":
                found = found.key
            else:
                inner = found.fields.get(step)
                found = inner.declaration if inner is not None else None
        return found

    @property
    def max_cardinality(self) -> int:
        """Number of values of this type that fit into one request."""
        return _LARGEST_REQUEST // (self.min_size + 1)


@dataclass(frozen=True, slots=True)
class Field:
    """A property, by the name it has in JSON."""

    name: str
    declaration: Declaration


DYN = Declaration(types.DYN)


def declare(schema: Schema, *, root: bool = False, name: str = "object") -> Declaration | None:
    """Declaration of the values of a schema; None if expressions cannot use them. At the root of a resource
    apiVersion, kind, metadata.name and metadata.generateName are declared."""
    if schema.get("x-kubernetes-int-or-string"):
        return Declaration(types.DYN, _string_length(schema), 1)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            extra = schema.get("additionalProperties")
            if isinstance(extra, Mapping) and not root:
                return _map(schema, extra, name)
            return _object(schema, root, name)
        case "string":
            return _string(schema)
        case kind:
            known = _SCALARS.get(str(kind))
            if known is None:
                return None
            convert = float if kind == "number" else _integer if kind == "integer" else None
            return Declaration(known[0], 0, known[1], convert=convert)


def _integer(value: Any) -> Any:
    return int(value) if value.__class__ is float else value


def _nested(schema: Any, name: str) -> Declaration | None:
    if not isinstance(schema, Mapping):
        return None
    return declare(schema, root=bool(schema.get("x-kubernetes-embedded-resource")), name=name)


def _list(schema: Schema, name: str) -> Declaration | None:
    element = _nested(schema.get("items"), f"{name}.@idx")
    if element is None:
        return None
    most = schema.get("maxItems")
    bound = max(most, 0) if isinstance(most, int) else (_LARGEST_REQUEST - 2) // (element.min_size + 1)
    convert = _list_converter(schema, element.convert)
    return Declaration(types.list_of(element.type), bound, 2, element=element, convert=convert)


def _list_converter(schema: Schema, item: Convert | None) -> Convert | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return lambda value: SetList(map(item, value) if item else value)
    if kind == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        return lambda value: MapList(list(map(item, value)) if item else value, keys)
    return None if item is None else lambda value: [item(each) for each in value]


def _map(schema: Schema, extra: Schema, name: str) -> Declaration | None:
    element = _nested(extra, f"{name}.@elem")
    if element is None:
        return None
    most = schema.get("maxProperties")
    bound = max(most, 0) if isinstance(most, int) else (_LARGEST_REQUEST - 2) // (element.min_size + 6)
    item = element.convert
    convert = None if item is None else lambda value: {key: item(each) for key, each in value.items()}
    key = Declaration(types.STRING, 0, _MIN_STRING)
    return Declaration(
        types.map_of(types.STRING, element.type), bound, 2, key=key, element=element, convert=convert
    )


_STRING_SCHEMA: Schema = {"type": "string"}
_META: Schema = {
    "type": "object",
    "properties": {"name": _STRING_SCHEMA, "generateName": _STRING_SCHEMA},
}


def _object(schema: Schema, root: bool, name: str) -> Declaration:
    properties = dict(schema.get("properties") or {})
    if root:
        properties |= {"apiVersion": _STRING_SCHEMA, "kind": _STRING_SCHEMA, "metadata": _META}
    required = frozenset(schema.get("required") or ())
    declared: dict[str, Field] = {}
    size = 2
    for key, sub in properties.items():
        inner = _nested(sub, f"{name}.{key}")
        if inner is None:
            continue
        if (escaped := escape(key)) is not None:
            declared[escaped] = Field(key, inner)
        if key in required and sub.get("default") is None:
            size += len(key) + inner.min_size + 4
    type_ = Type(name, (), declared)
    return Declaration(type_, 0, size, fields=declared)


def _string(schema: Schema) -> Declaration:
    match schema.get("format"):
        case "byte":
            longest = schema.get("maxLength")
            bound = max(longest, 0) if isinstance(longest, int) else _LARGEST_REQUEST - 2
            return Declaration(types.BYTES, bound, _MIN_STRING, convert=_bytes)
        case "duration":
            return Declaration(types.DURATION, _MAX_TIME, _MIN_DURATION, convert=_parsed(Duration.parse))
        case "date":
            return Declaration(
                types.TIMESTAMP,
                _DATE,
                _DATE,
                convert=_parsed(lambda text: Timestamp.parse(f"{text}T00:00:00Z")),
            )
        case "date-time":
            return Declaration(types.TIMESTAMP, _MAX_TIME, _MIN_DATE_TIME, convert=_parsed(Timestamp.parse))
    return Declaration(types.STRING, _string_length(schema), _MIN_STRING)


def _string_length(schema: Schema) -> int:
    """Most bytes of a string: `maxLength` counts code points, each of up to four bytes."""
    longest = schema.get("maxLength")
    if isinstance(longest, int):
        return max(longest, 0) * 4
    if schema.get("enum") and not schema.get("x-kubernetes-int-or-string"):
        return max(
            (len(each.encode("utf-8", "replace")) for each in schema["enum"] if isinstance(each, str)),
            default=0,
        )
    return _LARGEST_REQUEST - 2


def _parsed(parse: Convert) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise EvaluationError(str(error)) from None

    return convert


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(f"invalid base64: {error}") from None


def escape(name: str) -> str | None:
    """The name of a property in expressions; None if expressions cannot use it."""
    if name in _RESERVED:
        return f"__{name}__"
    if not name or name[0] not in _FIRST or not _LATER.issuperset(name):
        return None
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name
