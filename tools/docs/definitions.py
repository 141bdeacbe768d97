"""Fields of the CustomResourceDefinitions, from their schemas."""

from collections.abc import Iterator, Mapping
from typing import Any

from tools.docs.markdown import code, codes, page, table
from volcano.kube.api import crds

# Types of Kubernetes itself: their fields are documented there.
EMBEDDED = {"template", "volumeClaim", "volumeClaimTemplate", "metadata", "active", "httpHeader", "target"}
SELECTOR = {"matchLabels", "matchExpressions"}
OF_EVERY_OBJECT = {"apiVersion", "kind", "metadata"}


def definitions_page() -> str:
    return page(
        "CRD fields",
        "Every field of the kinds of Volcano, as `kubectl explain` shows them. Pod templates are Kubernetes' own.",
        *(
            section(definition)
            for definition in sorted(crds.load(), key=lambda one: str(one["metadata"]["name"]))
        ),
    )


def section(definition: Mapping[str, Any]) -> str:
    spec = definition["spec"]
    version = next(version for version in spec["versions"] if version["storage"])
    schema = version["schema"]["openAPIV3Schema"]
    short = codes(spec["names"].get("shortNames") or ())
    facts = f"`{spec['group']}/{version['name']}`, {spec['scope'].lower()}" + (
        f", short names {short}" if short else ""
    )
    rows = [
        row
        for name, child in schema["properties"].items()
        if name not in OF_EVERY_OBJECT
        for row in fields(name, child)
    ]
    return "\n\n".join(
        [
            f"## {spec['names']['kind']}",
            facts,
            schema.get("description", ""),
            table(["field", "type", "meaning"], rows),
        ]
    )


def fields(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield code(path), type_of(schema), schema.get("description", "")
    inner = schema.get("items") if schema.get("type") == "array" else schema
    is_selector = ((inner or {}).get("properties") or {}).keys() == SELECTOR
    if path.rpartition(".")[2] in EMBEDDED or is_selector:
        return
    prefix = f"{path}[]" if schema.get("type") == "array" else path
    for name, child in ((inner or {}).get("properties") or {}).items():
        yield from fields(f"{prefix}.{name}", child)


def type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type") or ("integer or text" if schema.get("x-kubernetes-int-or-string") else "any")
    if kind == "array":
        return f"list of {type_of(schema.get('items') or {})}"
    if kind == "object" and (values := schema.get("additionalProperties")):
        return f"map of {type_of(values)}" if isinstance(values, Mapping) else "map"
    if choices := schema.get("enum"):
        return " or ".join(code(str(choice)) for choice in choices)
    return str(kind)
