"""Decoding of metadata and of nulls as in kube-apiserver."""

from collections.abc import Mapping
from typing import Any

from volcano.apiserver.schema.well_formed import well_formed
from volcano.kube.api import type_info
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

_TYPE = "meta.v1.ObjectMeta"
# Zero values, which replace nulls in lists and maps.
_ZEROES: Mapping[str, Any] = {
    "string": "", "bytes": "", "bool": False, "int32": 0, "int64": 0, "double": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip
_OPAQUE = ("RawExtension", "FieldsV1", "JSON", "SchemaOrList", "SchemaOrBool", "SchemaOrStrings")
_is_well_formed = well_formed(_TYPE)


def prune_metadata(kind: Kind, manifest: Manifest) -> None:
    """Prunes unknown fields of the metadata; raises BadRequest if a field has the wrong type."""
    if _is_well_formed(manifest["metadata"]):
        return
    type_ = type_info.named(_TYPE)
    found = type_info.inspect(type_, manifest["metadata"])
    if found.wrong:
        raise BadRequest(f"error decoding metadata of {kind.kind}: {found.wrong[0]}")
    if found.unknown:
        type_info.prune(type_, manifest["metadata"])
    drop_nulls(type_, manifest["metadata"])


def check_types(kind: Kind, body: Any) -> Manifest:
    """The body of a request that is not stored, such as a review, without nulls. Raises BadRequest if a field has
    the wrong type."""
    type_ = type_info.type_of(kind)
    assert type_ is not None, kind
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be a {kind.kind}")
    if not well_formed(type_.name)(body):
        if wrong := type_info.type_errors(type_, body):
            raise BadRequest(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {wrong[0]}'
            )
        drop_nulls(type_, body)
    return body


def unknown_metadata(manifest: Manifest) -> list[str]:
    """Paths of the unknown fields of the metadata."""
    if _is_well_formed(manifest["metadata"]):
        return []
    found = type_info.inspect(type_info.named(_TYPE), manifest["metadata"])
    return [f"metadata.{text.split(chr(34))[1]}" for text in found.unknown]


def drop_nulls(type_: type_info.Type, manifest: Manifest) -> None:
    """Removes null fields, and replaces nulls in lists and maps by the zero value, as Go does."""
    for key in [key for key, value in manifest.items() if value is None]:
        del manifest[key]
    for key, value in manifest.items():
        about = type_.fields.get(key)
        if about is None or about.type in _OPAQUE:
            continue  # arbitrary JSON, in which null is a value
        if value.__class__ is list:
            value[:] = [_zero(about) if each is None else each for each in value]
        elif about.container == "map" and value.__class__ is dict:
            value.update({name: _zero(about) for name, each in value.items() if each is None})
        if about.is_object:
            for each in _objects(about, value):
                drop_nulls(type_info.named(about.type), each)


def _zero(about: type_info.Field) -> Any:
    return {} if about.is_object else _ZEROES.get(about.type)


def _objects(about: type_info.Field, value: Any) -> list[Manifest]:
    if about.container == "":
        return [value]
    return list(value.values()) if about.container == "map" else value
