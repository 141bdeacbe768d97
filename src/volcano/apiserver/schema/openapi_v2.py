"""OpenAPI v2 (Swagger) document of all kinds, derived from the schemas and paths of the v3 documents."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from volcano.apiserver.schema import openapi
from volcano.apiserver.schema.openapi import DescribedKind, VerbsOf

_V3, _V2 = "#/components/schemas/", "#/definitions/"
_PRODUCES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
# v2 cannot express these; a real server leaves them out too.
_NOT_IN_V2 = frozenset({"oneOf", "anyOf", "not", "nullable", "x-kubernetes-validations"})
# Types whose v3 schema is a union: in v2 they are strings.
_UNIONS: Mapping[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
}


def document(described: Iterable[DescribedKind], verbs_of: VerbsOf) -> dict[str, Any]:
    """Swagger document of all kinds."""
    v3 = openapi.document(described, verbs_of)
    schemas = v3["components"]["schemas"]
    return {
        "swagger": "2.0",
        "info": v3["info"],
        "paths": {path: _path(item) for path, item in sorted(v3["paths"].items())},
        "definitions": {name: _UNIONS.get(name) or _schema(schema) for name, schema in schemas.items()},
    }


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A v3 schema as v2: references are renamed, unions are left out, a nullable value may have any type."""
    converted = dict(_parts(schema))
    if schema.get("nullable"):
        for name in ("type", "items", "properties", "additionalProperties", "format"):
            converted.pop(name, None)
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" in converted:
        # A client that knows only the properties would report the others as unknown.
        converted.pop("properties")
    return converted


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in schema.items():
        match name:
            case "$ref":
                yield name, str(value).replace(_V3, _V2)
            case "allOf" if len(value) == 1 and "$ref" in value[0]:
                yield from _parts(value[0])
            case "allOf":
                continue
            case "properties":
                yield name, {key: _schema(each) for key, each in value.items()}
            case "items":
                yield name, _schema(value)
            case "additionalProperties" if isinstance(value, Mapping):
                yield name, _schema(value)
            case _ if name not in _NOT_IN_V2:
                yield name, value


def _path(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: [_parameter(each) for each in value] if key == "parameters" else _operation(value)
        for key, value in item.items()
    }


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in parameter.items() if key != "schema"}
    return {**plain, **parameter.get("schema", {})}


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    parameters = [_parameter(each) for each in operation["parameters"]]
    body = operation.get("requestBody")
    consumes = ["*/*"]
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": _schema(schema)})
        if operation["x-kubernetes-action"] == "patch":
            consumes = list(body["content"])
    responses = {
        code: {
            "description": each["description"],
            "schema": _schema(each["content"]["application/json"]["schema"]),
        }
        for code, each in operation["responses"].items()
    }
    extensions = {key: value for key, value in operation.items() if key.startswith("x-")}
    return {
        "consumes": consumes,
        "produces": _PRODUCES,
        "schemes": ["https"],
        "operationId": operation["operationId"],
        "parameters": parameters,
        "responses": responses,
        **extensions,
    }
