"""Volcano's CustomResourceDefinitions, installed at start."""

from pathlib import Path

import orjson

from volcano.kube.manifest import Manifest

FOLDER = Path(__file__).parent / "crds"


def load() -> list[Manifest]:
    """Returns a new copy of every CRD, by name. `tools/generate_crds.py` generates the files."""
    crds: list[Manifest] = [orjson.loads(path.read_bytes()) for path in FOLDER.glob("*.json")]
    return sorted(crds, key=lambda crd: str(crd["metadata"]["name"]))
