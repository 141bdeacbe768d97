"""A shim without privileges, at its process limit, and on a full disk."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from volcano.nodes.runtimes.probe import probe
from volcano.nodes.shim.specs import Mode

NOBODY = 65534
SOURCES = Path(__file__).parents[3]
AS_NOBODY: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@pytest.fixture
def nobodys_directory() -> Iterator[Path]:
    """Below /tmp, since the tests' own directories are closed to others."""
    directory = Path(tempfile.mkdtemp(prefix="volcano-nobody-"))
    os.chown(directory, NOBODY, NOBODY)
    yield directory
    shutil.rmtree(directory)


def nobodys_python() -> str:
    """A Python that user 65534 may execute; the running one may be in a private directory."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            command = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(command, check=False, capture_output=True, **AS_NOBODY).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("nobody can run no Python of at least 3.11 here")


def told(command: list[str], **options: Any) -> dict[str, Any]:
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=SOURCES, timeout=30, check=False, **options
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_a_shim_needs_no_root(nobodys_directory: Path) -> None:
    found = as_nobody(nobodys_directory, Mode.PLAIN)
    assert any("whatever runAsUser says" in sentence for sentence in found["limitations"])
    assert found["ended"] == [3, str(NOBODY)]
    assert (found["exec"], found["said"]) == (7, "hello\n")
    assert found["refused"] == ["RunContainerError", "fork: resource temporarily unavailable"]
    assert (found["after"], found["left"]) == (5, [])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_nor_does_one_with_namespaces_of_its_own_users(nobodys_directory: Path) -> None:
    allowed = probe(Mode.USERNS)
    if not allowed.available:
        pytest.skip(allowed.reason)
    found = as_nobody(nobodys_directory, Mode.USERNS)
    assert found["ended"] == [3, "0"]
    assert (found["exec"], found["said"]) == (7, "hello\n")
    assert found["refused"][0] == "RunContainerError"
    assert (found["after"], found["left"]) == (5, [])


def as_nobody(directory: Path, mode: Mode) -> dict[str, Any]:
    command = [nobodys_python(), "-m", "tests.nodes.shim.unprivileged", str(directory), mode]
    paths = f"{SOURCES / 'src'}:{SOURCES}"
    found = told(
        command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": paths}, **AS_NOBODY
    )
    assert found["user"] == NOBODY
    return found


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="a tiny file system needs root and unshare"
)
def test_a_full_disk_costs_log_lines_and_nothing_else(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=2m,nr_inodes=300 tiny "{tmp_path}" && exec "$@"'
    program = [sys.executable, "-m", "tests.nodes.shim.full_disk", str(tmp_path)]
    allowed = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip("this machine does not let root have mounts of its own")
    found = told(["unshare", "-m", "sh", "-c", mount, "sh", *program])
    assert found["disk"] == "No space left on device"
    assert (found["started"], found["unwritten"], found["written late"]) == (9, True, 9)
    assert found["refused"][0] == "CreateContainerError"
    assert found["refused"][1].endswith("no space left on device")
    assert (found["quiet"], found["written"], found["writer"], found["next"]) == (42, 42, 0, 6)
    assert "lines of output were lost: No space left on device" in found["last"][0]
    assert found["last"][1] == "after"
