"""The pool reuses and bounds connections, and reports errors plainly."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.base.http.conftest import Serve, echo, within
from volcano.base.http import tls
from volcano.base.http.client_connection import RequestFailed, RequestTimedOut
from volcano.base.http.messages import Answer, Connection, Request, Response, Stream, Upgrade
from volcano.base.http.pool import ConnectionPool


@asynccontextmanager
async def pool_to(address: str, **options: object) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(address, **options)  # type: ignore[arg-type]
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def raw_server(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that runs `talk` for each connection."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_requests_one_after_another_share_a_connection(serve: Serve) -> None:
    bench = await serve(echo)
    async with pool_to(bench.server.url) as pool:
        for body in (b"one", b"two", b""):
            reply = await pool.request("POST", "/p%20q", {"X-A": "1"}, body)
            assert (reply.status, reply.headers["x-path"], reply.body) == (200, "/p q", body)
        assert len(bench.server.connections) == 1


async def test_requests_at_once_share_a_bounded_number_of_connections(serve: Serve) -> None:
    running = most = 0

    async def handler(request: Request) -> Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Response()

    bench = await serve(handler)
    async with pool_to(bench.server.url, connections=3) as pool:
        await asyncio.gather(*(pool.request("GET", "/") for _ in range(10)))
        assert most == 3
        assert len(bench.server.connections) == 3


async def test_a_reply_to_head_has_no_body(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {}, b"body")

    async with pool_to((await serve(handler)).server.url) as pool:
        assert (await pool.request("HEAD", "/")).body == b""
        assert (await pool.request("GET", "/")).body == b"body"


async def test_a_stream_is_read_as_it_comes_and_leaves_the_connection_usable(serve: Serve) -> None:
    go = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        await go.wait()
        yield b"b"

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    bench = await serve(handler)
    async with pool_to(bench.server.url) as pool:
        async with pool.stream("GET", "/") as flow:
            assert await flow.body.read() == b"a"
            go.set()
            assert await flow.body.read() == b"b"
            assert await flow.body.read() == b""
        assert (await pool.request("GET", "/")).body == b"ab"
        assert len(bench.server.connections) == 1


async def test_leaving_a_stream_early_ends_it_at_the_server(serve: Serve) -> None:
    ended = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0)
        finally:
            ended.set()

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    async with pool_to((await serve(handler)).server.url) as pool:
        async with pool.stream("GET", "/") as flow:
            await flow.body.read()
        async with within(5):
            await ended.wait()


async def test_a_stream_that_is_cut_off_raises_after_its_last_bytes() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")

    async with raw_server(talk) as url, pool_to(url) as pool, pool.stream("GET", "/") as flow:
        assert await flow.body.read() == b"abc"
        with pytest.raises(RequestFailed, match="closed the connection"):
            await flow.body.read()


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end", id="ended by closing"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", id="100"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="no content"),
    ],
)
async def test_replies_in_every_framing_are_read(reply: bytes, body: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)

    async with raw_server(talk) as url, pool_to(url) as pool:
        assert (await pool.request("GET", "/")).body == body


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        pytest.param(b"", "closed the connection", id="nothing at all"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "closed the connection", id="half a body"
        ),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "does not answer in HTTP", id="another protocol"),
    ],
)
async def test_a_broken_reply_is_an_error_that_names_the_server(reply: bytes, message: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)

    async with raw_server(talk) as url, pool_to(url) as pool:
        with pytest.raises(RequestFailed, match=message) as caught:
            await pool.request("GET", "/")
        assert caught.value.sent
        assert "127.0.0.1:" in str(caught.value)


async def test_a_failed_connection_means_nothing_was_sent() -> None:
    async with raw_server(lambda r, w: asyncio.sleep(0)) as url:
        pass
    async with pool_to(url) as pool:
        with pytest.raises(RequestFailed, match=r"cannot connect to 127\.0\.0\.1") as caught:
            await pool.request("POST", "/")
        assert not caught.value.sent


async def test_a_server_that_does_not_answer_in_time_is_given_up(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/slow":
            await asyncio.sleep(0.2)
        return Response()

    async with pool_to((await serve(handler)).server.url) as pool:
        with pytest.raises(RequestTimedOut, match=r"within 0\.05 seconds"):
            await pool.request("GET", "/slow", timeout=0.05)
        assert (await pool.request("GET", "/fast")).status == 200


async def test_a_cancelled_request_does_not_spoil_the_next(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.05)
        return Response(200, {}, request.path.encode())

    async with pool_to((await serve(handler)).server.url, connections=1) as pool:
        task = asyncio.create_task(pool.request("GET", "/first"))
        await asyncio.sleep(0.01)
        task.cancel()
        assert (await pool.request("GET", "/second")).body == b"/second"


async def test_a_connection_the_server_closed_meanwhile_is_not_used_again(serve: Serve) -> None:
    bench = await serve(echo)
    async with pool_to(bench.server.url) as pool:
        await pool.request("GET", "/")
        for exchange in list(bench.server.connections):
            exchange.abort()
        await asyncio.sleep(0.01)
        assert (await pool.request("POST", "/again")).status == 200


async def test_an_upgrade_hands_over_the_connection(serve: Serve) -> None:
    async def shout(connection: Connection) -> None:
        await connection.write((await connection.read()).upper())

    async def handler(request: Request) -> Answer:
        return Upgrade(shout, {"Upgrade": "shout"})

    async with pool_to((await serve(handler)).server.url) as pool:
        headers = {"Connection": "Upgrade", "Upgrade": "shout"}
        async with pool.stream("GET", "/", headers) as flow:
            assert flow.status == 101
            await flow.body.write(b"hello")
            assert await flow.body.read() == b"HELLO"
            assert await flow.body.read() == b""


async def test_tls_is_verified_and_the_reason_reported(serve: Serve) -> None:
    authority = tls.create_authority("ca", now=time.time())
    credential = tls.issue(authority, "s", now=time.time(), server=True, hosts=["127.0.0.1", "db.test"])
    bench = await serve(echo, tls=tls.server_context(credential))
    trusting = tls.client_context(authority.cert_pem)
    async with pool_to(bench.server.url, tls=trusting, server_name="db.test") as pool:
        assert (await pool.request("GET", "/")).status == 200
        assert (await pool.request("POST", "/", {}, b"x" * 1_000_000)).body == b"x" * 1_000_000
    async with pool_to(bench.server.url) as pool:
        with pytest.raises(RequestFailed, match="not trusted: unable to get local issuer"):
            await pool.request("GET", "/")
    async with pool_to(bench.server.url, tls=trusting, server_name="other.test") as pool:
        with pytest.raises(RequestFailed, match="not trusted: Hostname mismatch"):
            await pool.request("GET", "/")


@pytest.mark.parametrize("url", ["ftp://host", "host:1", ""])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must look like https://host:port"):
        ConnectionPool(url)


async def test_a_header_that_breaks_out_of_its_line_is_never_sent(serve: Serve) -> None:
    async with pool_to((await serve(echo)).server.url) as pool:
        with pytest.raises(ValueError, match="line break"):
            await pool.request("GET", "/", {"X": "a\r\nY: b"})
        with pytest.raises(ValueError, match="percent-encoded"):
            await pool.request("GET", "/a b")
