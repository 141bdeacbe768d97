"""Regenerates src/volcano/kube/data/type_info.json from Kubernetes' published Go modules and OpenAPI documents.

    python tools/generate_type_info.py [--version 1.36.1] [--openapi DIR | --kubeconfig FILE]

Needs `go` and the modules k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator,metrics,kubernetes} in its
cache or reachable. The
OpenAPI documents come from a running server of that version (`--kubeconfig`, needs `kubectl`), which alone also lists
enumerations; else from a directory or from the module k8s.io/kubernetes.
Only names, numbers, types, merge keys and defaults are taken, no descriptions.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from volcano.kube.api import kinds
from volcano.kube.api.type_info import DATA, FLAGS, go_type

ROOT = Path(__file__).resolve().parent.parent
# Request and response types without a resource of their own.
MESSAGES = (
    ("", "v1", "Binding"),
    ("", "v1", "DeleteOptions"),
    ("", "v1", "CreateOptions"),
    ("", "v1", "UpdateOptions"),
    ("", "v1", "PatchOptions"),
    ("", "v1", "Status"),
    ("", "v1", "List"),
    ("", "v1", "WatchEvent"),
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="1.36.1", help="Kubernetes version")
    parser.add_argument(
        "--openapi", type=Path, help="directory of OpenAPI v3 documents; found with go if not given"
    )
    parser.add_argument("--kubeconfig", help="of a running server of that version, to fetch its documents")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        module = Path(directory)
        prepare(module, arguments.version)
        found = run_walker(module)
        if arguments.kubeconfig:
            documents = fetch(arguments.kubeconfig)
        else:
            documents = read(arguments.openapi or openapi_directory(module, arguments.version))
        known = schemas(documents)
    types = dict(merged(found["types"], known))
    document = {"version": arguments.version, "kinds": kind_names(found["kinds"]), "types": types}
    DATA.write_text(printed(document))
    print(f"{DATA.relative_to(ROOT)}: {len(types)} types, {DATA.stat().st_size // 1024} KB")


def prepare(module: Path, version: str) -> None:
    """Creates a temporary Go module around tools/type_info/main.go."""
    minor = version.split(".", 1)[1]
    names = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator", "metrics")
    requirements = "".join(f"\tk8s.io/{name} v0.{minor}\n" for name in names)
    (module / "go.mod").write_text(f"module typeinfo\n\ngo 1.24\n\nrequire (\n{requirements})\n")
    (module / "main.go").write_text((ROOT / "tools/type_info/main.go").read_text())


def run_walker(module: Path) -> Any:
    wanted = [(kind.group, kind.version, kind.kind) for kind in kinds.BUILT_IN + kinds.VIRTUAL]
    lines = "\n".join(" ".join(names) for names in [*wanted, *MESSAGES])
    output = subprocess.run(
        ["go", "run", "-mod=mod", "."], cwd=module, input=lines, text=True, check=True, stdout=subprocess.PIPE
    )
    return json.loads(output.stdout)


def openapi_directory(module: Path, version: str) -> Path:
    found = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"],
        cwd=module,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    return Path(json.loads(found.stdout)["Dir"]) / "api/openapi-spec/v3"


def read(directory: Path) -> Iterator[Any]:
    """OpenAPI documents in a directory."""
    for path in sorted(directory.glob("*_openapi.json")):
        yield json.loads(path.read_text())


def fetch(kubeconfig: str) -> Iterator[Any]:
    """OpenAPI documents of a running server."""

    def get(path: str) -> Any:
        command = ["kubectl", "--kubeconfig", kubeconfig, "get", "--raw", path]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    for entry in get("/openapi/v3")["paths"].values():
        yield get(entry["serverRelativeURL"])


def schemas(documents: Iterable[Any]) -> dict[str, Any]:
    """All schemas by the short name used in the data (core.v1.PodSpec)."""
    found: dict[str, Any] = {}
    for document in documents:
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            found[".".join(name.split(".")[-3:])] = schema
    return found


def merged(types: dict[str, Any], schemas: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    hosts = {
        field["type"]: name
        for name, fields in types.items()
        for field in fields or ()
        if field["inline"] and field["number"]
    }
    for name, fields in sorted(types.items()):
        schema = schemas.get(name) or schemas.get(hosts.get(name, ""), {})
        atomic = schema.get("x-kubernetes-map-type") == "atomic" and name in schemas
        yield name, [int(atomic), [row(field, schema, schemas) for field in fields or ()]]


def row(field: dict[str, Any], schema: dict[str, Any], schemas: dict[str, Any]) -> list[Any]:
    """One field as [json, number, type, container, flags, extras]; extras only if there are any."""
    described = schema.get("properties", {}).get(field["json"], {})
    target = schemas.get(field["type"], {}) if not field["container"] else {}
    flags = {
        "pointer": field["pointer"],
        "omit_empty": field["omitEmpty"],
        "omit_zero": field["omitZero"],
        "inline": field["inline"],
        "required": field["json"] in schema.get("required", ()),
        "atomic": "atomic" in (described.get("x-kubernetes-map-type"), target.get("x-kubernetes-map-type")),
    }
    extras = {
        "l": described.get("x-kubernetes-list-type"),
        "k": described.get("x-kubernetes-list-map-keys"),
        "m": field["mergeKey"],
        "s": [strategy for strategy in field["strategies"].split(",") if strategy],
        "d": described.get("default"),
        "e": (described.get("items") or described.get("additionalProperties") or described).get("enum"),
        "g": field["go"] if field["go"] != go_type(field["type"], field["container"]) else "",
    }
    kept = {key: value for key, value in extras.items() if value}
    bits = sum(bit for flag, bit in FLAGS.items() if flags[flag])
    return [
        field["json"],
        field["number"],
        field["type"],
        field["container"],
        bits,
        *([kept] if kept else ()),
    ]


def kind_names(found: dict[str, str]) -> dict[str, str]:
    def api_version(group: str, version: str) -> str:
        return f"{group}/{version}" if group else version

    split = {line: line.split(" ") for line in found}
    return {f"{api_version(*split[line][:2])} {split[line][2]}": found[line] for line in sorted(found)}


def printed(document: dict[str, Any]) -> str:
    """JSON with one type per line, so that a new version gives a readable diff."""

    def lines(entries: dict[str, Any]) -> Iterable[str]:
        return (
            f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in entries.items()
        )

    body = ",\n".join(lines(document["types"]))
    known = ",\n".join(lines(document["kinds"]))
    return f'{{"version":"{document["version"]}",\n"kinds":{{\n{known}\n}},\n"types":{{\n{body}\n}}}}\n'


if __name__ == "__main__":
    main()
