"""Merge types: which values are atomic, which are merged field by field, which lists by key; from `type_info`
or a CRD."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

import orjson

from volcano.kube.api import type_info
from volcano.kube.api.type_info import Field
from volcano.kube.patches.fieldset import field_element, key_element, value_element


class MergeKind(Enum):
    """How a value is merged and owned."""

    ATOMIC = "a scalar, or an atomic object or list"
    MAP = "an object or a map, field by field"
    ASSOCIATIVE = "a list whose elements are identified by keys"
    SET = "a list whose elements are their own keys"
    DEDUCED = "objects field by field, other values atomic"


class MergeType:
    """How one value is merged and owned. Fields of an object are loaded on first use, since types may be
    recursive."""

    __slots__ = ("_fields", "_load", "_only_key", "_prefix", "atomic", "closed", "element", "keys", "kind")

    def __init__(
        self,
        kind: MergeKind,
        *,
        element: "MergeType | None" = None,
        keys: tuple[tuple[str, Any], ...] = (),
        load: "Callable[[], Mapping[str, StructField]] | None" = None,
        closed: bool = False,
    ) -> None:
        self.kind = kind
        self.atomic = kind is MergeKind.ATOMIC
        self.element = element  # of lists, and of map entries that are no named field
        self.keys = keys  # names of the keys and their defaults
        self.closed = closed  # whether other fields than the named ones are an error
        self._only_key = keys[0][0] if len(keys) == 1 else ""
        self._prefix = f'k:{{"{self._only_key}":'
        self._load = load
        self._fields: Mapping[str, StructField] | None = None

    @property
    def fields(self) -> "Mapping[str, StructField]":
        if self._fields is None:
            self._fields = self._load() if self._load else {}
        return self._fields

    def child(self, key: str) -> "MergeType | None":
        """The merge type of a field or map entry; None when the object may not have it."""
        member = self.fields.get(key)
        return member.type if member else self.element

    def path_element(self, element: Any) -> str:
        """The path element of a list element. Raises ValueError when it lacks a key."""
        if self.kind is MergeKind.SET:
            return value_element(element)
        if not isinstance(element, dict):
            raise ValueError("associative list with keys may not have non-map elements")
        if self._only_key:
            value = element.get(self._only_key)
            if value.__class__ is str:  # by far the most frequent case
                return f"{self._prefix}{orjson.dumps(value).decode()}}}"
        keys = {}
        for name, default in self.keys:
            value = element.get(name, default)
            if value is None:
                raise ValueError(
                    f'associative list with keys has an element that omits key field "{name}" '
                    "(and doesn't have default value)"
                )
            keys[name] = value
        return key_element(keys)


@dataclass(frozen=True, slots=True)
class StructField:
    """A named field: its merge type, and how a typed server serializes it when it is empty."""

    type: MergeType
    path_element: str
    always_present: bool = False  # serialized even when never written, so its presence is no change
    omit_empty: bool = False  # not serialized when it is empty


@dataclass(frozen=True, slots=True)
class Schema:
    """The merge type of a kind's objects, and the top-level fields that writes to the object itself do not
    own."""

    type: MergeType
    ignored: frozenset[str] = field(default=frozenset())


ATOMIC = MergeType(MergeKind.ATOMIC)
DEDUCED = MergeType(MergeKind.DEDUCED)
_STATUS = frozenset({"status"})


@cache
def built_in(api_version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind; None for other kinds."""
    type_ = type_info.type_named(api_version, kind)
    if type_ is None:
        return None
    return Schema(_of_type(type_.name), _STATUS if "status" in type_.fields else frozenset())


def custom(schema: Mapping[str, Any], *, status: bool) -> Schema:
    """The schema of a CRD's version, given its OpenAPI schema and whether it has a status subresource."""
    root = _of_openapi(schema)

    def fields() -> Mapping[str, StructField]:
        named = dict(root.fields)
        metadata = type_info.named("core.v1.Pod").fields["metadata"]
        named["metadata"] = StructField(_of_type(metadata.type), field_element("metadata"))
        for key in ("apiVersion", "kind"):
            named[key] = StructField(ATOMIC, field_element(key))
        return named

    type_ = MergeType(MergeKind.MAP, element=root.element, load=fields, closed=root.closed)
    return Schema(type_, _STATUS if status else frozenset())


@cache
def _of_type(name: str) -> MergeType:
    type_ = type_info.named(name)
    if type_.atomic:
        return ATOMIC
    return MergeType(
        MergeKind.MAP,
        load=lambda: {key: _of_field(about) for key, about in type_info.named(name).fields.items()},
        closed=True,
    )


def _of_field(about: Field) -> StructField:
    element = _of_type(about.type) if about.is_object else _SPECIAL.get(about.type, ATOMIC)
    always_present = not about.pointer and (about.is_object if not about.container else not about.omit_empty)
    omit_empty = about.omit_empty and bool(about.container)
    return StructField(_contained(about, element), field_element(about.json), always_present, omit_empty)


def _contained(about: Field, element: MergeType) -> MergeType:
    if about.atomic:
        return ATOMIC
    match about.container, about.list_type:
        case "list", "set":
            return MergeType(MergeKind.SET, element=ATOMIC)
        case "list", "map":
            known = type_info.named(about.type).fields
            keys = _keys(about.keys, lambda key: _key_default(known[key]))
            return MergeType(MergeKind.ASSOCIATIVE, element=element, keys=keys)
        case "list", _:
            return ATOMIC
        case "map", _:
            return MergeType(MergeKind.MAP, element=element)
    return element


def _key_default(about: Field) -> Any:
    """The value of a key that is not set: its default, or the zero value that Go serializes."""
    if about.default is not None or about.pointer or about.omit_empty:
        return about.default
    return {"string": "", "int32": 0, "int64": 0}.get(about.type)


# Free-form values inside built-in types.
_SPECIAL = {"RawExtension": DEDUCED, "FieldsV1": DEDUCED, "JSON": DEDUCED}


def _keys(names: Iterable[str], default: Callable[[str], Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, default(name)) for name in sorted(names))


def _of_openapi(schema: Mapping[str, Any]) -> MergeType:
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if schema.get("x-kubernetes-map-type") == "atomic" or kind not in ("object", None):
        return ATOMIC
    preserved = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    if not properties and not additional:
        return DEDUCED if kind == "object" or preserved else ATOMIC
    element = (
        _of_openapi(additional)
        if isinstance(additional, Mapping)
        else DEDUCED
        if preserved or additional
        else None
    )
    return MergeType(
        MergeKind.MAP,
        element=element,
        load=lambda: {
            key: StructField(_of_openapi(about), field_element(key))
            for key, about in (properties or {}).items()
        },
        closed=element is None,
    )


def _array(schema: Mapping[str, Any]) -> MergeType:
    items = schema.get("items") or {}
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return MergeType(MergeKind.SET, element=ATOMIC)
        case "map":
            properties = items.get("properties") or {}
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            return MergeType(
                MergeKind.ASSOCIATIVE,
                element=_of_openapi(items),
                keys=_keys(keys, lambda key: (properties.get(key) or {}).get("default")),
            )
    return ATOMIC
