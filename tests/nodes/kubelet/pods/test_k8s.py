"""The kubelet as a node of a real Kubernetes: its API server accepts all statuses of pods and nodes."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.k8s.control_plane.build import program
from tests.k8s.control_plane.cluster import RealCluster
from tests.nodes.kubelet.pods.bench import container, spec
from tests.nodes.kubelet.pods.fake import FakeRuntime
from volcano.base.clock import SystemClock, VirtualClock
from volcano.kube.api.errors import AlreadyExists, NotFound
from volcano.kube.api.kinds import (
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SERVICE_ACCOUNT,
)
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client, Query
from volcano.kube.devices import vgpu
from volcano.nodes.kubelet.kubelet import Kubelet
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.kubelet.probes import handlers
from volcano.nodes.runtimes.process import ProcessRuntime
from volcano.nodes.shim.specs import Mode

pytestmark = pytest.mark.k8s

SPACE = "kubelet"
TIMEOUT = 30.0


class Real:
    """Pods on a real API server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, name: str, script: str, own: Manifest | None = None, **fields: Any) -> Manifest:
        main = container(**{"command": ["sh", "-c", script], **(own or {})})
        metadata = {"name": name, "namespace": SPACE}
        return await self.client.create(
            POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(main, **fields)}
        )

    async def until(self, name: str, true: Callable[[Manifest], object]) -> Manifest:
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while True:
            pod = await self.client.get(POD, Key(SPACE, name))
            if true(pod):
                return pod
            assert asyncio.get_running_loop().time() < deadline, f"never came true: {pod.get('status')}"
            await asyncio.sleep(0.05)

    async def holder_of_lease(self, name: str) -> str:
        """The holder of the lease; a starting server does not have the namespace yet."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while True:
            try:
                lease = await self.client.get(LEASE, Key("kube-node-lease", name))
                return str(lease["spec"]["holderIdentity"])
            except NotFound:
                assert asyncio.get_running_loop().time() < deadline, "no lease"
            await asyncio.sleep(0.1)


@asynccontextmanager
async def node(cluster: RealCluster, **options: Any) -> AsyncIterator[Real]:
    clock = SystemClock()
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), clock, environment={})
    account = {"name": "default", "namespace": SPACE}
    for kind, metadata in ((NAMESPACE, {"name": SPACE}), (SERVICE_ACCOUNT, account)):
        with contextlib.suppress(AlreadyExists):  # from another test
            await client.create(kind, {"apiVersion": "v1", "kind": kind.kind, "metadata": metadata})
    folder = Path(tempfile.mkdtemp(prefix="volcano-kubelet-"))
    ready = asyncio.Event()
    runtime = ProcessRuntime(folder, Mode.PLAIN)
    settings = KubeletOptions(folder, fake_gpus=2, **options)
    kubelet = Kubelet(settings, runtime, client, clock, on_ready=ready.set)
    task = asyncio.create_task(kubelet.run())
    try:
        await asyncio.wait_for(ready.wait(), TIMEOUT)
        yield Real(client)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await kubelet.close(keep=False)
        await client.close()
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_real_server_accepts_the_whole_lifecycle_of_pods(fresh_apiserver: RealCluster) -> None:
    async with node(fresh_apiserver) as it:
        made = await it.client.get(NODE, Key("", "local-0"))
        assert made["status"]["capacity"]["nvidia.com/gpu"] == "2"
        assert await it.holder_of_lease("local-0") == "local-0"
        init = container("i", command=["true"])
        sidecar = container("s", command=["sleep", "100"], restartPolicy="Always")
        await it.create("once", "exit 3", restartPolicy="Never", initContainers=[init, sidecar])
        await it.create("loops", "exit 1")
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
        await it.create("stays", "sleep 100", {"readinessProbe": probe, "livenessProbe": probe})
        await it.create("broken", "", {"command": ["/no/such/program"]})
        once = await it.until("once", lambda pod: pod["status"]["phase"] == "Failed")
        assert once["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert {c["type"] for c in once["status"]["conditions"]} >= {"Ready", "PodReadyToStartContainers"}
        loops = await it.until("loops", _waiting_for("CrashLoopBackOff"))
        assert loops["status"]["containerStatuses"][0]["restartCount"] == 1
        await it.until("stays", lambda pod: _ready(pod) == "True")
        await it.until("broken", _waiting_for("RunContainerError"))
        await it.client.delete(POD, Key(SPACE, "stays"))
        with pytest.raises(NotFound):
            await it.until("stays", lambda pod: False)
        reasons = {event["reason"] for event in (await it.client.list(EVENT, Query(namespace=SPACE))).items}
        assert reasons >= {"Pulled", "Created", "Started", "Killing", "BackOff", "Failed"}


async def test_a_real_server_accepts_the_slices_of_a_node_and_the_claims_of_its_pods(
    fresh_apiserver: RealCluster,
) -> None:
    async with node(fresh_apiserver, publish_devices=True) as it:
        assert "nvidia.com/gpu" not in (await it.client.get(NODE, Key("", "local-0")))["status"]["capacity"]
        (found,) = (await it.client.list(RESOURCE_SLICE)).items
        assert [device["name"] for device in found["spec"]["devices"]] == ["gpu-0", "gpu-1"]
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        metadata = {"name": "one", "namespace": SPACE}
        spec = {"devices": {"requests": [request]}}
        kind = {"apiVersion": RESOURCE_CLAIM.api_version, "kind": RESOURCE_CLAIM.kind}
        claim = await it.client.create(RESOURCE_CLAIM, {**kind, "metadata": metadata, "spec": spec})
        own = {"resources": {"claims": [{"name": "own"}]}}
        claims = [{"name": "own", "resourceClaimName": "one"}]
        pod = await it.create(
            "claiming", 'test "$CUDA_VISIBLE_DEVICES" = 1', own, restartPolicy="Never", resourceClaims=claims
        )
        result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "local-0", "device": "gpu-1"}
        user = {"resource": "pods", "name": "claiming", "uid": pod["metadata"]["uid"]}
        claim["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        await it.client.update(RESOURCE_CLAIM, claim, subresource="status")
        await it.until("claiming", lambda pod: pod["status"]["phase"] == "Succeeded")


async def test_a_real_server_accepts_the_registration_of_shared_cards(fresh_apiserver: RealCluster) -> None:
    async with node(fresh_apiserver, share_gpus=4) as it:
        made = await it.client.get(NODE, Key("", "local-0"))
        assert len(vgpu.parse_register(made["metadata"]["annotations"][vgpu.REGISTER])) == 2
        assert made["status"]["allocatable"][vgpu.NUMBER] == "8"
        limits = {"resources": {"limits": {vgpu.NUMBER: "1", vgpu.MEMORY: "4000"}}}
        await it.create("unassigned", "true", limits, restartPolicy="Never")
        pod = await it.until("unassigned", lambda pod: pod["status"]["phase"] == "Failed")
        assert pod["status"]["reason"] == "UnexpectedAdmissionError"


def _waiting_for(reason: str) -> Callable[[Manifest], bool]:
    def waits(pod: Manifest) -> bool:
        entries = pod["status"].get("containerStatuses") or [{}]
        return bool(entries[0].get("state", {}).get("waiting", {}).get("reason") == reason)

    return waits


def _ready(pod: Manifest) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[int]:
    """A real gRPC server with the standard health service: its port."""
    ports = []
    for _ in range(2):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            ports.append(taken.getsockname()[1])
    client, peer = (f"http://127.0.0.1:{port}" for port in ports)
    command = [
        str(program("etcd")), "--data-dir", str(tmp_path), "--listen-client-urls", client,
        "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}", "--log-level", "error",
    ]  # fmt: skip
    process = subprocess.Popen(command)
    yield ports[0]
    process.terminate()
    process.wait()


async def test_a_real_grpc_server_is_asked_how_it_is(etcd: int) -> None:
    runtime = FakeRuntime(VirtualClock())

    def connected() -> socket.socket:
        made = socket.create_connection(("127.0.0.1", etcd))
        made.setblocking(False)
        return made

    runtime.listening[etcd] = connected
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while not (outcome := await handlers.grpc(runtime, "u", "127.0.0.1", {"port": etcd})).success:
        assert asyncio.get_running_loop().time() < deadline, outcome.output
        await asyncio.sleep(0.1)
    assert 'responded with "SERVING"' in outcome.output
    unknown = await handlers.grpc(runtime, "u", "127.0.0.1", {"port": etcd, "service": "unknown"})
    assert unknown.success is False
