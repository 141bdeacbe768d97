"""Runs an example of an operator by the command of its file, as it is and with something changed."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from volcano.cli.volcano.example_files import flags_of, frameworks_of, path_of
from volcano.frameworks.install import NotAvailable, installed
from volcano.kube.api.manifest import Manifest
from volcano.nodes.runtimes.probe import probe

WITHIN = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `volcano run` has printed: the jobs at the end, and everything else, such as the logs of pods."""

    code: int
    jobs: dict[str, Manifest]
    output: str


def run_example(
    name: str, directory: Path, *, change: Mapping[str, str] | None = None, timeout: str = "5m"
) -> Outcome:
    """Runs an example with the flags that its file names. `change` replaces texts of the file.

    Skips the test where a framework cannot be installed, or pods cannot have a network of their own.
    """
    if reason := probe("netns").reason:
        pytest.skip(reason)
    source = path_of(name)
    try:
        for framework in frameworks_of(source):
            installed(framework)
    except NotAvailable as error:
        pytest.skip(str(error))
    text = source.read_text()
    for old, new in (change or {}).items():
        assert old in text
        text = text.replace(old, new)
    file = directory / source.name
    file.write_text(text)
    command = [sys.executable, "-m", "volcano.cmd.volcano", "run", *flags_of(source), "--timeout", timeout]
    environment = {**os.environ, "XDG_DATA_HOME": str(directory), "TMPDIR": str(directory)}
    done = subprocess.run(
        [*command, "--output", "json", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
        env=environment,
    )
    try:
        jobs = json.loads(done.stdout)["jobs"]
    except ValueError:
        jobs = []
    return Outcome(done.returncode, {job["name"]: job for job in jobs}, done.stdout + done.stderr)
