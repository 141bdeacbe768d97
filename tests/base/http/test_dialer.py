"""Connections that API requests cause reach routes, loopback and allowed targets, and nothing else."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator

import pytest

from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.dialer import AllowedTargets, Dialer, DialRejected
from volcano.base.http.pool import ConnectionPool

OUTSIDE = "192.0.2.7"  # reserved for documentation: no host has it


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server on the loopback address that says hello."""

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def heard(connection: socket.socket) -> bytes:
    with connection:
        return await asyncio.get_running_loop().sock_recv(connection, 100)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_loopback_is_reached(host: str, port: int) -> None:
    assert await heard(await Dialer().dial(host, port)) == b"hello"


@pytest.mark.parametrize(
    "host", [OUTSIDE, "::ffff:192.0.2.7", "2001:db8::1", "hooks.invalid", "169.254.169.254"]
)
async def test_other_targets_are_rejected_with_the_option_that_allows_them(host: str) -> None:
    with pytest.raises(DialRejected, match=r"--allow-egress") as raised:
        await Dialer().dial(host, 443)
    assert host in str(raised.value)


async def test_addresses_of_plain_pods_are_reached_by_a_route_only(port: int) -> None:
    with pytest.raises(DialRejected, match="no running pod has this address"):
        await Dialer(AllowedTargets.parse(["all"])).dial("127.88.3.4", port)


async def test_a_route_is_asked_first(port: int) -> None:
    asked = []

    async def route(host: str, number: int) -> socket.socket | None:
        asked.append((host, number))
        return await Dialer().dial("127.0.0.1", port) if host == OUTSIDE else None

    dialer = Dialer(routes=[route])
    assert await heard(await dialer.dial(OUTSIDE, 80)) == b"hello"
    assert await heard(await dialer.dial("127.0.0.1", port)) == b"hello"
    assert asked == [(OUTSIDE, 80), ("127.0.0.1", port)]


@pytest.mark.parametrize(
    ("entry", "host", "allowed"),
    [
        pytest.param("192.0.2.0/24", "192.0.2.7", True, id="a network"),
        pytest.param("192.0.2.7", "192.0.2.7", True, id="an address"),
        pytest.param("192.0.2.0/30", "192.0.2.7", False, id="an address outside of the network"),
        pytest.param("all", "192.0.2.7", True, id="all"),
        pytest.param("all", "2001:db8::1", True, id="all of IPv6"),
        pytest.param("2001:db8::/32", "2001:db8::1", True, id="a network of IPv6"),
    ],
)
def test_allowed_networks(entry: str, host: str, allowed: bool) -> None:
    assert AllowedTargets.parse([entry]).allow_address(ipaddress.ip_address(host)) is allowed


def test_allowed_names_are_exact() -> None:
    allowed = AllowedTargets.parse(["Hooks.example.com"])
    assert allowed.allow_name("hooks.example.com")
    assert not allowed.allow_name("other.example.com")


@pytest.mark.parametrize("entry", ["", "10.0.0.0/33", "1.2.3", "a b", "http://x", "x..y"])
def test_malformed_targets_are_named(entry: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        AllowedTargets.parse([entry])


async def test_a_pool_reports_a_rejected_target() -> None:
    pool = ConnectionPool(f"http://{OUTSIDE}:80", dial=Dialer().dial)
    with pytest.raises(RequestFailed, match="is not allowed"):
        await pool.request("GET", "/")


async def test_addresses_of_nodes_are_dialled_at_any_place_but_link_local_ones(port: int) -> None:
    dialled = await Dialer().dial_node("localhost", port)
    with dialled:
        assert await asyncio.get_running_loop().sock_recv(dialled, 100) == b"hello"
    for host in ("169.254.169.254", "0.0.0.0", "224.0.0.1", "127.88.0.1"):
        with pytest.raises(DialRejected, match="is no address of a node"):
            await Dialer().dial_node(host, port)
