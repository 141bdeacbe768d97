"""Logs, exec, attach, port-forward and `nodes/proxy` through a kubelet's HTTPS API with client certificates."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.apiserver.proxy.world import PODS, World, running_world
from tests.apiserver.servers import ADMIN_TOKEN
from volcano.apiserver.proxy.kubelets import CLIENT_NAME, KubeletClientOptions
from volcano.base.http.messages import Answer, Connection, Request, Response, Stream, Upgrade
from volcano.base.http.tls import Authority, create_authority, issue, server_context
from volcano.base.http.websocket import WebSocket, accept, connect
from volcano.kube.api.manifest import Manifest

AUTHORITY = create_authority("cluster", now=time.time())
OTHER_AUTHORITY = create_authority("other", now=time.time())
LOOPBACK = [{"type": "InternalIP", "address": "127.0.0.1"}]
HEADERS = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


async def kubelet(request: Request) -> Answer:
    """The part of the kubelet's API that the API server uses."""
    if request.peer.common_name != CLIENT_NAME or "system:masters" not in request.peer.organizations:
        return Response(401, {"Content-Type": "text/plain"}, b"Unauthorized")
    match request.path.split("/")[1:]:
        case ["containerLogs", namespace, pod, container]:
            if request.parameter("previous"):
                message = f'previous terminated container "{container}" in pod "{pod}" not found'
                return Response(400, {"Content-Type": "text/plain"}, message.encode())
            return Stream(_log(f"{namespace}/{pod}/{container} {request.target.partition('?')[2]}\n"))
        case ["exec" | "attach", _, _, _] if "websocket" in request.headers.get("upgrade", "").lower():
            return accept(request, _echo_messages, protocols=["v4.channel.k8s.io"])
        case ["exec" | "attach" | "portForward", *_]:
            return Upgrade(_echo, {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"})
        case ["pods"]:
            return Response(200, {"Content-Type": "application/json"}, b'{"kind":"PodList"}')
        case ["metrics"]:
            return Response(200, {"Content-Type": "text/plain"}, b"kubelet_running_pods 1\n")
    return Response(404, {"Content-Type": "text/plain"}, b"404 page not found\n")


async def _log(line: str) -> AsyncIterator[bytes]:
    yield line.encode()


async def _echo(connection: Connection) -> None:
    while data := await connection.read():
        await connection.write(data.upper())


async def _echo_messages(socket: WebSocket) -> None:
    while (message := await socket.receive()) is not None:
        await socket.send(message.data)


@asynccontextmanager
async def cluster(
    *, verify: Authority | None = None, node: Manifest | None = None, hosts: tuple[str, ...] = ("127.0.0.1",)
) -> AsyncIterator[World]:
    """A cluster with the pod `web` on the node `worker`, whose kubelet is served on loopback."""
    serving = issue(AUTHORITY, "worker", now=time.time(), hosts=hosts, server=True)
    client = issue(AUTHORITY, CLIENT_NAME, organizations=("system:masters",), now=time.time(), client=True)
    options = KubeletClientOptions(client, verify.cert_pem if verify else None)
    tls = server_context(serving, client_authority=AUTHORITY.cert_pem)
    async with running_world(tls=tls, kubelets=options) as world:
        world.backend.answer = kubelet
        status = {
            "addresses": LOOPBACK,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": world.port}},
            **(node or {}),
        }
        await world.create("/api/v1/nodes", {"metadata": {"name": "worker"}}, status)
        await world.create_pod(nodeName="worker")
        yield world


@pytest.mark.parametrize("verify", [None, AUTHORITY], ids=["unverified", "verified"])
async def test_logs_come_from_the_kubelet(verify: Authority | None) -> None:
    async with cluster(verify=verify) as world:
        query = "tailLines=2&follow=true&timestamps=true&limitBytes=100&sinceTime=2026-01-02T03:04:05Z"
        reply, body = await world.send("GET", f"{PODS}/web/log?{query}")
    assert reply.status == 200
    assert (
        body
        == (
            b"default/web/main follow=true&timestamps=true&sinceTime=2026-01-02T03%3A04%3A05.000000Z&tailLines=2"
            b"&limitBytes=100\n"
        )[:100]
    )


async def test_errors_of_the_kubelet_are_passed_on() -> None:
    async with cluster() as world:
        answer = await world.error("GET", f"{PODS}/web/log?previous=true")
    assert answer == (400, "BadRequest", 'previous terminated container "main" in pod "web" not found')


async def test_a_kubelet_whose_certificate_is_not_trusted_is_rejected() -> None:
    async with cluster(verify=OTHER_AUTHORITY) as world:
        code, reason, message = await world.error("GET", f"{PODS}/web/log")
        upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        failed = await world.error("POST", f"{PODS}/web/exec?command=ls&stdout=true", headers=upgrade)
    assert (code, reason) == (500, "")
    assert "/containerLogs/default/web/main" in message
    assert "is not trusted" in message
    assert failed[0] == 500
    assert failed[2].startswith("error dialing backend: ")
    assert not world.backend.requests


async def test_a_certificate_for_another_address_is_rejected() -> None:
    async with cluster(verify=AUTHORITY, hosts=("192.0.2.1",)) as world:
        assert "is not trusted" in (await world.error("GET", f"{PODS}/web/log"))[2]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "exec?command=ls&command=-l%20x&stdin=true&stdout=true&tty=true",
            "/exec/default/web/main?input=1&output=1&tty=1&command=ls&command=-l+x",
        ),
        ("attach?container=main&stdout=true&stderr=1", "/attach/default/web/main?output=1&error=1"),
        ("portforward?ports=80&ports=81", "/portForward/default/web?port=80&port=81"),
        ("portforward", "/portForward/default/web"),
    ],
)
async def test_spdy_streams_pass_through_to_the_kubelet(target: str, expected: str) -> None:
    async with cluster() as world:
        headers = {
            **HEADERS,
            "Connection": "Upgrade",
            "Upgrade": "SPDY/3.1",
            "X-Stream-Protocol-Version": "v4.channel.k8s.io",
        }
        async with world.client.stream("POST", f"{PODS}/web/{target}", headers) as reply:
            assert reply.status == 101
            assert reply.headers["x-stream-protocol-version"] == "v4.channel.k8s.io"
            await reply.body.write(b"\x80frame")
            assert await reply.body.read() == b"\x80FRAME"
        received = world.backend.requests[-1]
        assert (received.method, received.target) == ("POST", expected)
        assert "authorization" not in received.headers
        assert received.headers["x-stream-protocol-version"] == "v4.channel.k8s.io"


