"""`pods/proxy` and `services/proxy` over the network."""

import asyncio
import gzip
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from tests.apiserver.proxy.world import POD_IP, PODS, SERVICES, World, running_world
from tests.apiserver.servers import ADMIN_TOKEN
from volcano.apiserver.interfaces import User
from volcano.base.http.client_connection import RequestBody, RequestFailed
from volcano.base.http.messages import Answer, Connection, HeaderLines, Request, Response, Stream, Upgrade
from volcano.base.http.tls import create_authority, issue, server_context
from volcano.base.http.websocket import WebSocket, accept, connect

TARGET = {"kind": "Pod", "name": "web", "namespace": "default"}
ENDPOINT = {"addresses": [POD_IP], "conditions": {"ready": True}, "targetRef": TARGET}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    users = {
        "reader": User("reader", ("system:authenticated",)),
        "writer": User("writer", ("system:authenticated",)),
    }
    async with running_world(tokens=users) as world:
        yield world


class Parts:
    """A request body that arrives in parts."""

    def __init__(self, *parts: bytes, error: Exception | None = None) -> None:
        self._parts = list(parts)
        self._error = error

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        if not self._parts and self._error is not None:
            raise self._error
        return self._parts.pop(0) if self._parts else b""


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_reaches_the_pod_with_path_query_and_body(world: World, method: str) -> None:
    await world.create_pod()
    sent = b"" if method in ("GET", "OPTIONS") else b"payload"
    reply, body = await world.send(method, f"{PODS}/web/proxy/a%20b//c/?x=1&y=%2F", sent)
    assert (reply.status, body) == (200, f"{method} /a%20b//c/?x=1&y=%2F".encode())
    received = world.backend.requests[-1]
    assert received.body == sent


async def test_head_has_the_length_of_the_body_and_no_body(world: World) -> None:
    await world.create_pod()
    world.backend.respond(Response(200, {"Content-Type": "text/plain"}, b"12345"))
    reply, body = await world.send("HEAD", f"{PODS}/web/proxy/")
    assert (reply.status, reply.headers["content-length"], body) == (200, "5", b"")


async def test_headers_are_forwarded_without_the_credentials_of_the_api_server(world: World) -> None:
    await world.create_pod()
    headers = {
        "X-Custom": "kept",
        "Cookie": "a=b",
        "Impersonate-User": "system:admin",
        "Impersonate-Group": "system:masters",
        "Connection": "X-Hop",
        "X-Hop": "dropped",
        "X-Forwarded-For": "192.0.2.1",
    }
    await world.send("GET", f"{PODS}/web/proxy/page", headers=headers)
    received = world.backend.requests[-1].headers
    assert received["x-custom"] == "kept"
    assert received["cookie"] == "a=b"
    assert received["x-forwarded-for"] == "192.0.2.1, 127.0.0.1"
    assert received["x-forwarded-uri"] == f"{PODS}/web/proxy/page"
    assert not {"authorization", "impersonate-user", "impersonate-group", "x-hop"} & set(received)


async def test_responses_keep_status_and_repeated_headers_but_no_cross_origin_ones(world: World) -> None:
    await world.create_pod()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"teapot"

    headers: HeaderLines = {"Set-Cookie": ("a=1", "b=2"), "Access-Control-Allow-Origin": "*", "X-Own": "yes"}
    world.backend.respond(Stream(chunks(), 418, headers))
    reply, body = await world.send("GET", f"{PODS}/web/proxy/")
    assert (reply.status, body, reply.headers["x-own"]) == (418, b"teapot", "yes")
    assert [value for name, value in reply.lines if name.lower() == "set-cookie"] == ["a=1", "b=2"]
    assert "access-control-allow-origin" not in reply.headers


