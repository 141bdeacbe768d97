"""CustomResourceDefinitions: the kinds they define, and those shipped with Volcano."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, condition_of

FOLDER = Path(__file__).parents[1] / "crds"


def load() -> list[Manifest]:
    """Returns a new copy of every CRD, by name. `tools/generate_crds.py` generates the files."""
    crds: list[Manifest] = [orjson.loads(path.read_bytes()) for path in FOLDER.glob("*.json")]
    return sorted(crds, key=lambda crd: str(crd["metadata"]["name"]))


def established_spec(crd: Manifest) -> Manifest | None:
    """The spec of a CRD with the names that were accepted; None unless it is established."""
    established = condition_of(crd, "Established")
    if established is None or established.get("status") != "True":
        return None
    accepted = (crd.get("status") or {}).get("acceptedNames") or crd["spec"]["names"]
    return {**crd["spec"], "names": accepted}


def served_kinds(crd: Manifest) -> tuple[Kind, ...]:
    """The kinds that a CRD makes the API server serve, the version that objects are stored in first."""
    spec = established_spec(crd)
    if spec is None:
        return ()
    versions = sorted(spec["versions"], key=lambda version: not version.get("storage"))
    return tuple(kind_of(spec, version) for version in versions if version.get("served"))


def kind_of(spec: Mapping[str, Any], version: Mapping[str, Any]) -> Kind:
    """One version of a CRD as a kind."""
    names, subresources = spec["names"], version.get("subresources") or {}
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        spec.get("scope") == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        tuple(sorted(name for name in ("scale", "status") if subresources.get(name) is not None)),
    )
