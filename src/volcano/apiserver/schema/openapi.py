"""OpenAPI v3 documents, one for each group and version, from built-in types and the schemas of CRDs."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import orjson

from volcano.kube.api import type_info
from volcano.kube.api.kinds import Kind
from volcano.kube.api.type_info import Field, Type

_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
# Descriptions of the fields every object has; the descriptions of a real server are not reproduced.
_DESCRIPTIONS = {
    "apiVersion": "The group and version of the schema this object follows.",
    "kind": "What this object is.",
    "metadata": "Name, labels, owners and the like.",
    "spec": "What is wanted.",
    "status": "What was last seen; written by the system.",
}

# Returns the verbs a kind is served with over HTTP.
VerbsOf = Callable[[Kind], Collection[str]]


class DescribedKind(Protocol):
    """A kind in a document, with its schema if a CRD defines it."""

    @property
    def kind(self) -> Kind: ...

    @property
    def schema(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class VirtualKind:
    """A built-in kind that is never stored, such as SubjectAccessReview."""

    kind: Kind
    schema: Mapping[str, Any] = field(default_factory=dict)


def path_of(kind: Kind) -> str:
    """Path of the document of a kind's group and version: `api/v1`, `apis/apps/v1`."""
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def document(described: Iterable[DescribedKind], verbs_of: VerbsOf) -> dict[str, Any]:
    """OpenAPI document of one group and version; `verbs_of` returns the verbs a kind is served with."""
    members = list(described)
    schemas: dict[str, Any] = {}
    for each in members:
        if each.schema:
            schemas[schema_name(each.kind)] = _of_crd(each)
            _collect(type_info.named("meta.v1.ObjectMeta"), schemas)
        elif (type_ := type_info.type_of(each.kind)) is not None:
            _collect(type_, schemas)
            schemas[schema_name(each.kind)] = {**schemas[schema_name(each.kind)], **_identity([each.kind])}
    paths = {path: item for each in members for path, item in _paths(each.kind, verbs_of(each.kind))}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{type_info.version()}"},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def schema_name(kind: Kind) -> str:
    """Name of a kind's schema: that of a real server for built-in kinds, the group reversed for others."""
    type_ = type_info.type_of(kind)
    if type_ is not None:
        return _full_name(type_.name)
    return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))


_ROOTS = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "metrics": "io.k8s.metrics.pkg.apis.metrics",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
_SPECIAL: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "Duration": {"type": "string"},
    "ExtraValue": {"type": "array", "items": {"type": "string"}},
    "JSON": {"x-kubernetes-preserve-unknown-fields": True},
    "SchemaOrList": {"x-kubernetes-preserve-unknown-fields": True},
    "SchemaOrBool": {"x-kubernetes-preserve-unknown-fields": True},
    "SchemaOrStrings": {"x-kubernetes-preserve-unknown-fields": True},
}
# Named types whose JSON is not an object with fields.
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Time": ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        {"type": "string", "format": "date-time"},
    ),
    "FieldsV1": ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", {"type": "object"}),
    "RawExtension": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
}


def _full_name(name: str) -> str:
    group, rest = name.split(".", 1)
    return f"{_ROOTS.get(group, f'io.k8s.api.{group}')}.{rest}"


def _collect(type_: Type, schemas: dict[str, Any]) -> None:
    """Adds the schemas of a type and of everything it refers to."""
    name = _full_name(type_.name)
    if name in schemas:
        return
    schemas[name] = _of_type(type_.name)
    for about in type_.fields.values():
        if about.is_object:
            _collect(type_info.named(about.type), schemas)
        elif about.type in _NAMED:
            special, schema = _NAMED[about.type]
            schemas[special] = schema


@cache
def _of_type(name: str) -> dict[str, Any]:
    type_ = type_info.named(name)
    is_root = {"apiVersion", "kind"} <= type_.fields.keys()
    properties = {
        key: _of_field(about, _DESCRIPTIONS.get(key, "") if is_root else "")
        for key, about in sorted(type_.fields.items())
    }
    required = [key for key, about in sorted(type_.fields.items()) if about.required]
    return {
        "type": "object",
        **({"required": required} if required else {}),
        **({"properties": properties} if properties else {}),
        **({"x-kubernetes-map-type": "atomic"} if type_.atomic else {}),
    }


def _of_field(about: Field, description: str) -> dict[str, Any]:
    single = _single(about)
    if about.enum:
        single = {**single, "enum": list(about.enum)}
    match about.container:
        case "list":
            schema: dict[str, Any] = {"type": "array", "items": single}
        case "map":
            schema = {"type": "object", "additionalProperties": single}
        case _:
            schema = {"allOf": [single]} if "$ref" in single else dict(single)
    extensions = {
        "description": description,
        "default": about.default,
        "x-kubernetes-list-type": about.list_type,
        "x-kubernetes-list-map-keys": list(about.keys),
        "x-kubernetes-map-type": "atomic" if about.atomic and about.container == "map" else "",
        "x-kubernetes-patch-merge-key": about.merge_key,
        "x-kubernetes-patch-strategy": ",".join(about.strategies),
    }
    return schema | {key: value for key, value in extensions.items() if value}


