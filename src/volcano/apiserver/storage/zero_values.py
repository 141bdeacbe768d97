"""Zero values of Kubernetes' Go types, as a server encodes them: what a typed client finds in a bookmark."""

from functools import cache
from typing import Any

import orjson

from volcano.kube.api import type_info
from volcano.kube.api.kinds import DAEMON_SET, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.type_info import Field, Type

_SCALARS = {"string": "", "bool": False}
_NULL = frozenset({"Time", "MicroTime", "RawExtension", "bytes"})
# Structs with an encoding of their own; `omitempty` has no effect on structs.
_SPECIAL_STRUCTS = frozenset({"Time", "MicroTime", "RawExtension", "Quantity", "IntOrString"})
# Fields whose internal type is no pointer: kube-apiserver converts its zero value to a value.
_REPLICAS = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})


@cache
def _encoded(kind: Kind) -> bytes:
    type_ = type_info.type_of(kind)
    fields = _struct(type_) if type_ is not None else {}
    return orjson.dumps({name: value for name, value in fields.items() if name not in ("kind", "apiVersion")})


def zero_object(kind: Kind) -> Manifest:
    """An empty object of a kind with the fields that Go encodes even when they are empty. Kinds that CRDs define
    have no Go type: only kind, version and metadata are set."""
    found: Manifest = {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {},
        **orjson.loads(_encoded(kind)),
    }
    if kind.group == "apps" and kind.kind in _REPLICAS:
        found["spec"]["replicas"] = 0
    if kind == DAEMON_SET:  # its internal type has a field that became an annotation
        found["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "0"}
    return found


def _struct(type_: Type) -> Manifest:
    values = {name: _value(field) for name, field in type_.fields.items()}
    return {name: value for name, value in values.items() if value is not _OMITTED}


_OMITTED: Any = object()


def _value(field: Field) -> Any:
    """The encoded zero value of a field."""
    is_plain = field.container == "" and not field.pointer
    is_struct = is_plain and field.is_object
    is_special = is_plain and field.type in _SPECIAL_STRUCTS
    if field.omit_zero or (field.omit_empty and not is_struct and not is_special):
        return _OMITTED
    if is_struct:
        return _struct(type_info.named(field.type))
    if field.pointer or field.container or field.type in _NULL:
        return None
    if field.type == "Quantity":
        return "0"
    return _SCALARS.get(field.type, 0)
