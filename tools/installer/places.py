"""Where the chart is, and how Helm is run on it."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "installer" / "helm" / "chart" / "volcano"
SINGLE_FILE = ROOT / "installer" / "volcano-development.yaml"


class NoHelm(Exception):
    """There is no Helm to run."""


def find_helm() -> Path:
    """Helm as $HELM names it, or as it is on the path. Raises `NoHelm`."""
    named = os.environ.get("HELM") or shutil.which("helm")
    if not named:
        raise NoHelm("helm is neither named by $HELM nor on the path")
    return Path(named)


def run_helm(helm: Path, *arguments: str) -> str:
    """What Helm prints. Raises `CalledProcessError` with its complaint."""
    done = subprocess.run([helm, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
