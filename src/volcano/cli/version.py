"""`vcctl version`."""

import argparse
import json
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

import volcano
from volcano import __version__
from volcano.cli.session import Session

API_VERSION = "v1alpha1"
NOT_RECORDED = "not recorded"
NAME = "volcano-py"
GIT_SECONDS = 5.0


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds no flags."""


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Prints the version information."""
    package = Path(volcano.__file__).parent
    recorded = build_record(package)
    revision = (
        recorded.get("commit") or installed_from(distributions(name=NAME)) or checked_out(package.parents[1])
    )
    for name, value in (
        ("API Version", API_VERSION),
        ("Version", __version__),
        ("Git SHA", revision or NOT_RECORDED),
        ("Built At", recorded.get("builtAt") or NOT_RECORDED),
        ("Python Version", platform.python_version()),
        ("Python OS/Arch", f"{platform.system().lower()}/{platform.machine()}"),
    ):
        session.write(f"{name}: {value}")
    return 0


def build_record(package: Path) -> dict[str, str]:
    """Commit and time that the build of a wheel recorded in it; empty in a working tree."""
    try:
        record = json.loads((package / "build.json").read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def installed_from(found: Iterable[Distribution]) -> str:
    """Revision that was installed directly from a repository, as recorded by the installer; else empty."""
    for distribution in found:
        try:
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
            revision = (origin.get("vcs_info") or {}).get("commit_id")
        except (ValueError, AttributeError, OSError):
            continue
        if revision:
            return str(revision)
    return ""


def checked_out(root: Path) -> str:
    """Revision of the working tree at `root`, marked if it has changes; else empty."""
    if not (root / ".git").exists():
        return ""
    revision = _git(root, "rev-parse", "HEAD")
    return f"{revision}-dirty" if revision and _git(root, "status", "--porcelain", "-uno") else revision


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
