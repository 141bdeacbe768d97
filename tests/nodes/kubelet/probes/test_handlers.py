"""Probes and hooks over real sockets and pipes."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.nodes.kubelet.pods.bench import container
from tests.nodes.kubelet.pods.fake import FakeRuntime
from volcano.base.clock import SystemClock, VirtualClock
from volcano.base.http import tls
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.container_state import containers_of
from volcano.nodes.kubelet.probes import handlers
from volcano.nodes.kubelet.probes.grpc_health import GrpcHealthError, check_health
from volcano.nodes.kubelet.probes.handlers import HandlerResult
from volcano.nodes.kubelet.probes.prober import run_hook, run_probe, run_with_timeout

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[FakeRuntime]:
    """A runtime whose pod answers at port 80."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=context)
    runtime = FakeRuntime(VirtualClock())
    address = server.sockets[0].getsockname()

    def connected() -> socket.socket:
        made = socket.create_connection(address[:2])
        made.setblocking(False)
        return made

    runtime.listening[80] = connected
    async with server:
        yield runtime


def answering(text: str, received: list[str] | None = None) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if received is not None:
            received.append(head.decode())
        writer.write(text.encode())
        await writer.drain()

    return serve


async def get(runtime: FakeRuntime, **how: object) -> HandlerResult:
    return await handlers.http_get(runtime, "u", "10.0.0.1", container(), {"port": 80, "path": "/ok", **how})


@pytest.mark.parametrize(
    ("answer", "success", "text"),
    [
        pytest.param("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", True, "hi", id="success"),
        pytest.param("HTTP/1.1 204 No Content\r\n\r\n", True, "", id="nothing to say"),
        pytest.param("HTTP/1.1 399 Odd\r\nContent-Length: 0\r\n\r\n", True, "", id="just well"),
        pytest.param(
            "HTTP/1.1 400 Bad\r\n\r\n", False, "HTTP probe failed with statuscode: 400", id="just not"
        ),
        pytest.param("HTTP/1.1 503 No\r\n\r\n", False, "HTTP probe failed with statuscode: 503", id="unwell"),
        pytest.param(
            "HTTP/1.1 302 Go\r\nLocation: http://elsewhere/\r\n\r\n",
            True,
            "Probe terminated redirects",
            id="sent elsewhere",
        ),
        pytest.param("", False, 'Get "http://10.0.0.1:80/ok": EOF', id="hung up on"),
        pytest.param(
            "what?\r\n\r\n",
            False,
            'Get "http://10.0.0.1:80/ok": malformed HTTP response "what?"',
            id="no HTTP",
        ),
    ],
)
async def test_what_an_http_answer_means(answer: str, success: bool, text: str) -> None:
    async with serving(answering(answer)) as runtime:
        assert await get(runtime) == HandlerResult(success, text)


