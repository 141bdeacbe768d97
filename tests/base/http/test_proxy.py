"""Proxies are chosen by the environment and used."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.base.http.conftest import Serve, echo
from volcano.base.http import tls
from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.proxy import Proxy, ProxyError, choose_proxy, is_exempt, parse_proxy


@pytest.mark.parametrize(
    ("host", "no_proxy", "exempt"),
    [
        pytest.param("localhost", "", True, id="localhost is always near"),
        pytest.param("127.0.0.5", "", True, id="so is loopback"),
        pytest.param("::1", "", True, id="in IPv6 too"),
        pytest.param("db.example.com", "", False, id="others are not"),
        pytest.param("db.example.com", "*", True, id="everything"),
        pytest.param("db.example.com", "a.test, example.com", True, id="a domain and what is below it"),
        pytest.param("example.com", "example.com", True, id="the domain itself"),
        pytest.param("example.com", ".example.com", False, id="only what is below"),
        pytest.param("db.example.com", ".example.com", True, id="below it"),
        pytest.param("badexample.com", "example.com", False, id="a name that merely ends alike"),
        pytest.param("DB.Example.com", "example.COM", True, id="case does not matter"),
        pytest.param("10.1.2.3", "10.0.0.0/8", True, id="a network"),
        pytest.param("11.1.2.3", "10.0.0.0/8,", False, id="outside the network"),
        pytest.param("10.1.2.3", "10.1.2.3", True, id="an address"),
        pytest.param("10.1.2.3", "10.1.2.3:443", True, id="an address with our port"),
        pytest.param("example.com", "example.com:8443", False, id="another port"),
        pytest.param("fd00::1", "fd00::/8", True, id="an IPv6 network"),
        pytest.param("fd00::1", "[fd00::1]:443", True, id="an IPv6 address with our port"),
        pytest.param("example.com", "not/a-network", False, id="nonsense matches nothing"),
    ],
)
def test_no_proxy_exempts(host: str, no_proxy: str, exempt: bool) -> None:
    assert is_exempt(host, 443, no_proxy) is exempt


def test_the_scheme_chooses_the_variable() -> None:
    environment = {"HTTPS_PROXY": "http://s:1", "http_proxy": "p:2", "NO_PROXY": "near"}
    assert choose_proxy("https://far", environment) == Proxy("s", 1)
    assert choose_proxy("http://far", environment) == Proxy("p", 2)
    assert choose_proxy("https://near", environment) is None
    assert choose_proxy("https://far", {}) is None


def test_a_proxy_may_want_a_name_and_a_secret() -> None:
    assert parse_proxy("https://me:p%40ss@proxy.test").headers == {
        "Proxy-Authorization": "Basic bWU6cEBzcw=="
    }
    assert parse_proxy("https://proxy.test").port == 443


@pytest.mark.parametrize("url", ["socks5://host:1", "http://"])
def test_a_proxy_we_cannot_use_is_refused(url: str) -> None:
    with pytest.raises(ProxyError, match=r"use http"):
        parse_proxy(url)


@asynccontextmanager
async def tunnelling(answer: bytes, seen: list[bytes]) -> AsyncIterator[Proxy]:
    """A proxy that connects to any port of this machine."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        writer.write(answer)
        if b" 200 " in answer:
            port = int(head.split(b" ")[1].rsplit(b":", 1)[1])
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        writer.close()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(run, "127.0.0.1", 0) as server:
        yield Proxy("127.0.0.1", server.sockets[0].getsockname()[1], authorization="Basic abc")


async def test_https_goes_through_a_tunnel(serve: Serve) -> None:
    authority = tls.create_authority("ca", now=time.time())
    credential = tls.issue(authority, "s", now=time.time(), server=True, hosts=["127.0.0.1"])
    bench = await serve(echo, tls=tls.server_context(credential))
    seen: list[bytes] = []
    async with tunnelling(b"HTTP/1.1 200 OK\r\n\r\n", seen) as proxy:
        pool = ConnectionPool(bench.server.url, tls=tls.client_context(authority.cert_pem), proxy=proxy)
        assert (await pool.request("POST", "/", {}, b"hi")).body == b"hi"
        assert (await pool.request("POST", "/", {}, b"again")).body == b"again"
        await pool.close()
    assert len(seen) == 1
    assert seen[0].startswith(f"CONNECT 127.0.0.1:{bench.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic abc\r\n" in seen[0]


async def test_a_proxy_that_refuses_is_named_with_its_answer() -> None:
    async with tunnelling(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", []) as proxy:
        pool = ConnectionPool("https://far.test", proxy=proxy)
        with pytest.raises(RequestFailed, match=r"proxy 127.0.0.1:\d+ answered 'HTTP/1.1 407 .*far.test:443"):
            await pool.request("GET", "/")


async def test_plain_http_names_the_whole_address_to_the_proxy(serve: Serve) -> None:
    bench = await serve(echo)
    pool = ConnectionPool("http://far.test/", proxy=Proxy("127.0.0.1", bench.port))
    reply = await pool.request("GET", "/path?x=1")
    assert (reply.status, reply.headers["x-path"]) == (200, "/path")
    await pool.close()
