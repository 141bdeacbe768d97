"""kubectl against a local cluster with a node on this host: streams of pods, on every runtime available here."""

import asyncio
import os
import re
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kubectl.conftest import find_kubectl
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.nodes.runtimes.probe import probe

pytestmark = pytest.mark.slow

PORT = 18_431
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  restartPolicy: Never
  initContainers:
  - {{name: first, image: none, command: [echo, from the init container]}}
  containers:
  - name: main
    image: none
    command: [sh, -c, 'echo here > index.html; exec python3 -m http.server {PORT} --bind 127.0.0.1']
    workingDir: /work
    volumeMounts: [{{name: work, mountPath: /work}}]
  volumes: [{{name: work, emptyDir: {{}}}}]
"""


class Cli:
    """Runs kubectl without blocking the cluster's event loop."""

    def __init__(self, cluster: LocalCluster, home: Path) -> None:
        self._binary = find_kubectl()
        self._environment = {
            "HOME": str(home),
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": os.environ["PATH"],
        }

    async def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        assert process.returncode == code, f"kubectl {' '.join(arguments)}: {out.decode()}{err.decode()}"
        return out.decode() + (err.decode() if code else "")

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture(params=["plain", "userns", "netns"])
async def kubectl(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cli]:
    if not find_kubectl():
        pytest.skip("no kubectl: set $KUBECTL, put it on the PATH, or run `make test-k8s` once")
    if obstacle := probe(request.param).reason:
        pytest.skip(f"runtime {request.param} is not available here: {obstacle}")
    settings = ClusterOptions(
        tmp_path / "cluster", durable=False, local=LocalNodeOptions(nodes=1, runtime=request.param)
    )
    async with LocalCluster(settings) as cluster:
        yield Cli(cluster, tmp_path)


async def test_logs_exec_cp_and_port_forward_of_a_pod(kubectl: Cli, tmp_path: Path) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    await kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=40s")
    assert await kubectl("logs", "web", "-c", "first") == "from the init container\n"
    output = await kubectl("exec", "web", "-c", "main", "--", "sh", "-c", "cat index.html; exit 3", code=3)
    assert output.startswith("here\n")
    assert await kubectl("exec", "-i", "web", "-c", "main", "--", "tr", "a-z", "A-Z", stdin="up\n") == "UP\n"
    (tmp_path / "page").write_bytes(os.urandom(100_000))
    await kubectl("cp", str(tmp_path / "page"), "web:page", "-c", "main")
    fetched = await _fetch_through_a_forwarded_port(kubectl)
    assert fetched == (tmp_path / "page").read_bytes()
    assert '"GET /page HTTP/1.1" 200' in await kubectl("logs", "web")
    following = await kubectl.start("logs", "-f", "web")
    await kubectl("delete", "pod", "web", "--grace-period=1")
    out, _ = await asyncio.wait_for(following.communicate(), 30)
    assert b"GET /page" in out
    assert "not found" in await kubectl("logs", "web", code=1)


async def test_attaching_to_a_pod_as_it_starts(kubectl: Cli) -> None:
    command = ("sh", "-c", "cat; echo done; exit 4")
    output = await kubectl(
        "run", "job", "-i", "--rm", "--restart=Never", "--image=none", "--command", "--", *command,
        stdin="fed\n", code=4,
    )  # fmt: skip
    assert "fed\ndone\n" in output


async def _fetch_through_a_forwarded_port(kubectl: Cli) -> bytes:
    forwarding = await kubectl.start("port-forward", "web", f":{PORT}", "--address=127.0.0.1")
    assert forwarding.stdout is not None
    try:
        line = (await asyncio.wait_for(forwarding.stdout.readline(), 20)).decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, line

        def fetch() -> bytes:
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/page", timeout=20) as answer:
                data: bytes = answer.read()
                return data

        return await asyncio.to_thread(fetch)
    finally:
        forwarding.terminate()
        await forwarding.communicate()