async def test_an_http_probe_sends_its_user_agent_and_headers() -> None:
    received: list[str] = []
    async with serving(answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", received)) as runtime:
        await get(runtime, httpHeaders=[{"name": "X-Key", "value": "v"}])
        await get(runtime, httpHeaders=[{"name": "Host", "value": "example.com"}], path="deep?q=1")
    first, second = received
    assert first.startswith("GET /ok HTTP/1.1\r\nHost: 10.0.0.1:80\r\nUser-Agent: kube-probe/1.36\r\n")
    assert "X-Key: v\r\n" in first
    assert second.startswith("GET /deep?q=1 HTTP/1.1\r\n")
    assert "Host: example.com\r\n" in second
    assert "10.0.0.1" not in second


async def test_a_redirect_on_the_same_host_is_followed() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /ok "):
            writer.write(b"HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n")

    async with serving(serve) as runtime:
        assert (await get(runtime)).output == "HTTP probe failed with statuscode: 500"


async def test_a_closed_port_is_a_failure() -> None:
    runtime = FakeRuntime(VirtualClock())
    refused = "connect: connection refused"
    assert await get(runtime) == HandlerResult(False, f'Get "http://10.0.0.1:80/ok": {refused}')
    outcome = await handlers.tcp(runtime, "u", "10.0.0.1", container(), {"port": 80})
    assert outcome == HandlerResult(False, f"dial tcp 10.0.0.1:80: {refused}")


async def test_a_port_may_be_named_but_must_be_there() -> None:
    named = container(ports=[{"name": "web", "containerPort": 80}])
    async with serving(answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as runtime:
        outcome = await handlers.tcp(runtime, "u", "10.0.0.1", named, {"port": "web"})
        assert outcome.success is True
        outcome = await handlers.tcp(runtime, "u", "10.0.0.1", named, {"port": "none"})
        assert outcome == HandlerResult(None, "couldn't find port: none in container c")


async def test_https_is_spoken_and_no_certificate_is_asked_for() -> None:
    now = SystemClock().now().wall
    credential = tls.issue(
        tls.create_authority("unknown authority", now=now), "x", now=now, server=True, hosts=["x"]
    )
    context = tls.server_context(credential)
    async with serving(answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), context) as runtime:
        assert (await get(runtime, scheme="HTTPS")).success is True


async def test_the_exit_code_decides_and_the_output_is_reported() -> None:
    runtime = FakeRuntime(VirtualClock())
    runtime.answers = {("good",): (0, "fine"), ("bad",): (3, "oh no"), ("odd",): (-1, "cannot exec")}
    assert await handlers.execute(runtime, "u", "c", ["good"]) == HandlerResult(True, "fine")
    assert await handlers.execute(runtime, "u", "c", ["bad"]) == HandlerResult(False, "oh no")
    assert await handlers.execute(runtime, "u", "c", ["odd"]) == HandlerResult(None, "cannot exec")


async def test_who_takes_too_long_has_failed() -> None:
    clock = VirtualClock()
    runtime = FakeRuntime(clock)
    runtime.answers["slow",] = (None, "wait")
    probe = {"exec": {"command": ["slow"]}, "timeoutSeconds": 2}
    own = containers_of({"spec": {"containers": [container(readinessProbe=probe)]}})["c"]
    asked = asyncio.create_task(run_probe(runtime, clock, "u", "", own, next(iter(own.probes.values()))))
    for _ in range(10):
        await asyncio.sleep(0)
    clock.advance(1.9)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asked.done()
    clock.advance(0.2)
    assert await asked == HandlerResult(False, "timed out after 2s")


async def test_a_probe_that_cannot_be_put_is_tried_three_times() -> None:
    runtime = FakeRuntime(VirtualClock())
    runtime.answers["odd",] = (-1, "cannot exec")
    own = containers_of({"spec": {"containers": [container(livenessProbe={"exec": {"command": ["odd"]}})]}})[
        "c"
    ]
    outcome = await run_probe(runtime, SystemClock(), "u", "", own, next(iter(own.probes.values())))
    assert outcome == HandlerResult(None, "cannot exec")
    assert len(runtime.executed) == 3


@pytest.mark.parametrize(
    ("handler", "success"),
    [
        pytest.param({"exec": {"command": ["good"]}}, True, id="a command"),
        pytest.param({"exec": {"command": ["bad"]}}, False, id="a command that fails"),
        pytest.param({"httpGet": {"port": 81}}, False, id="a closed port"),
        pytest.param({"sleep": {"seconds": 0}}, True, id="a pause"),
        pytest.param({"tcpSocket": {"port": 1}}, True, id="nothing at all"),
        pytest.param({}, None, id="neither"),
    ],
)
async def test_hooks(handler: Manifest, success: bool | None) -> None:
    runtime = FakeRuntime(VirtualClock())
    runtime.answers = {("bad",): (1, "")}
    own = containers_of({"spec": {"containers": [container()]}})["c"]
    outcome = await run_hook(runtime, SystemClock(), "u", "10.0.0.1", own, handler)
    assert outcome.success is success


async def test_what_is_cut_short_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def long() -> HandlerResult:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()
        return HandlerResult(True)

    assert (await run_with_timeout(SystemClock(), 0.01, long())).success is False
    assert cancelled.is_set()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


@pytest.mark.parametrize(
    ("message", "state"),
    [
        pytest.param(b"\x08\x01", "SERVING", id="serving"),
        pytest.param(b"\x08\x02", "NOT_SERVING", id="not serving"),
        pytest.param(b"", "UNKNOWN", id="unknown"),
    ],
)
async def test_a_grpc_health_check_reports_the_serving_status(message: bytes, state: str) -> None:
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"\x00" + len(message).to_bytes(4, "big") + message
        writer.write(frame(4, 0, 0, b"") + frame(6, 0, 0, b"12345678") + frame(1, 4, 1, b"\x88"))
        writer.write(frame(0, 0, 1, body[:3]) + frame(0, 0, 1, body[3:]) + frame(1, 5, 1, b"\x88"))
        while piece := await reader.read(1000):
            received.extend(piece)

    async with serving(serve) as runtime:
        outcome = await handlers.grpc(runtime, "u", "10.0.0.1", {"port": 80, "service": "training"})
    assert outcome.success is (state == "SERVING")
    assert state in outcome.output
    await asyncio.sleep(0.01)
    assert received.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert b"/grpc.health.v1.Health/Check" in received
    assert b"\x0a\x08training" in received
    assert frame(6, 1, 0, b"12345678") in received


async def test_what_is_no_grpc_is_unwell() -> None:
    async with serving(answering("HTTP/1.1 400 Bad Request\r\n\r\n")) as runtime:
        outcome = await handlers.grpc(runtime, "u", "10.0.0.1", {"port": 80})
    assert outcome.success is False
    assert "health rpc probe failed" in outcome.output


async def test_a_closed_connection_is_no_health() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)

    async with serving(serve) as runtime:
        made = runtime.listening[80]()
        reader, writer = await asyncio.open_connection(sock=made)
        with pytest.raises(GrpcHealthError):
            await check_health(reader, writer, "", "x")
        writer.close()
