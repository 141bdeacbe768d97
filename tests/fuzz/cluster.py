"""The cluster under test: a whole local cluster with all controllers, the scheduler, nodes and watchers, or only its
API server, which takes a fraction of the time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.apiserver.servers import ADMIN_TOKEN, TestServer
from tests.fuzz.monitor import Monitor
from tests.fuzz.samples import NAMESPACE
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.endpoints.responses import malformed_response
from volcano.apiserver.server import ApiServer
from volcano.base.http.messages import Request, Response, Stream
from volcano.base.http.server import Server
from volcano.embedded import components
from volcano.embedded.admission import admission_options, mutating_plugin, validating_plugin
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.nodes.pools import parse_pools

NODES = "cpu=8,memory=16Gi,count=3"
POD_SECONDS = 0.2
MOST_PODS = 150  # of workloads whose replicas are mutated to a large number
WATCHED = (kinds.POD, kinds.JOB, kinds.POD_GROUP, kinds.CONFIG_MAP, kinds.DEPLOYMENT, kinds.CRD)


class FuzzedCluster:
    """An API server, requests to it as administrator, and a listener without TLS."""

    def __init__(self, api: ApiServer, token: str, monitor: Monitor, listener: Server) -> None:
        self.api = api
        self.token = token
        self.monitor = monitor
        self.listener = listener

    def kind_of(self, manifest: Manifest) -> Kind:
        served = self.api.registry.kinds.by_manifest(manifest["apiVersion"], manifest["kind"])
        assert served is not None, manifest
        return served.kind

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        query: dict[str, list[str]] | None = None,
        **headers: str,
    ) -> tuple[int, bytes]:
        """Sends a request and checks its answer; of a stream the first chunk is read."""
        sent = {"authorization": f"Bearer {self.token}", "content-type": content_type, **headers}
        self.monitor.request = f"{method} {path} {query} {content_type} {body[:1200]!r}"
        request = Request(method, path, query or {}, sent, body, target=path)
        await asyncio.sleep(0)  # as between requests from a connection: without a disk nothing suspends
        answer = await self.api(request)
        if isinstance(answer, Stream):
            with contextlib.suppress(TimeoutError, StopAsyncIteration):
                await asyncio.wait_for(anext(answer.chunks), 0.005)
            await answer.chunks.aclose()  # type: ignore[attr-defined]
            self.monitor.answered(answer.status, b"")
            return answer.status, b""
        if not isinstance(answer, Response):
            self.monitor.codes[101] += 1
            return 101, b""
        self.monitor.answered(answer.status, answer.body)
        return answer.status, answer.body


@contextlib.asynccontextmanager
async def fuzzed_cluster(directory: Path, monitor: Monitor) -> AsyncIterator[FuzzedCluster]:
    """Starts the cluster; errors count as soon as it is ready."""
    options = ClusterOptions(
        directory, durable=False, pools=parse_pools([], [NODES]), sim_duration=POD_SECONDS
    )
    async with LocalCluster(options) as cluster:
        assert cluster.control_plane is not None
        listener = Server(cluster.control_plane.api_server, on_malformed=malformed_response)
        async with listener, monitor.watching(), _watchers(cluster):
            plane = cluster.control_plane
            fuzzed = FuzzedCluster(plane.api_server, plane.credentials.admin_token, monitor, listener)
            await _prepare(fuzzed)
            yield fuzzed
            await asyncio.sleep(1.2)  # a component that failed at the end is restarted and fails again


@contextlib.asynccontextmanager
async def fuzzed_server(monitor: Monitor) -> AsyncIterator[FuzzedCluster]:
    """Starts only an API server, with the admission of a whole cluster."""
    batch = admission_options()
    server = TestServer(
        mutating=mutating_plugin(batch), validating=validating_plugin(batch), disabled_plugins=()
    )
    await server.start()
    client = DirectClient(server.registry)
    for kind, manifest in [*components.crds(), *components.priority_classes()]:
        await client.create(kind, manifest)
    for name in ("root", "default"):
        await client.create(kinds.QUEUE, _object(kinds.QUEUE, name, spec={}))
    listener = Server(server.api, on_malformed=malformed_response)
    async with listener, monitor.watching():
        await client.create(kinds.NAMESPACE, _object(kinds.NAMESPACE, NAMESPACE))
        account = _object(kinds.SERVICE_ACCOUNT, "default")
        account["metadata"]["namespace"] = NAMESPACE
        await client.create(kinds.SERVICE_ACCOUNT, account)
        yield FuzzedCluster(server.api, ADMIN_TOKEN, monitor, listener)


def _object(kind: Kind, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **fields}


async def _prepare(fuzzed: FuzzedCluster) -> None:
    client = DirectClient(fuzzed.api.registry)
    await client.create(kinds.NAMESPACE, _object(kinds.NAMESPACE, NAMESPACE))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "most-pods", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": str(MOST_PODS)}},
    }
    await client.create(kinds.RESOURCE_QUOTA, quota)
    for _ in range(500):
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        if (await fuzzed.send("GET", accounts))[0] == 200:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the namespace has no default ServiceAccount")


@contextlib.asynccontextmanager
async def _watchers(cluster: LocalCluster) -> AsyncIterator[None]:
    """Clients that watch some kinds all the time."""

    async def watch(kind: Kind) -> None:
        while True:
            async for _ in cluster.client.watch(kind):
                pass
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(watch(kind)) for kind in WATCHED]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
