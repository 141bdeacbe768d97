"""Kubernetes' built-in types: fields, protobuf numbers, merge keys and defaults, from a generated data file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from volcano.base.clock import parse_timestamp
from volcano.kube.api import duration, quantity
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

DATA = Path(__file__).parents[1] / "data" / "type_info.json"
# Bits of a field's boolean properties in the data file.
FLAGS = {"pointer": 1, "omit_empty": 2, "omit_zero": 4, "inline": 8, "required": 16, "atomic": 32}
SCALARS = frozenset({"string", "int32", "int64", "bool", "double", "bytes"})
# Types whose JSON is not an object with their fields.
SPECIAL = frozenset(
    {
        "Quantity",
        "IntOrString",
        "Time",
        "MicroTime",
        "Duration",
        "RawExtension",
        "FieldsV1",
        "JSON",
        "ExtraValue",
        "SchemaOrList",
        "SchemaOrBool",
        "SchemaOrStrings",
    }
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type. `number` is 0 for fields that protobuf does not carry (apiVersion, kind)."""

    json: str
    number: int
    type: str
    container: str = ""  # "", "list" or "map"
    list_type: str = ""  # "", "atomic", "set" or "map"
    keys: tuple[str, ...] = ()  # of a list of type map
    merge_key: str = ""  # of strategic merge patches
    strategies: tuple[str, ...] = ()  # merge, replace, retainKeys
    required: bool = False
    atomic: bool = False  # a map or struct that is owned as a whole
    default: Any = None
    enum: tuple[str, ...] = ()
    pointer: bool = False  # in Go: whether "absent" and "zero" differ
    omit_empty: bool = False
    omit_zero: bool = False
    inline: bool = False  # its fields are serialized as if they were its parent's
    go: str = ""  # Go's name of the type, for error texts
    via: str = ""  # the inlined struct it comes from, for Go's error texts

    @property
    def is_object(self) -> bool:
        """Whether the value (or each element) is an object described by a named type."""
        return self.type not in SCALARS and self.type not in SPECIAL


@dataclass(frozen=True, slots=True)
class Type:
    """A struct: its fields by JSON name, those of inlined structs included, and by protobuf number."""

    name: str
    fields: Mapping[str, Field]
    by_number: Mapping[int, Field]
    atomic: bool = False
    inlined: tuple[Field, ...] = field(default=())

    @property
    def short_name(self) -> str:
        """`PodSpec` of `core.v1.PodSpec`."""
        return self.name.rpartition(".")[2]


@cache
def _data() -> Any:
    return orjson.loads(DATA.read_bytes())


def version() -> str:
    """The Kubernetes version that the data file was generated from."""
    text: str = _data()["version"]
    return text


def type_of(kind: Kind) -> Type | None:
    """The type of a built-in kind; None for kinds that CRDs define."""
    return type_named(kind.api_version, kind.kind)


@cache
def type_named(api_version: str, kind: str) -> Type | None:
    """The built-in type of a manifest's apiVersion and kind, if any."""
    found = _data()["kinds"].get(f"{api_version} {kind}")
    if found is None and kind in (
        "DeleteOptions",
        "CreateOptions",
        "UpdateOptions",
        "PatchOptions",
        "WatchEvent",
    ):
        found = f"meta.v1.{kind}"  # served in every group
    return named(found) if found else None


@cache
def named(name: str) -> Type:
    """The type of that name, such as `core.v1.PodSpec`. Raises KeyError when it is not known."""
    atomic, rows = _data()["types"][name]
    own = [_field(*row) for row in rows]
    fields: dict[str, Field] = {}
    for each in own:
        if not each.inline:
            fields[each.json] = each
            continue
        inner = named(each.type)
        fields |= {key: replace(about, via=inner.short_name) for key, about in inner.fields.items()}
    by_number = {each.number: each for each in own if each.number}
    return Type(name, fields, by_number, bool(atomic), tuple(each for each in own if each.inline))


def _field(
    json: str, number: int, type_name: str, container: str, bits: int, extras: Mapping[str, Any] = {}
) -> Field:
    flags: dict[str, Any] = {flag: bool(bits & bit) for flag, bit in FLAGS.items()}
    return Field(
        json,
        number,
        type_name,
        container,
        list_type=extras.get("l", ""),
        keys=tuple(extras.get("k", ())),
        merge_key=extras.get("m", ""),
        strategies=tuple(extras.get("s", ())),
        default=extras.get("d"),
        enum=tuple(extras.get("e", ())),
        go=extras.get("g", "") or go_type(type_name, container),
        **flags,
    )