async def test_a_path_without_slash_is_redirected(world: World) -> None:
    await world.create_pod()
    reply, _ = await world.send("GET", f"{PODS}/web/proxy?x=1")
    assert (reply.status, reply.headers["location"]) == (301, f"{PODS}/web/proxy/?x=1")
    assert not world.backend.requests
    reply, body = await world.send("POST", f"{PODS}/web/proxy", b"x")
    assert (reply.status, body) == (200, b"POST /")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        pytest.param("/login?next=/", f"{PODS}/web/proxy/login?next=/", id="path"),
        pytest.param(f"http://{POD_IP}:8080/login/", f"{PODS}/web/proxy/login/", id="own host"),
        pytest.param("relative", "relative", id="relative"),
        pytest.param("https://example.com/x", "https://example.com/x", id="other host"),
        pytest.param(f"{PODS}/web/proxy/x", f"{PODS}/web/proxy/x", id="already proxied"),
    ],
)
async def test_redirects_lead_through_the_proxy(world: World, location: str, expected: str) -> None:
    await world.create_pod()
    world.backend.respond(Response(302, {"Location": location}))
    reply, _ = await world.send("GET", f"{PODS}/web/proxy/")
    assert (reply.status, reply.headers["location"]) == (302, expected)


@pytest.mark.parametrize("compressed", [False, True])
async def test_links_of_html_pages_lead_through_the_proxy(world: World, compressed: bool) -> None:
    await world.create_pod()
    page = (
        "<!DOCTYPE html>\n<a href=\"/x?a=1&amp;b=2\">ä</a><img alt='/no' src='/i.png'><a href=rel>r</a>\n"
        '<script>var s = "<a href=\\"/kept\\">";</script><a href="//other/x">o</a>'
    ).encode()
    headers = {"Content-Type": "text/html; charset=utf-8"} | (
        {"Content-Encoding": "gzip"} if compressed else {}
    )
    world.backend.respond(Response(200, headers, gzip.compress(page) if compressed else page))
    reply, body = await world.send("GET", f"{PODS}/web/proxy/")
    text = (gzip.decompress(body) if compressed else body).decode()
    proxy = f"{PODS}/web/proxy"
    assert text == (
        f'<!DOCTYPE html>\n<a href="{proxy}/x?a=1&amp;b=2">ä</a><img alt=\'/no\' src="{proxy}/i.png">'
        '<a href=rel>r</a>\n<script>var s = "<a href=\\"/kept\\">";</script><a href="//other/x">o</a>'
    )
    assert reply.headers.get("content-encoding", "") == ("gzip" if compressed else "")


async def test_responses_arrive_as_they_are_made(world: World) -> None:
    await world.create_pod()
    go = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        await go.wait()
        yield b"two"

    world.backend.respond(Stream(chunks()))
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with world.client.stream("GET", f"{PODS}/web/proxy/", headers) as reply:
        assert await reply.body.read() == b"one"
        go.set()
        assert await reply.body.read() == b"two"


async def test_a_response_that_breaks_off_is_not_taken_for_complete(world: World) -> None:
    await world.create_pod()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.sleep(0.05)
        raise RuntimeError("broken")

    world.backend.respond(Stream(chunks()))
    with pytest.raises(RequestFailed):
        await world.send("GET", f"{PODS}/web/proxy/")


async def test_a_backend_that_does_not_answer_is_left_when_the_client_disconnects(world: World) -> None:
    await world.create_pod()
    cancelled = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    world.backend.respond(Stream(chunks()))
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with world.client.stream("GET", f"{PODS}/web/proxy/", headers) as reply:
        await reply.body.read()
    async with asyncio.timeout(10):
        await cancelled.wait()


@pytest.mark.parametrize("length", [None, 40 << 20])
async def test_large_bodies_are_streamed_to_the_pod(world: World, length: int | None) -> None:
    await world.create_pod()
    parts = [bytes([number]) * (1 << 20) for number in range(40)]

    async def answer(request: Request) -> Answer:
        return Response(200, {}, str(len(request.body)).encode())

    world.backend.answer = answer
    framing = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
    body = RequestBody(Parts(*parts), chunked=length is None)
    reply, answered = await world.send("PUT", f"{PODS}/web/proxy/upload", body, headers=framing)
    assert (reply.status, answered) == (200, str(40 << 20).encode())
    assert world.backend.requests[-1].body == b"".join(parts)


