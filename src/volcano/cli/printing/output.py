"""Objects as JSON, YAML, names or through a jsonpath template."""

import json
from collections.abc import Sequence
from typing import Any

from volcano.cli.errors import value_of
from volcano.cli.printing.template import Template
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

JSONPATH = "jsonpath="


def is_table(output: str) -> bool:
    """Whether the output is for people."""
    return output in ("", "wide")


def render_all(output: str, kind: Kind, items: Sequence[Manifest]) -> str:
    """List of objects in the requested format, without the final newline."""
    if output == "name":
        return "\n".join(_name(kind, item) for item in items)
    shown = [without_fields_of_managers(item) for item in items]
    return render(
        output, {"apiVersion": "v1", "items": shown, "kind": "List", "metadata": {"resourceVersion": ""}}
    )


def render_one(output: str, kind: Kind, item: Manifest) -> str:
    """One object in the requested format, without the final newline."""
    if output == "name":
        return _name(kind, item)
    return render(output, without_fields_of_managers(item))


def render(output: str, value: Any) -> str:
    """Any value as JSON or YAML, or through a template."""
    if output == "json":
        return json.dumps(value, indent=4, ensure_ascii=False)
    if output == "yaml":
        return as_yaml(value)
    with value_of("-o"):
        return Template(output.removeprefix(JSONPATH)).render(value)


def as_yaml(value: Any) -> str:
    """Value as YAML in kubectl's style, without the final newline."""
    from volcano.base.yaml_dumper import dump

    return dump(value, sort_keys=True).rstrip("\n")


def without_fields_of_managers(item: Manifest) -> Manifest:
    """Object without `managedFields`."""
    if "managedFields" not in item["metadata"]:
        return item
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    return {**item, "metadata": metadata}


def _name(kind: Kind, item: Manifest) -> str:
    group = f".{kind.group}" if kind.group else ""
    return f"{kind.singular}{group}/{item['metadata']['name']}"