async def test_websocket_streams_pass_through_to_the_kubelet() -> None:
    async with cluster() as world:
        target = f"{PODS}/web/exec?command=cat&stdin=true&stdout=true"
        async with connect(world.client, target, HEADERS, protocols=["v4.channel.k8s.io"]) as socket:
            assert socket.subprotocol == "v4.channel.k8s.io"
            await socket.send(b"\x00hello")
            message = await socket.receive()
            assert message is not None
            assert message.data == b"\x00hello"


async def test_streams_need_an_upgrade() -> None:
    async with cluster() as world:
        answer = await world.error("POST", f"{PODS}/web/exec?command=ls&stdout=true")
    assert answer == (400, "BadRequest", "Upgrade request required")


@pytest.mark.parametrize(
    ("path", "expected"), [("pods", b'{"kind":"PodList"}'), ("metrics", b"kubelet_running_pods 1\n")]
)
async def test_nodes_proxy_reaches_the_kubelet(path: str, expected: bytes) -> None:
    async with cluster() as world:
        for name in ("worker", f"worker:{world.port}", f"https:worker:{world.port}"):
            reply, body = await world.send("GET", f"/api/v1/nodes/{name}/proxy/{path}")
            assert (reply.status, body) == (200, expected)
        assert await world.error("GET", "/api/v1/nodes/worker:80/proxy/") == (
            400,
            "BadRequest",
            "address not allowed",
        )


NODE = "/api/v1/nodes/worker/proxy/pods"
LOG = f"{PODS}/web/log"


@pytest.mark.parametrize("target", [NODE, LOG])
@pytest.mark.parametrize(
    ("node", "code", "message"),
    [
        pytest.param(
            {"addresses": []}, 500, "no preferred addresses found; known addresses: []", id="no address"
        ),
        pytest.param(
            {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}},
            503,
            'node "worker" has no kubelet endpoint: status.daemonEndpoints.kubeletEndpoint.Port is not set',
            id="no endpoint",
        ),
        pytest.param(
            {"addresses": [{"type": "InternalIP", "address": "169.254.169.254"}]},
            None,
            "169.254.169.254 is no address of a node",
            id="link-local address",
        ),
    ],
)
async def test_nodes_without_a_kubelet_endpoint_are_errors(
    target: str, node: dict[str, Any], code: int | None, message: str
) -> None:
    async with cluster(node=node) as world:
        answer = await world.error("GET", target)
    assert code is None or answer[0] == code
    assert message in answer[2]


@pytest.mark.parametrize("target", [NODE, LOG, f"{PODS}/web/exec?command=ls&stdout=true"])
async def test_simulated_nodes_have_no_kubelet(target: str) -> None:
    async with cluster() as world:
        labels = {"metadata": {"labels": {"volcano.sh/simulated": "true"}}}
        kind = "application/merge-patch+json"
        assert (await world.api.ask("PATCH", "/api/v1/nodes/worker", labels, content_type=kind)).code == 200
        upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"} if "exec" in target else {}
        answer = await world.error("GET", target, headers=upgrade)
    assert answer == (501, "NotImplemented", 'node "worker" is simulated: it has no kubelet')


async def test_a_kubelet_that_does_not_listen_is_an_error() -> None:
    async with cluster(node={"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}) as world:
        code, reason, message = await world.error("GET", f"{PODS}/web/log")
        assert (code, reason) == (500, "")
        assert message.startswith('Get "https://127.0.0.1:1/containerLogs/default/web/main": ')
        assert "connection refused" in message
        code, reason, message = await world.error("GET", NODE)
        assert (code, reason) == (503, "ServiceUnavailable")
        assert message.startswith("error trying to reach service: ")


async def test_addresses_are_chosen_by_type() -> None:
    addresses = [
        {"type": "ExternalIP", "address": "192.0.2.1"},
        {"type": "Hostname", "address": "does-not-resolve.invalid"},
        *LOOPBACK,
    ]
    async with cluster(node={"addresses": addresses}) as world:
        assert (await world.send("GET", NODE))[0].status == 200
