"""Our own CustomResourceDefinitions, as they are shipped and installed at start."""

from pathlib import Path

import orjson

from volcano.kube.manifest import Manifest

FOLDER = Path(__file__).parent / "crds"


def load() -> list[Manifest]:
    """A fresh copy of every CRD we ship, by name. `tools/generate_crds.py` writes the files."""
    crds: list[Manifest] = [orjson.loads(path.read_bytes()) for path in FOLDER.glob("*.json")]
    return sorted(crds, key=lambda crd: str(crd["metadata"]["name"]))
