"""Connections to a pod's ports, forwarded between a client's protocol and real processes."""

import asyncio
import os
import socket
from functools import partial

import pytest
import pytest_asyncio

from tests.nodes.kubelet.streams.callers import V4, Caller, asked, by_spdy
from tests.nodes.kubelet.streams.stage import PYTHON, Stage
from tests.nodes.kubelet.streams.wire import SpdyPeer
from volcano.kube.api.errors import BadRequest, InternalError
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.streams.portforward import ports_of
from volcano.nodes.kubelet.streams.spdy_frames import Reset

ECHO = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.sendall(b"bye")
    connection.close()
"""


# One shim for all tests: they share an event loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echo(stage: Stage) -> tuple[Manifest, int]:
    pod = await stage.run("echo", PYTHON, "-c", ECHO)
    path = stage.directory / "pods" / pod["metadata"]["uid"] / "containers" / "main" / "0.log"
    async with asyncio.timeout(20):
        while not path.exists() or not path.read_bytes():
            await asyncio.sleep(0.02)
    return pod, int(path.read_text().split()[-1])


async def pair(peer: SpdyPeer, port: int, request: str = "") -> tuple[int, int]:
    more = {"requestid": request} if request else {}
    error = await peer.open(streamtype="error", port=str(port), **more)
    return error, await peer.open(streamtype="data", port=str(port), **more)


async def test_ports_are_forwarded_over_spdy(stage: Stage, echo: tuple[Manifest, int]) -> None:
    pod, port = echo
    caller = Caller(await stage.streams.connect("portforward", pod, by_spdy("portforward.k8s.io")))
    peer = SpdyPeer(caller.pipe)
    for request in ("7", ""):  # older clients number nothing
        error, data = await pair(peer, port, request)
        await peer.send_data(error, b"", fin=True)
        bulk = os.urandom(300_000)
        await peer.send_data(data, bulk[:150_000])
        await peer.send_data(data, bulk[150_000:], fin=True)
        await peer.until(partial(_both_finished, peer, error, data))
        assert peer.received[data] == bulk + b"bye"
        assert peer.received[error] == b""
    bad = await peer.open(streamtype="data", port="99999")
    await peer.until(lambda: bad in peer.reset)
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_a_connection_that_the_client_resets_is_closed(
    stage: Stage, echo: tuple[Manifest, int]
) -> None:
    pod, port = echo
    caller = Caller(await stage.streams.connect("portforward", pod, by_spdy("portforward.k8s.io")))
    peer = SpdyPeer(caller.pipe)
    error, data = await pair(peer, port, "1")
    await peer.send_data(data, b"hello")
    await peer.until(lambda: peer.received.get(data) == b"hello")
    await peer.send(Reset(data, 5))
    await peer.until(lambda: error in peer.finished)
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_a_port_that_is_closed_in_the_pod(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("portforward", shell, by_spdy("portforward.k8s.io")))
    peer = SpdyPeer(caller.pipe)
    error, data = await pair(peer, unused_port(), "1")
    await peer.until(lambda: {error, data} <= peer.finished)
    uid = shell["metadata"]["uid"]
    assert peer.received[error].startswith(b"error forwarding port ")
    assert f"to pod shell_default, uid {uid}: ".encode() in peer.received[error]
    assert peer.received[error].endswith(b"connection refused")
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_ports_are_forwarded_over_channels(stage: Stage, echo: tuple[Manifest, int]) -> None:
    pod, port = echo
    closed = unused_port()
    request = asked(V4, ports=f"{port},{closed}")
    caller = Caller(await stage.streams.connect("portforward", pod, request))
    socket = caller.websocket()
    received: dict[int, bytes] = {}
    await socket.send(b"\x00hello")
    async for message in socket:
        channel = message.data[0]
        received[channel] = received.get(channel, b"") + message.data[1:]
        if len(received.get(0, b"")) == 7 and len(received.get(3, b"")) > 2:
            break
    assert received[0] == port.to_bytes(2, "little") + b"hello"
    assert received[1] == port.to_bytes(2, "little")
    assert received[2] == closed.to_bytes(2, "little")
    assert received[3].endswith(b"connection refused")
    await caller.pipe.close()
    await asyncio.wait_for(caller.running, 10)


async def test_only_a_running_pod_has_ports(stage: Stage) -> None:
    pod = await stage.run("short", "true")
    await stage.ended(pod)
    pod["status"]["phase"] = "Succeeded"
    with pytest.raises(InternalError, match=r"pod is not running\. Current status=Succeeded"):
        await stage.streams.connect("portforward", pod, by_spdy("portforward.k8s.io"))


@pytest.mark.parametrize("values", [[], ["0"], ["80,x"], ["65536"], ["80"] * 101])
async def test_ports_must_be_ports(values: list[str]) -> None:
    with pytest.raises(BadRequest, match='query parameter "ports"'):
        ports_of(values)


async def test_ports_are_repeated_or_separated() -> None:
    assert ports_of(["80,443", "8080"]) == [80, 443, 8080]


def _both_finished(peer: SpdyPeer, *streams: int) -> bool:
    return set(streams) <= peer.finished


def unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port