_GO_NAMES = {
    "double": "float64",
    "bytes": "[]uint8",
    "Quantity": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "RawExtension": "runtime.RawExtension",
    "SchemaOrList": "v1.JSONSchemaPropsOrArray",
    "SchemaOrBool": "v1.JSONSchemaPropsOrBool",
    "SchemaOrStrings": "v1.JSONSchemaPropsOrStringArray",
}


def go_type(type_name: str, container: str) -> str:
    """Returns Go's name of a type, unless it has a name of its own: `[]v1.Container`, `map[string]string`."""
    if type_name in SPECIAL:
        single = _GO_NAMES.get(type_name, f"v1.{type_name}")
    elif type_name in SCALARS:
        single = _GO_NAMES.get(type_name, type_name)
    else:
        single = ".".join(type_name.split(".")[-2:])
    return {"": single, "list": f"[]{single}", "map": f"map[string]{single}"}[container]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Unknown fields and values of the wrong type that a server finds when it decodes a manifest."""

    unknown: list[str]
    wrong: list[str]


def inspect(type_: Type, manifest: Any) -> Inspection:
    """Compares a manifest with its type in one pass; the texts are those of a real server, in document order."""
    walk = _Inspector()
    walk.value(Field("", 0, type_.name, go=go_type(type_.name, "")), manifest, None, None)
    return Inspection(walk.unknown, walk.wrong)


def unknown_fields(type_: Type, manifest: Manifest) -> list[str]:
    """Returns `unknown field "spec.containers[0].foo"` for every field the type does not have."""
    return inspect(type_, manifest).unknown


def type_errors(type_: Type, manifest: Manifest) -> list[str]:
    """Returns the errors of a real server's JSON decoder about values of the wrong type; it answers with the
    first."""
    return inspect(type_, manifest).wrong


def prune(type_: Type, manifest: Manifest) -> None:
    """Removes the fields the type does not have, in place."""
    for key in [key for key in manifest if key not in type_.fields]:
        del manifest[key]
    for key, value in manifest.items():
        about = type_.fields[key]
        if about.type in SCALARS or value is None:
            continue
        for each in _objects(about, value):
            prune(named(_SCHEMAS.get(about.type, about.type)), each)


# The apiextensions types that are a schema or an alternative to one.
_SCHEMAS = dict.fromkeys(
    ("SchemaOrList", "SchemaOrBool", "SchemaOrStrings"), "apiextensions.v1.JSONSchemaProps"
)


def _objects(about: Field, value: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects of a named type (or schemas) in a field, alone or in a list or map."""
    if not about.is_object and about.type not in _SCHEMAS:
        return
    if about.container == "map" and isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, dict):
            yield each


class _MapKey(str):
    """A key of a map, which Go's error texts omit."""

    __slots__ = ()


class _Embedded(str):
    """The name of an inlined struct, which only Go's error texts contain."""

    __slots__ = ()


# A path is a linked list of keys and indices, formatted only for an error text.
_Path = tuple[Any, str | int] | None
_PYTHON: dict[str, type] = {"string": str, "bool": bool}
_INTEGERS = {"int32": 2**31, "int64": 2**63}