def _single(about: Field) -> dict[str, Any]:
    if about.type in _SPECIAL:
        return _SPECIAL[about.type]
    name = _NAMED[about.type][0] if about.type in _NAMED else _full_name(about.type)
    return {"$ref": f"#/components/schemas/{name}"}


def _of_crd(described: DescribedKind) -> dict[str, Any]:
    """Schema of a CRD, with the fields every object has."""
    schema = dict(described.schema)
    metadata = {"$ref": f"#/components/schemas/{_full_name('meta.v1.ObjectMeta')}"}
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": _DESCRIPTIONS["apiVersion"]},
        "kind": {"type": "string", "description": _DESCRIPTIONS["kind"]},
        **(schema.get("properties") or {}),
        "metadata": {"allOf": [metadata], "description": _DESCRIPTIONS["metadata"]},
    }
    return schema | _identity([described.kind])


def _identity(kinds: Iterable[Kind]) -> dict[str, Any]:
    return {"x-kubernetes-group-version-kind": [_gvk(kind) for kind in kinds]}


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def _parameter(name: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


_WRITING = [_parameter("dryRun"), _parameter("fieldManager"), _parameter("fieldValidation")]
_SELECTING = [
    _parameter("fieldSelector"),
    _parameter("labelSelector"),
    _parameter("limit", "integer"),
    _parameter("continue"),
    _parameter("resourceVersion"),
    _parameter("watch", "boolean"),
]
_DELETING = [
    _parameter("dryRun"),
    _parameter("gracePeriodSeconds", "integer"),
    _parameter("propagationPolicy"),
]
# HTTP method: verb, x-kubernetes-action and query parameters.
_ON_MANY = {
    "get": ("list", "list", _SELECTING),
    "post": ("create", "post", _WRITING),
    "delete": ("deletecollection", "deletecollection", _DELETING + _SELECTING),
}
_ON_ONE = {
    "get": ("get", "get", []),
    "put": ("update", "put", _WRITING),
    "patch": ("patch", "patch", [*_WRITING, _parameter("force", "boolean")]),
    "delete": ("delete", "delete", _DELETING),
}


def _paths(kind: Kind, verbs: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    base = f"/{path_of(kind)}"
    many = f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    place = [_in_path("namespace")] if kind.namespaced else []
    yield many, _operations(kind, verbs, _ON_MANY, place)
    if kind.namespaced and "list" in verbs:
        yield f"{base}/{kind.plural}", _operations(kind, verbs, {"get": _ON_MANY["get"]}, [])
    if "get" in verbs:
        one = [*place, _in_path("name")]
        yield f"{many}/{{name}}", _operations(kind, verbs, _ON_ONE, one)
        for subresource in ("status", "scale"):
            if subresource in kind.subresources:
                methods = {method: _ON_ONE[method] for method in ("get", "put", "patch")}
                yield f"{many}/{{name}}/{subresource}", _operations(kind, verbs, methods, one, subresource)


def _operations(
    kind: Kind,
    verbs: Collection[str],
    methods: dict[str, tuple[str, str, list[dict[str, Any]]]],
    place: list[dict[str, Any]],
    subresource: str = "",
) -> dict[str, Any]:
    if subresource == "scale":
        kind = Kind("autoscaling", "v1", "Scale", kind.plural)
    schema = {"schema": {"$ref": f"#/components/schemas/{schema_name(kind)}"}}
    if subresource == "scale":
        schema = {"schema": {"type": "object"}}
    item: dict[str, Any] = {"parameters": place} if place else {}
    for method, (verb, action, parameters) in methods.items():
        if verb not in verbs:
            continue
        # Custom resources have no strategic merge patch; kubectl sends one wherever it is announced.
        patches = _PATCHES if type_info.type_of(kind) is not None else _PATCHES[:-1]
        types = patches if method == "patch" else ("application/json",)
        item[method] = {
            "operationId": "_".join(
                filter(None, (action, kind.group, kind.version, kind.plural, subresource))
            ),
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {"application/json": schema}}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        if method in ("post", "put", "patch"):
            item[method]["requestBody"] = {"content": dict.fromkeys(types, schema), "required": True}
    return item


def document_hash(described: Iterable[DescribedKind]) -> str:
    """Hash of the kinds and schemas of a document."""
    digest = hashlib.sha512(type_info.version().encode())
    for each in described:
        digest.update(repr(each.kind).encode())
        digest.update(orjson.dumps(each.schema, option=orjson.OPT_SORT_KEYS))
    return digest.hexdigest().upper()
