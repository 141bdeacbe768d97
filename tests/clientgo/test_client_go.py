"""A current client-go program works unmodified with our server."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.compat.clusters import running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from the module cache in its own directory, where go.sum is generated."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: the client-go program cannot be built")
    work = tmp_path_factory.mktemp("clientgo")
    for name in ("go.mod", "main.go"):
        shutil.copy(HERE / name, work / name)
    environment = os.environ | {"GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    built = subprocess.run(
        ["go", "build", "-o", "clientgo", "."],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0 and "dial tcp" in built.stderr:
        pytest.skip(f"the Go modules are not in the cache and cannot be fetched: {built.stderr[-300:]}")
    assert built.returncode == 0, built.stderr
    return work / "clientgo"


def test_every_check_of_the_client_go_program_passes(program: Path, tmp_path: Path) -> None:
    with running_cluster(tmp_path, "--in-memory", "--nodes", "2") as cluster:
        done = subprocess.run(
            [program, cluster.kubeconfig], capture_output=True, text=True, timeout=180, check=False
        )
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], done.stderr
    assert len(lines) == 12
    assert done.returncode == 0
