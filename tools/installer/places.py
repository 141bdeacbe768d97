"""Where the chart is, and how Helm is run on it."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.k8s.control_plane.build import program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "installer" / "helm" / "chart" / "volcano"
SINGLE_FILE = ROOT / "installer" / "volcano-development.yaml"


class NoHelm(Exception):
    """There is no Helm to run."""


def find_helm() -> Path:
    """Helm as $HELM names it, as it is on the path, or as `make test-k8s` built it. Raises `NoHelm`."""
    named = os.environ.get("HELM") or shutil.which("helm")
    if named:
        return Path(named)
    if program("helm").exists():
        return program("helm")
    raise NoHelm("helm is neither named by $HELM nor on the path, and `make test-k8s` has not built one")


def run_helm(helm: Path, *arguments: str) -> str:
    """What Helm prints. Raises `CalledProcessError` with its complaint."""
    done = subprocess.run([helm, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
