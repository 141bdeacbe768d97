"""An API server on loopback whose pods are served by a backend of the test, and a client of it."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tests.apiserver.servers import ADMIN_TOKEN, TestServer
from volcano.apiserver.interfaces import User
from volcano.apiserver.proxy.kubelets import KubeletClientOptions
from volcano.apiserver.server import streams_body
from volcano.base.http.client_connection import RequestBody, StreamedReply
from volcano.base.http.dialer import Dialer
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.server import Server
from volcano.kube.api.manifest import Manifest

POD_IP = "10.9.0.1"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
READER = "the-reader"


class Backend:
    """A server that records requests; `answer` chooses the answer."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Awaitable[Answer]] = self._echo

    async def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        return await self.answer(request)

    async def _echo(self, request: Request) -> Answer:
        return Response(200, {"Content-Type": "text/plain"}, f"{request.method} {request.target}".encode())

    def respond(self, response: Answer) -> None:
        async def answer(request: Request) -> Answer:
            return response

        self.answer = answer


class World:
    """The API server, the backend of its pods, and requests to the API server."""

    def __init__(self, api: TestServer, url: str, backend: Backend, port: int) -> None:
        self.api, self.backend, self.port = api, backend, port
        self.client = ConnectionPool(url)

    async def create(self, path: str, manifest: Manifest, status: Manifest | None = None) -> None:
        made = await self.api.ask("POST", path, manifest)
        assert made.code == 201, made.body
        if status is not None:
            name = manifest["metadata"]["name"]
            patched = await self.api.ask(
                "PATCH",
                f"{path}/{name}/status",
                {"status": status},
                content_type="application/merge-patch+json",
            )
            assert patched.code == 200, patched.body

    async def create_pod(
        self, name: str = "web", *, address: str = POD_IP, phase: str = "Running", **spec: Any
    ) -> None:
        container = {"name": "main", "image": "web", "ports": [{"containerPort": 8080}]}
        manifest = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        status = {"phase": phase, **({"podIP": address, "podIPs": [{"ip": address}]} if address else {})}
        await self.create(PODS, manifest, status)

    async def create_service(self, *endpoints: Manifest, name: str = "web") -> None:
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        await self.create(SERVICES, {"metadata": {"name": name}, "spec": {"ports": ports}})
        slice_ = {
            "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": list(endpoints),
        }
        await self.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | RequestBody = b"",
        *,
        token: str = ADMIN_TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[StreamedReply, bytes]:
        """Sends a request over the network; returns the head and the whole body of the answer."""
        lines = {"Authorization": f"Bearer {token}", **(headers or {})}
        async with self.client.stream(method, target, lines, body) as reply:
            parts = []
            while part := await reply.body.read():
                parts.append(part)
            return reply, b"".join(parts)

    async def error(self, method: str, target: str, **options: Any) -> tuple[int, str, str]:
        """The code, reason and message of a failed request."""
        reply, body = await self.send(method, target, **options)
        status = orjson.loads(body)
        assert status["kind"] == "Status"
        assert status["code"] == reply.status
        return reply.status, status["reason"], status["message"]


@asynccontextmanager
async def running_world(
    *,
    tls: ssl.SSLContext | None = None,
    kubelets: KubeletClientOptions | None = None,
    tokens: Mapping[str, User] | None = None,
) -> AsyncIterator[World]:
    """With `tls`, the backend serves HTTPS. Every port of POD_IP leads to the backend."""
    backend = Backend()
    served = Server(backend, tls=tls, max_body=64 << 20)
    port = await served.start()

    async def route(host: str, number: int) -> socket.socket | None:
        return await Dialer().dial("127.0.0.1", port) if host == POD_IP else None

    api = await TestServer(dialer=Dialer(routes=[route]), kubelets=kubelets, tokens=tokens).start()
    server = Server(api.api, streams_body=streams_body)
    await server.start()
    world = World(api, server.url, backend, port)
    try:
        yield world
    finally:
        await world.client.close()
        await server.stop(grace=0.2)
        await served.stop(grace=0.2)
        await api.api.close()
