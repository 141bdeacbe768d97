"""The kubectl binary, and an API server for it."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.kubectl.serving import Serving
from volcano.apiserver.interfaces import LogOptions
from volcano.kube.api.manifest import Manifest


def find_kubectl() -> str:
    """$KUBECTL, or the kubectl on the PATH."""
    return os.environ.get("KUBECTL") or shutil.which("kubectl") or ""


class Kubectl:
    """Runs kubectl with its own home, so that it uses no discovery cache of another server."""

    def __init__(self, binary: str, kubeconfig: Path, home: Path) -> None:
        self.binary, self.kubeconfig, self.home = binary, kubeconfig, home
        self.environment = {"HOME": str(home), "KUBECONFIG": str(kubeconfig), "PATH": os.environ["PATH"]}

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """Standard output of kubectl; fails with its standard error when kubectl fails."""
        done = self.run(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.binary, *arguments],
            input=stdin,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def fails(self, *arguments: str, stdin: str = "") -> str:
        """Standard error of kubectl, which must fail."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} succeeded: {done.stdout}"
        return done.stderr

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A running kubectl, whose output can be read line by line."""
        return subprocess.Popen(
            [self.binary, *arguments], env=self.environment, stdout=subprocess.PIPE, text=True
        )


class Echo:
    """A log source whose lines contain the name of the pod."""

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        return self._lines(pod["metadata"]["name"], options.tail_lines or 3)

    async def _lines(self, name: str, count: int) -> AsyncIterator[bytes]:
        for number in range(count):
            yield f"{name} says {number}\n".encode()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    serving = Serving(tmp_path_factory.mktemp("server"), Echo())
    yield serving
    serving.stop()


@pytest.fixture(scope="module")
def kubectl(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    binary = find_kubectl()
    if not binary:
        pytest.skip("no kubectl: set $KUBECTL or put it on the PATH")
    return Kubectl(binary, serving.kubeconfig, tmp_path_factory.mktemp("home"))
