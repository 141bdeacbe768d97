"""Generates the CRDs we ship from compact sources and Kubernetes' type information."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from volcano.kube.api import type_info
from volcano.kube.api.manifest import Manifest

SOURCES = Path(__file__).parent / "crds"
TARGET = Path(type_info.__file__).parents[1] / "crds"
QUANTITY = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
SCALARS: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number"},
    "bytes": {"type": "string", "format": "byte"},
    "Quantity": {"x-kubernetes-int-or-string": True, "pattern": QUANTITY},
    "IntOrString": {"x-kubernetes-int-or-string": True},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Duration": {"type": "string"},
    "RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
# Inside templates only these metadata fields are used.
TEMPLATE_METADATA = "metadata"


def main() -> int:
    """Writes every CRD; prints changed files, and fails with `--check` if there are any."""
    check = "--check" in sys.argv
    changed = []
    for source in sorted(SOURCES.glob("*.yaml")):
        text = render(build(yaml.safe_load(source.read_text())))
        target = TARGET / f"{source.stem}.json"
        if not target.exists() or target.read_text() != text:
            changed.append(target.name)
            if not check:
                TARGET.mkdir(exist_ok=True)
                target.write_text(text)
    print(f"changed: {', '.join(changed) or 'nothing'}")
    return 1 if check and changed else 0


def build(source: Mapping[str, Any]) -> Manifest:
    """Builds the CRD of a compact source."""
    names = {"kind": source["kind"], "listKind": f"{source['kind']}List", "plural": source["plural"]}
    names["singular"] = source["kind"].lower()
    if source.get("shortNames"):
        names["shortNames"] = source["shortNames"]
    version: Manifest = {"name": source["version"], "served": True, "storage": True}
    if source.get("columns"):
        version["additionalPrinterColumns"] = source["columns"]
    version["schema"] = {"openAPIV3Schema": expand(source["schema"])}
    if source.get("status"):
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{source['plural']}.{source['group']}",
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {"group": source["group"], "names": names, "scope": source["scope"], "versions": [version]},
    }


def expand(schema: Any) -> Any:
    """Replaces the markers (`$type`, `$fragment`) of a schema; with `$partial`, its fields are optional and without
    defaults, as in a patch."""
    if isinstance(schema, list):
        return [expand(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: expand(value) for key, value in schema.items() if not key.startswith("$")}
    if "$fragment" in schema:
        found = fragment(schema["$fragment"])
        return {**(partial(found) if schema.get("$partial") else found), **own}
    if "$type" in schema:
        return {**of_type(schema["$type"]), **own}
    return own


def partial(schema: Any, kept: frozenset[str] = frozenset()) -> Any:
    """A schema without required fields and defaults, except for the keys of its lists."""
    if not isinstance(schema, dict):
        return schema
    keys = frozenset(schema.get("x-kubernetes-list-map-keys") or ())
    result = {name: value for name, value in schema.items() if name not in ("required", "default")}
    required = [name for name in schema.get("required", ()) if name in kept]
    if required:
        result["required"] = required
    if "properties" in schema:
        result["properties"] = {
            name: value if name in kept else partial(value) for name, value in schema["properties"].items()
        }
    for name in ("items", "additionalProperties"):
        if name in schema:
            result[name] = partial(schema[name], keys if name == "items" else frozenset())
    return result


def fragment(name: str) -> Manifest:
    expanded: Manifest = expand(yaml.safe_load((SOURCES / "fragments" / f"{name}.yaml").read_text()))
    return expanded


def of_type(name: str) -> Manifest:
    """Schema of a Kubernetes type."""
    if name in SCALARS:
        return dict(SCALARS[name])
    if name == "meta.v1.ObjectMeta":
        return fragment(TEMPLATE_METADATA)
    found = type_info.named(name)
    schema: Manifest = {
        "type": "object",
        "properties": {each.json: of_field(each) for each in found.fields.values()},
    }
    required = [each.json for each in found.fields.values() if each.required]
    if required:
        schema["required"] = required
    if found.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def of_field(field: type_info.Field) -> Manifest:
    single = of_type(field.type)
    if field.container == "map":
        return {"type": "object", "additionalProperties": single}
    if field.container != "list":
        if field.atomic and field.is_object:
            single["x-kubernetes-map-type"] = "atomic"
        return single
    schema: Manifest = {"type": "array", "items": single}
    if field.list_type:
        schema["x-kubernetes-list-type"] = field.list_type
    if field.keys:
        schema["x-kubernetes-list-map-keys"] = list(field.keys)
        _complete_keys(single, field)
    return schema


def _complete_keys(item: Manifest, field: type_info.Field) -> None:
    """Makes list map keys required unless they have a default."""
    fields = type_info.named(field.type).fields
    for key in field.keys:
        default = fields[key].default
        if default is not None:
            item["properties"][key]["default"] = default
        elif key not in item.get("required", ()):
            item["properties"][key].setdefault("default", "")


def render(crd: Manifest) -> str:
    """Compact JSON, which loads much faster than YAML at start."""
    return json.dumps(crd, ensure_ascii=False, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    sys.exit(main())
