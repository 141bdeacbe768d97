"""Location of the chart, and calls of Helm."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.k8s.control_plane.build import program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "installer" / "helm" / "chart" / "volcano"
SINGLE_FILE = ROOT / "installer" / "volcano-development.yaml"


class NoHelm(Exception):
    """Helm is not installed."""


def find_helm() -> Path:
    """Helm from $HELM, the path, or the build of `make test-k8s`. Raises `NoHelm`."""
    named = os.environ.get("HELM") or shutil.which("helm")
    if named:
        return Path(named)
    if program("helm").exists():
        return program("helm")
    raise NoHelm("helm is neither named by $HELM nor on the path, and `make test-k8s` has not built one")


def run_helm(helm: Path, *arguments: str) -> str:
    """Output of Helm. Raises `CalledProcessError` with its error message."""
    done = subprocess.run([helm, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
