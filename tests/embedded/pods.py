"""A cluster with one local node whose pods run scripts: for tests of their network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.kube.api.kinds import POD, SERVICE, Kind
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.nodes.kubelet.probes.handlers import execute
from volcano.nodes.runtimes.probe import probe

T = TypeVar("T")
TIMEOUT = 30.0
POLL = 0.05
# Answers each TCP connection with the pod's host name and the peer's address, on every port given.
ECHO = """
import selectors, socket, sys
listeners = selectors.DefaultSelector()
for port in map(int, sys.argv[1:]):
    listeners.register(socket.create_server(("", port)), selectors.EVENT_READ)
while True:
    for key, _ in listeners.select():
        peer, source = key.fileobj.accept()
        peer.sendall(f"{socket.gethostname()} {source[0]}".encode())
        peer.close()
"""
# Prints the answer of such a server, or the error.
ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as peer:
        print(peer.recv(200).decode())
except OSError as error:
    print("error:", error.strerror or error)
"""


class PodCluster:
    """A running cluster; pods are placed on its local node without the scheduler."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(
        self, kind: Kind, name: str, *, namespace: str = "default", metadata: Any = None, **fields: Any
    ) -> Manifest:
        scope = {"namespace": namespace} if kind.namespaced else {}
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, **scope, **(metadata or {})},
            **fields,
        }
        return await self.client.create(kind, manifest)

    async def pod(
        self,
        name: str,
        *command: str,
        labels: dict[str, str] | None = None,
        namespace: str = "default",
        ready: Manifest | None = None,
        ports: list[Manifest] | None = None,
        mounts: list[Manifest] | None = None,
        **spec: Any,
    ) -> Manifest:
        """Creates a pod and waits until it is ready."""
        container: Manifest = {"name": "main", "image": "none", "command": list(command) or ["sleep", "600"]}
        container |= {"readinessProbe": ready} if ready else {}
        container |= {"ports": ports} if ports else {}
        container |= {"volumeMounts": mounts} if mounts else {}
        fields = {
            "nodeName": "local-0",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        }
        await self.create(POD, name, namespace=namespace, metadata={"labels": labels or {}}, spec=fields)
        return await self.until_ready(name, namespace)

    async def echo(self, name: str, *ports: int, **options: Any) -> Manifest:
        """A pod that answers with its name on the ports."""
        probe = {"tcpSocket": {"port": ports[0]}, "periodSeconds": 1}
        command = ("python3", "-c", ECHO, *map(str, ports))
        return await self.pod(name, *command, ready=probe, **options)

    async def until_ready(self, name: str, namespace: str = "default") -> Manifest:
        async def ready() -> Manifest | None:
            found = await self.client.get(POD, Key(namespace, name))
            conditions = (found.get("status") or {}).get("conditions") or ()
            is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
            return found if is_ready else None

        return await until(ready, f"pod {name} is not ready")

    async def service(self, name: str, selector: dict[str, str], *ports: Manifest, **spec: Any) -> Manifest:
        return await self.create(SERVICE, name, spec={"selector": selector, "ports": list(ports), **spec})

    async def run(self, pod: Manifest, *command: str) -> str:
        """The output of a command in a pod."""
        nodes = self.cluster.local_nodes
        assert nodes is not None
        assert nodes.runtime is not None
        done = await execute(nodes.runtime, uid_of(pod), "main", command)
        return done.output.strip()

    async def ask(self, pod: Manifest, host: str, port: int, *, timeout: float = 5.0) -> str:
        """What a server answers to a pod, or the error."""
        return await self.run(pod, "python3", "-c", ASK, host, str(port), str(timeout))

    async def until_answer(self, pod: Manifest, host: str, port: int, wanted: str) -> None:
        """Waits until the answer to a pod begins with `wanted`."""
        answers: list[str] = []

        async def asked() -> bool:
            answers[:] = [await self.ask(pod, host, port, timeout=0.5)]
            return answers[0].startswith(wanted)

        try:
            await until(asked, "")
        except AssertionError:
            raise AssertionError(f"{host}:{port} answers {answers[0]!r}, not {wanted!r}") from None


async def until(question: Callable[[], Awaitable[T | None]], what: str) -> T:
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        if found := await question():
            return found
        await asyncio.sleep(POLL)
    raise AssertionError(what)


def skip_unless_possible(runtime: str) -> None:
    if reason := probe(runtime).reason:
        pytest.skip(f"{runtime}: {reason}")


@asynccontextmanager
async def pod_cluster(directory: Path, runtime: str = "netns", **options: Any) -> AsyncIterator[PodCluster]:
    """A cluster whose local node uses a runtime; options of the node have the prefix `node_`."""
    skip_unless_possible(runtime)
    of_node = {
        name.removeprefix("node_"): value for name, value in options.items() if name.startswith("node_")
    }
    others = {name: value for name, value in options.items() if not name.startswith("node_")}
    local = LocalNodeOptions(nodes=1, runtime=runtime, **of_node)
    cluster = LocalCluster(ClusterOptions(directory, durable=False, local=local, **others))
    try:
        await cluster.start()
        yield PodCluster(cluster)
    finally:
        await cluster.stop()
