"""The init container of pytorch workers waits for the master with any program that an image may have."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controllers.job.plugins.test_plugins import pod
from tests.controllers.job.world import job, task


def wait_script(port: int, timeout: int = 1) -> str:
    """The script of the init container, which waits for this host instead of the master's."""
    arguments = ["--wait-master-enabled", f"--wait-master-timeout={timeout}", f"--port={port}"]
    tasks = [task("master", 1), task("worker", 1)]
    manifest = job(tasks=tasks, plugins={"pytorch": arguments})
    (waiting,) = pod(manifest, "worker")["spec"]["initContainers"]
    script: str = waiting["command"][2]
    assert "j-master-0.j" in script
    return script.replace("j-master-0.j", "127.0.0.1").replace("pause=2", "pause=1")


def run_with(programs: list[str], script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script in an image that has only these programs."""
    for name in ("date", "sleep", *programs):
        path = sys.executable if name == "python3" else shutil.which(name)
        if path is None:
            pytest.skip(f"{name} is not installed")
        if not (directory / name).exists():
            (directory / name).symlink_to(path)
    shell = shutil.which("dash") or "/bin/sh"
    environment = {"PATH": str(directory)}
    return subprocess.run(
        [shell, "-c", script], env=environment, text=True, capture_output=True, timeout=30, check=False
    )


@pytest.mark.parametrize("program", ["nc", "bash", "python3", "perl"])
def test_pytorch_workers_wait_with_whatever_program_their_image_has(program: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port: int = master.getsockname()[1]
        ended = run_with([program], wait_script(port), tmp_path)
        assert (ended.returncode, ended.stderr) == (0, "")
    late = run_with([program], wait_script(port), tmp_path)
    assert late.returncode == 1
    assert f"127.0.0.1:{port} did not answer within 1 seconds" in late.stderr


def test_pytorch_workers_that_cannot_wait_end_with_the_reason(tmp_path: Path) -> None:
    ended = run_with([], wait_script(1), tmp_path)
    assert ended.returncode == 1
    assert "this image has none of nc, bash, python3, python and perl" in ended.stderr