async def test_a_rejected_request_with_a_large_body_gets_its_error(world: World) -> None:
    body = RequestBody(Parts(*[b"x" * (1 << 20)] * 8), chunked=True)
    answer = await world.error(
        "PUT", f"{PODS}/none/proxy/", body=body, headers={"Transfer-Encoding": "chunked"}
    )
    assert answer == (404, "NotFound", 'pods "none" not found')


async def test_a_body_that_breaks_off_does_not_reach_the_pod_as_complete(world: World) -> None:
    await world.create_pod()
    body = RequestBody(Parts(b"half", error=ConnectionResetError("gone")), chunked=True)
    with pytest.raises(RequestFailed):
        await world.send("PUT", f"{PODS}/web/proxy/", body, headers={"Transfer-Encoding": "chunked"})
    await asyncio.sleep(0.1)
    assert not world.backend.requests


async def test_websockets_pass_through(world: World) -> None:
    await world.create_pod()

    async def echo(socket: WebSocket) -> None:
        async for message in socket:
            await socket.send(b"echo " + message.data)

    async def answer(request: Request) -> Answer:
        return accept(request, echo, protocols=["chat"])

    world.backend.answer = answer
    protocols = [f"base64url.bearer.authorization.k8s.io.{'x' * 8}", "chat"]
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with connect(world.client, f"{PODS}/web/proxy/ws?a=1", headers, protocols=protocols) as socket:
        assert socket.subprotocol == "chat"
        await socket.send(b"hello")
        message = await socket.receive()
        assert message is not None
        assert message.data == b"echo hello"
    received = world.backend.requests[-1]
    assert received.target == "/ws?a=1"
    assert received.headers["sec-websocket-protocol"] == "chat"
    assert "authorization" not in received.headers


async def test_other_upgrades_pass_through(world: World) -> None:
    await world.create_pod()

    async def run(connection: Connection) -> None:
        while data := await connection.read():
            await connection.write(data.upper())

    world.backend.respond(Upgrade(run, {"Upgrade": "own/1"}))
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Connection": "Upgrade", "Upgrade": "own/1"}
    async with world.client.stream("GET", f"{PODS}/web/proxy/", headers) as reply:
        assert (reply.status, reply.headers["upgrade"]) == (101, "own/1")
        await reply.body.write(b"abc")
        assert await reply.body.read() == b"ABC"


async def test_an_upgrade_that_the_pod_rejects_is_answered_with_its_error(world: World) -> None:
    await world.create_pod()
    world.backend.respond(Response(403, {"Content-Type": "text/plain"}, b"no"))
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    reply, body = await world.send("GET", f"{PODS}/web/proxy/", headers=upgrade)
    assert (reply.status, body) == (403, b"no")


async def test_an_upgrade_to_which_the_pod_answers_plainly_is_an_error(world: World) -> None:
    await world.create_pod()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    answer = await world.error("GET", f"{PODS}/web/proxy/", headers=upgrade)
    assert answer == (500, "", "invalid upgrade response: status code 200")


async def test_https_backends_are_reached_with_the_scheme_in_the_name() -> None:
    authority = create_authority("pods", now=time.time())
    tls: ssl.SSLContext = server_context(issue(authority, "web", now=time.time(), hosts=["web"], server=True))
    async with running_world(tls=tls) as world:
        await world.create_pod()
        await world.create_service(ENDPOINT)
        for target in (f"{PODS}/https:web:8443/proxy/x", f"{SERVICES}/https:web:http/proxy/x"):
            reply, body = await world.send("GET", target)
            assert (reply.status, body) == (200, b"GET /x")


@pytest.mark.parametrize("name", ["web:80", "web:http", "http:web:80", "http:web:http"])
async def test_services_are_reached_by_number_and_name_of_their_port(world: World, name: str) -> None:
    await world.create_pod()
    await world.create_service(ENDPOINT)
    reply, body = await world.send("GET", f"{SERVICES}/{name}/proxy/path?q=1")
    assert (reply.status, body) == (200, b"GET /path?q=1")


UNREADY = {**ENDPOINT, "conditions": {"ready": False}}
NO_TARGET = {"addresses": [POD_IP]}
OTHER_ADDRESS = {**ENDPOINT, "addresses": ["10.9.0.77"]}


