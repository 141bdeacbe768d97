"""The build of the control plane, with a program in the place of Go that takes no minutes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.k8s.control_plane.build import PROGRAMS, VERSION
from tests.k8s.programs import ROOT

# Fails where another one builds at the same time.
GO = """#!/bin/sh
if [ "$1" = env ]; then echo off; exit; fi
mkdir "$GO_BUILDS/running" || exit 3
while [ "$1" != -o ]; do shift; done
echo "$3" >> "$GO_BUILDS/packages"
sleep 0.1
echo complete > "$2"
rmdir "$GO_BUILDS/running"
"""


def test_of_two_builds_at_a_time_one_builds_each_program_and_the_other_waits(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text(GO)
    go.chmod(0o755)
    built = tmp_path / "cache" / "volcano-k8s" / f"v{VERSION}"
    (built / ".build-killed").mkdir(parents=True)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GO_BUILDS": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    builds = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.k8s.control_plane.build"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    printed = [build.communicate(timeout=60)[0] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], printed
    packages = [package for _, package in PROGRAMS.values()]
    assert (tmp_path / "packages").read_text().split() == packages
    assert {path.name for path in built.iterdir()} == {*PROGRAMS, ".lock"}
    assert all((built / name).read_text() == "complete\n" for name in PROGRAMS)
