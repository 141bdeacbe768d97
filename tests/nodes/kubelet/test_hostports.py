"""A host port is forwarded to its pod while the pod exists."""

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.nodes.kubelet.pods.bench import KubeletBench, bench, container, spec
from tests.nodes.kubelet.pods.test_real import host
from tests.nodes.shim.isolation.stage import in_child
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.kubelet.hostports import HostPort, host_ports
from volcano.nodes.shim.isolation.probe import unavailable_reason
from volcano.nodes.shim.specs import Mode

TIMEOUT = 20.0
TCP_SERVER = """
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with socket.create_server(("", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello " + connection.recv(100))
"""


def unused() -> int:
    """A free port outside the kernel's ephemeral range."""
    while True:
        number = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", number))
            return number


def exposing(number: int, target: int = 80, **fields: Any) -> Manifest:
    return container(ports=[{"containerPort": target, "hostPort": number, **fields}])


@pytest.mark.parametrize(
    ("pod", "own", "found"),
    [
        pytest.param(spec(), True, [], id="no ports"),
        pytest.param(spec(container(ports=[{"containerPort": 80}])), True, [], id="none of the host"),
        pytest.param(
            spec(exposing(8080)), True, [HostPort("127.0.0.1", 8080, "TCP", 80)], id="on the loopback"
        ),
        pytest.param(
            spec(exposing(8080, hostIP="192.0.2.1", protocol="UDP")),
            True,
            [HostPort("192.0.2.1", 8080, "UDP", 80)],
            id="where the pod says",
        ),
        pytest.param(spec(exposing(80), hostNetwork=True), True, [], id="of the host's network already"),
        pytest.param(spec(exposing(80)), False, [], id="leading to itself where the network is shared"),
        pytest.param(
            spec(exposing(8080)), False, [HostPort("127.0.0.1", 8080, "TCP", 80)], id="leading elsewhere"
        ),
        pytest.param(
            spec(initContainers=[{**exposing(1, 2), "restartPolicy": "Always"}, exposing(3, 4)]),
            True,
            [HostPort("127.0.0.1", 1, "TCP", 2)],
            id="sidecars have ports, init containers are gone",
        ),
    ],
)
def test_which_ports_a_pod_asks_for(pod: Manifest, own: bool, found: list[HostPort]) -> None:
    assert list(host_ports(pod, own_network=own)) == found


@asynccontextmanager
async def echoing(it: KubeletBench, port: int = 80) -> AsyncIterator[None]:
    """A server behind a port of every pod that answers in capitals and closes at the end of its input."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"BYE")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)

    def dial() -> socket.socket:
        made = socket.create_connection(server.sockets[0].getsockname())
        made.setblocking(False)
        return made

    it.runtime.listening[port] = dial
    async with server:
        yield


async def exchange(number: int, data: bytes) -> bytes:
    """The data received from a host port until its end; empty when it is closed at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    try:
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(TIMEOUT):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def is_open(number: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", number)
    except OSError:
        return False
    writer.close()
    return True


async def until_open(number: int, wanted: bool = True) -> None:
    async with asyncio.timeout(TIMEOUT):
        while await is_open(number) is not wanted:
            await asyncio.sleep(0.01)


async def test_a_host_port_is_forwarded_until_the_pod_is_deleted() -> None:
    number = unused()
    async with bench() as it, echoing(it):
        await it.create(containers=[exposing(number)])
        await until_open(number)
        assert await exchange(number, b"hello") == b"HELLOBYE"
        large = b"x" * 1_000_000
        assert await exchange(number, large) == large.upper() + b"BYE"
        await it.cluster.client.delete(POD, Key("default", "p"))
        await it.pass_time(35)
        await until_open(number, wanted=False)


async def test_a_port_where_the_pod_does_not_listen_hangs_up() -> None:
    number = unused()
    async with bench() as it:
        await it.create(containers=[exposing(number)])
        await until_open(number)
        assert await exchange(number, b"hello") == b""


async def test_a_port_in_use_is_reported_and_retried() -> None:
    async with bench() as it, echoing(it):
        with socket.create_server(("127.0.0.1", 0)) as other:
            number = other.getsockname()[1]
            await it.create(containers=[exposing(number)])
            async with asyncio.timeout(TIMEOUT):
                while not (messages := await it.events("FailedHostPort")):
                    await it.pass_time(1)
                    await asyncio.sleep(0.01)
            assert messages == [f"hostPort is not forwarded yet: 127.0.0.1:{number}: address already in use"]
            assert (await it.status())["phase"] == "Running"
        async with asyncio.timeout(TIMEOUT):
            while not await is_open(number):
                await it.pass_time(11, step=11)
                await asyncio.sleep(0.01)
        assert await exchange(number, b"hello") == b"HELLOBYE"
        assert len(await it.events("FailedHostPort")) == 1


async def test_a_udp_port_is_reported_as_not_forwarded() -> None:
    async with bench() as it:
        await it.create(containers=[exposing(unused(), 53, protocol="UDP")])
        (message,) = await it.events("FailedHostPort")
        assert message.endswith("/UDP is not forwarded: only TCP is")


async def test_ports_are_open_again_after_a_kubelet_restart() -> None:
    number = unused()
    async with bench() as it, echoing(it):
        await it.create(containers=[exposing(number)])
        await until_open(number)
        await it.stop()
        await until_open(number, wanted=False)
        await it.begin()
        await until_open(number)
        assert await exchange(number, b"again") == b"AGAINBYE"


@pytest.mark.parametrize("mode", Mode)
async def test_a_real_pod_is_reached_at_its_port_of_this_host(mode: Mode) -> None:
    if mode is not Mode.PLAIN and (obstacle := in_child(lambda: unavailable_reason(mode))):
        pytest.skip(f"{mode}: {obstacle}")
    number, target = unused(), unused()
    command = [sys.executable, "-c", TCP_SERVER, str(target)]
    async with host(mode) as it:
        own = {"command": command, "ports": exposing(number, target)["ports"]}
        await it.create("p", "", container=own, terminationGracePeriodSeconds=1)
        await it.running("p")
        async with asyncio.timeout(TIMEOUT):
            while await exchange(number, b"you") != b"hello you":
                await asyncio.sleep(0.05)
        await it.cluster.client.delete(POD, Key("default", "p"))
        await until_open(number, wanted=False)