@pytest.mark.parametrize(
    "endpoint",
    [
        pytest.param(UNREADY, id="not ready"),
        pytest.param(NO_TARGET, id="no pod"),
        pytest.param(OTHER_ADDRESS, id="address of another"),
    ],
)
async def test_only_ready_addresses_of_pods_are_endpoints(world: World, endpoint: dict[str, object]) -> None:
    await world.create_pod()
    await world.create_service(endpoint)
    expected = (503, "ServiceUnavailable", 'no endpoints available for service "web:80"')
    assert await world.error("GET", f"{SERVICES}/web:80/proxy/") == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (f"{PODS}/none/proxy/", (404, "NotFound", 'pods "none" not found')),
        (f"{PODS}/ftp:web:80/proxy/", (400, "BadRequest", 'invalid pod request "ftp:web:80"')),
        (f"{PODS}/no-address/proxy/", (400, "BadRequest", "address not allowed")),
        (f"{PODS}/loopback/proxy/", (400, "BadRequest", "address not allowed")),
        (f"{PODS}/metadata/proxy/", (400, "BadRequest", "address not allowed")),
        (f"{SERVICES}/none:80/proxy/", (404, "NotFound", 'services "none" not found')),
        (f"{SERVICES}/none/proxy/", (404, "NotFound", 'services "none" not found')),
        (f"{SERVICES}/a:b:c:d/proxy/", (400, "BadRequest", 'invalid service request "a:b:c:d"')),
        (
            f"{SERVICES}/web:81/proxy/",
            (503, "ServiceUnavailable", 'no service port 81 found for service "web"'),
        ),
        (
            f"{SERVICES}/web:other/proxy/",
            (503, "ServiceUnavailable", 'no endpoints available for service "web:other"'),
        ),
        (
            f"{PODS}/done/proxy/",
            (
                503,
                "ServiceUnavailable",
                'error trying to reach service: pod "done" is not running (phase Succeeded)',
            ),
        ),
    ],
)
async def test_targets_that_cannot_be_reached_are_errors(
    world: World, target: str, expected: tuple[int, str, str]
) -> None:
    await world.create_pod("no-address", address="")
    await world.create_pod("loopback", address="127.0.0.1")
    await world.create_pod("metadata", address="169.254.169.254")
    await world.create_pod("done", address=POD_IP, phase="Succeeded")
    await world.create_service(ENDPOINT)
    assert await world.error("GET", target) == expected


@pytest.mark.parametrize("target", [f"{PODS}/web/proxy/", f"{SERVICES}/web:http/proxy/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_addresses_outside_the_cluster_are_not_dialled(world: World, target: str, method: str) -> None:
    await world.create_pod(address="192.0.2.10")
    await world.create_service({**ENDPOINT, "addresses": ["192.0.2.10"]})
    code, reason, message = await world.error(method, target)
    assert (code, reason) == (503, "ServiceUnavailable")
    assert message.startswith("error trying to reach service: ")
    assert "--allow-egress 192.0.2.10" in message


async def test_pods_on_simulated_nodes_have_no_process_to_reach(world: World) -> None:
    labels = {"volcano.sh/simulated": "true"}
    await world.create("/api/v1/nodes", {"metadata": {"name": "sim-1", "labels": labels}})
    await world.create_pod(nodeName="sim-1")
    code, reason, message = await world.error("GET", f"{PODS}/web/proxy/")
    assert (code, reason) == (501, "NotImplemented")
    assert "simulated node" in message


async def test_each_method_needs_its_verb_on_the_subresource(world: World) -> None:
    await world.create_pod()
    role = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}],
    }
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    await world.create(f"{rbac}/roles", role)
    await world.create(f"{rbac}/rolebindings", binding)
    reply, _ = await world.send("GET", f"{PODS}/web/proxy/", token="reader")
    assert reply.status == 200
    code, reason, message = await world.error("POST", f"{PODS}/web/proxy/", token="reader")
    assert (code, reason) == (403, "Forbidden")
    assert 'User "reader" cannot create resource "pods/proxy"' in message
    assert (await world.error("GET", f"{SERVICES}/web/proxy/", token="reader"))[0] == 403
