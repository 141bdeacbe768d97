"""Records the commit and the time of a build in the distribution; everything else is in pyproject.toml."""

import json
import os
import subprocess
import time
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
RECORD = Path("volcano", "build.json")


def build_record() -> str:
    """Content of the record. A source distribution has no repository: it carries the record of its own build."""
    carried = HERE / "src" / RECORD
    if carried.exists():
        return carried.read_text()
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    built = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    return (
        json.dumps({"commit": os.environ.get("VOLCANO_COMMIT") or checked_out_commit(), "builtAt": built})
        + "\n"
    )


def checked_out_commit() -> str:
    if not (HERE / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class BuildWithRecord(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / RECORD
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(build_record())


class SourceWithRecord(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        Path(base_dir, "src", RECORD).write_text(build_record())


setup(cmdclass={"build_py": BuildWithRecord, "sdist": SourceWithRecord})
