"""Generates parts of the installer: the chart's copies, schema and dashboards, and the file for kubectl.

`--check` writes nothing and fails if a file is out of date; `--chart-only` skips what needs Helm.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.installer.dashboards import dashboards
from tools.installer.places import CHART, ROOT, SINGLE_FILE, NoHelm, find_helm, run_helm
from volcano.kube import crds
from volcano.scheduler.engine import config

NAMESPACE = "volcano-system"
HEADER = f"""# Volcano in Python, as the chart installs it with its defaults: kubectl apply -f volcano-development.yaml
# Written by `python -m tools.generate_installer`; change the chart, not this file.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
"""
# Types of values; a value that is null by default may have any type.
TYPES = {bool: "boolean", int: "integer", str: "string", dict: "object", list: "array"}
NULLABLE = "null"


def main() -> int:
    """Writes every file that is out of date and prints its name."""
    check = "--check" in sys.argv
    changed = _bring(dict(chart_files()), check=check)
    if "--chart-only" not in sys.argv:
        try:
            changed += _bring({SINGLE_FILE: single_file(find_helm())}, check=check)
        except NoHelm as error:
            print(f"{error}; with --chart-only the file for kubectl is left as it is", file=sys.stderr)
            return 1
    return 1 if check and changed else 0


def _bring(wanted: dict[Path, str], *, check: bool) -> list[Path]:
    """Writes out-of-date files, or only returns them."""
    changed = stale(wanted)
    for path in changed:
        print(f"{'stale' if check else 'wrote'} {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
    return changed


def chart_files() -> Iterator[tuple[Path, str]]:
    """Generated files of the chart and their content."""
    for source in sorted(crds.FOLDER.glob("*.json")):
        yield CHART / "definitions" / source.name, source.read_text()
    for source in sorted((Path(config.__file__).parents[1] / "conf").glob("*.conf")):
        yield CHART / "config" / source.name, source.read_text()
    for name, text in dashboards().items():
        yield CHART / "dashboards" / name, text
    yield CHART / "values.schema.json", json.dumps(schema(), indent=1) + "\n"


def schema() -> dict[str, Any]:
    """Schema of the values: names and types as in values.yaml."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    sections = {
        section: {"type": "object", "additionalProperties": False, "properties": _properties(names)}
        for section, names in values.items()
    }
    # A parent chart passes `global` to its children.
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {**sections, "global": {"type": "object"}},
    }


def _properties(names: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in names.items():
        if value is None:
            found[name] = {}
        elif isinstance(value, dict) and set(value) == {"enabled"}:
            found[name] = {
                "type": "object",
                "additionalProperties": False,
                "properties": {"enabled": {"type": "boolean"}},
            }
        else:
            found[name] = {"type": [TYPES[type(value)], NULLABLE]}
    return found


def single_file(helm: Path) -> str:
    """The chart with default values in one file, including the namespace that Helm would create."""
    rendered = run_helm(helm, "template", "volcano", str(CHART), "--namespace", NAMESPACE)
    return HEADER + rendered


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Files that are out of date."""
    return [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]


if __name__ == "__main__":
    sys.exit(main())