class _Inspector:
    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def value(self, about: Field, value: Any, path: _Path, owner: Type | None) -> None:
        """Inspects one value that is not null, of a field (or an element of one) of `owner`."""
        kind = about.type
        expected = _PYTHON.get(kind)
        if expected is not None:
            if value.__class__ is not expected:
                self._mismatch(about, value, path, owner)
        elif kind in _INTEGERS:
            if value.__class__ is not int or not -_INTEGERS[kind] <= value < _INTEGERS[kind]:
                self._mismatch(about, value, path, owner)
        elif kind in SPECIAL or kind in ("double", "bytes"):
            self._special(about, value, path, owner)
        elif value.__class__ is dict:
            self.fields(named(kind), value, path)
        else:
            self._mismatch(about, value, path, owner)

    def fields(self, type_: Type, manifest: dict[str, Any], path: _Path) -> None:
        known = type_.fields
        for key, value in manifest.items():
            about = known.get(key)
            if about is None:
                self.unknown.append(f'unknown field "{_dotted((path, key))}"')
            elif value is None:
                pass
            elif about.container == "":
                before = (path, _Embedded(about.via)) if about.via else path
                self.value(about, value, (before, key), type_)
            elif about.container == "list" and value.__class__ is list:
                for index, each in enumerate(value):
                    if each is not None:
                        self.value(about, each, ((path, key), index), type_)
            elif about.container == "map" and value.__class__ is dict:
                for name, each in value.items():
                    if each is not None:
                        self.value(about, each, ((path, key), _MapKey(name)), type_)
            else:
                self._mismatch(about, value, (path, key), type_, whole=True)

    def _special(self, about: Field, value: Any, path: _Path, owner: Type | None) -> None:
        kind = about.type
        if kind in _SCHEMAS and isinstance(value, (dict, list)):
            unknown = len(self.unknown)
            for index, each in enumerate(value if isinstance(value, list) else ()):
                if isinstance(each, dict):
                    self.fields(named(_SCHEMAS[kind]), each, (path, index))
            if isinstance(value, dict):
                self.fields(named(_SCHEMAS[kind]), value, path)
            del self.unknown[unknown:]  # parity: a real server decodes these leniently
        elif kind == "SchemaOrBool" and not isinstance(value, bool):
            self.wrong.append("boolean or JSON schema expected")
        elif kind in _JSON_TYPES and value.__class__ not in _JSON_TYPES[kind]:
            if kind == "Quantity":
                self.wrong.append(_UNPARSABLE[kind])
            else:
                self._mismatch(about, value, path, owner, element=_DECODED_AS.get(kind, ""))
        elif kind in _PARSERS:
            self._parse(kind, value)
        elif kind == "ExtraValue":
            for each in value:
                if not isinstance(each, str):
                    self._mismatch(about, each, path, owner, element="string")

    def _parse(self, kind: str, value: Any) -> None:
        try:
            _PARSERS[kind](value)
        except ValueError as error:
            self.wrong.append(_UNPARSABLE[kind].format(value) if kind in _UNPARSABLE else str(error))

    def _mismatch(
        self,
        about: Field,
        value: Any,
        path: _Path,
        owner: Type | None,
        *,
        whole: bool = False,
        element: str = "",
    ) -> None:
        go = element or (about.go if whole or not about.container else go_element(about))
        where = f"struct field {owner.short_name}.{_dotted(path, indices=False)}" if owner else "value"
        self.wrong.append(f"json: cannot unmarshal {_json_name(value, go)} into Go {where} of type {go}")


def go_element(about: Field) -> str:
    """Go's name of the type of one element of a list or map."""
    return about.go.split("]", 1)[1] if "]" in about.go else go_type(about.type, "")


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "double": (int, float),
    "bytes": (str,),
    "Quantity": (str, int, float),
    "IntOrString": (str, int),
    "Time": (str,),
    "MicroTime": (str,),
    "Duration": (str,),
    "ExtraValue": (list,),
    "RawExtension": (dict, list, str, int, float, bool),  # kept as text; validation says more
}
# The types that Go decodes these as first, and so names in error texts.
_DECODED_AS = {"Time": "string", "MicroTime": "string", "Duration": "string", "IntOrString": "int32"}


def _check_base64(text: str) -> None:
    body = text.replace("\r", "").replace("\n", "")
    wrong = re.search(r"[^A-Za-z0-9+/=]|=(?=[^=])", body)
    if wrong or len(body) % 4 or len(body) - len(body.rstrip("=")) > 2:
        raise ValueError(
            f"illegal base64 data at input byte {wrong.start() if wrong else len(body) // 4 * 4}"
        )


_PARSERS: Mapping[str, Any] = {
    "bytes": _check_base64,
    "Quantity": quantity.read,
    "Time": parse_timestamp,
    "MicroTime": parse_timestamp,
    "Duration": duration.parse_nanoseconds,
}
_UNPARSABLE = {
    "Quantity": "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "Time": 'parsing time "{0}" as "2006-01-02T15:04:05Z07:00": cannot parse "{0}" as "2006"',
    "MicroTime": 'parsing time "{0}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{0}" as "2006"',
    "Duration": 'time: invalid duration "{0}"',
}


def _dotted(path: _Path, *, indices: bool = True) -> str:
    """Formats `spec.containers[0].image`, or without indices and map keys as in Go's errors."""
    keys: list[str | int] = []
    while path is not None:
        path, key = path
        keys.append(key)
    text = ""
    for each in reversed(keys):
        if isinstance(each, int):
            text += f"[{each}]" if indices else ""
        elif indices or not isinstance(each, _MapKey):
            if indices and isinstance(each, _Embedded):
                continue
            text += f".{each}" if text else each
    return text


def _json_name(value: Any, go: str) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case int() | float() if go in ("int32", "int64"):
            return f"number {value}"
    return "number"
