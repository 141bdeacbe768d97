"""Values of the right type: optional fields that the samples do not have, with values that often pass validation."""

from collections.abc import Mapping
from random import Random
from typing import Any

from volcano.kube.api import crds, type_info
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.type_info import Field, Type

STRINGS = (
    "", "a", "x", "default", "fuzz", "c", "worker", "node-1", "True", "False", "Always", "Never", "OnFailure",
    "a.b/c", "10s",
    "1", "50%", "Running", "Succeeded", "Failed", "Pending", "/a", "80", "http", "volcano", "In", "Exists",
    "NoSchedule",
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 10, 80, 600, 8080, -1, 1000, 2**31 - 1)
SPECIAL: Mapping[str, tuple[Any, ...]] = {
    "bool": (True, False),
    "double": (0.5, 1),
    "bytes": ("YQ==", ""),
    "Quantity": ("0", "1", "500m", "1Gi", "-1", "1e3", 5),
    "IntOrString": (0, 1, "50%", "http", "1", -1, "x"),
    "Time": ("2026-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", None),
    "MicroTime": ("2026-01-01T00:00:00.000000Z", None),
    "Duration": ("10s", "1h0m0s"),
    "RawExtension": ({}, {"a": 1}),
    "FieldsV1": ({}, {"f:spec": {}}),
    "JSON": (1, "a", {"a": []}, None),
}
MAX_DEPTH = 4


class TypedValues:
    """Adds fields of the type of an object to it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._schemas: dict[tuple[str, str], Manifest] = {}
        for crd in crds.load():
            spec = crd["spec"]
            for version in spec["versions"]:
                api_version = f"{spec['group']}/{version['name']}"
                self._schemas[api_version, spec["names"]["kind"]] = version["schema"]["openAPIV3Schema"]

    def add_field(self, manifest: Manifest) -> None:
        """Sets one field at a random place, in place."""
        name = (str(manifest.get("apiVersion")), str(manifest.get("kind")))
        type_ = type_info.type_named(*name)
        if type_ is not None:
            self._add_by_type(type_, manifest)
        elif name in self._schemas:
            self._add_by_schema(self._schemas[name], manifest)

    def _add_by_type(self, type_: Type, holder: Manifest) -> None:
        fields = [
            field
            for key, field in type_.fields.items()
            if key not in ("apiVersion", "kind", "name", "namespace")
        ]
        field = self._random.choice(fields) if fields else None
        if field is None:
            return
        present = holder.get(field.json)
        if isinstance(present, list) and present and self._random.random() < 0.8:
            present = self._random.choice(present)
        if field.is_object and isinstance(present, dict) and field.container != "map":
            self._add_by_type(type_info.named(field.type), present)
        else:
            holder[field.json] = self._of_field(field, 0)

    def _of_field(self, field: Field, depth: int) -> Any:
        if field.container == "list":
            return [self._single(field, depth) for _ in range(self._random.choice([0, 1, 1, 2]))]
        if field.container == "map":
            return {
                key: self._single(field, depth) for key in self._random.sample(("a", "cpu", "b.c/d"), k=1)
            }
        return self._single(field, depth)

    def _single(self, field: Field, depth: int) -> Any:
        if field.enum:
            return self._random.choice(field.enum)
        if field.type in SPECIAL:
            return self._random.choice(SPECIAL[field.type])
        if field.type in ("int32", "int64"):
            return self._random.choice(NUMBERS)
        if not field.is_object:
            return self._random.choice(STRINGS)
        if depth >= MAX_DEPTH:
            return {}
        inner = type_info.named(field.type).fields.values()
        chance = 0.7 if len(inner) < 6 else 0.25
        return {
            each.json: self._of_field(each, depth + 1) for each in inner if self._random.random() < chance
        }

    def _add_by_schema(self, schema: Manifest, holder: Manifest) -> None:
        properties = schema.get("properties") or {}
        names = [name for name in properties if name not in ("apiVersion", "kind", "metadata")]
        if not names:
            return
        name = self._random.choice(names)
        present, inner = holder.get(name), properties[name]
        if isinstance(present, list) and present and self._random.random() < 0.8:
            present, inner = self._random.choice(present), inner.get("items") or {}
        if isinstance(present, dict) and inner.get("properties"):
            self._add_by_schema(inner, present)
        else:
            holder[name] = self._of_schema(properties[name], 0)

    def _of_schema(self, schema: Manifest, depth: int) -> Any:
        if schema.get("enum"):
            return self._random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._random.choice(SPECIAL["Quantity"])
        match schema.get("type"):
            case "integer" | "number":
                return self._random.choice(NUMBERS)
            case "boolean":
                return self._random.random() < 0.5
            case "array":
                count = self._random.choice([0, 1, 1, 2])
                return [self._of_schema(schema.get("items") or {}, depth) for _ in range(count)]
            case "object" if depth < MAX_DEPTH:
                return self._object(schema, depth)
            case "object":
                return {}
        return self._random.choice(STRINGS)

    def _object(self, schema: Manifest, depth: int) -> Manifest:
        properties = schema.get("properties") or {}
        if not properties and isinstance(schema.get("additionalProperties"), dict):
            return {"a": self._of_schema(schema["additionalProperties"], depth + 1)}
        required = schema.get("required") or ()
        chance = 0.7 if len(properties) < 6 else 0.25
        return {
            name: self._of_schema(inner, depth + 1)
            for name, inner in properties.items()
            if name in required or self._random.random() < chance
        }
