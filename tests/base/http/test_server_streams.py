"""Streamed responses and upgraded connections."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.base.http.conftest import GET, Serve, echo, within
from volcano.base.http.messages import Answer, Connection, Exchange, Request, Response, Stream, Upgrade


async def test_a_stream_arrives_as_it_is_made_and_ends_cleanly(serve: Serve) -> None:
    go = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        await go.wait()
        yield b"two"

    async def handler(request: Request) -> Answer:
        return Stream(chunks(), headers={"Content-Type": "text/plain"})

    wire = await (await serve(handler)).connect()
    await wire.send(GET + GET)
    assert (await wire.head())[1]["transfer-encoding"] == "chunked"
    assert await wire.chunk() == b"one"
    go.set()
    assert await wire.chunk() == b"two"
    assert await wire.chunk() == b""
    assert (await wire.answer())[2] == b"onetwo"  # the next request on the same connection


async def test_small_chunks_made_together_travel_together(serve: Serve) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 10

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    await wire.head()
    assert await wire.chunk() == b"x" * 10_000


async def test_an_old_client_gets_a_stream_without_chunks(serve: Serve) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"abc"

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    wire = await (await serve(handler)).connect()
    await wire.send(b"GET / HTTP/1.0\r\n\r\n")
    assert (await wire.rest()).endswith(b"\r\n\r\nabc")


async def test_a_slow_reader_slows_the_stream_down_and_its_going_ends_it(serve: Serve) -> None:
    made = 0
    ended = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal made
        try:
            while True:
                made += 1
                yield b"x" * 65536
        finally:
            ended.set()

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    wire = await (await serve(handler)).connect(limit=1024)
    await wire.send(GET)
    stood_at = -1
    while made != stood_at and made < 1000:
        stood_at = made
        await asyncio.sleep(0.2)
    assert 0 < made < 1000  # tens of megabytes of socket buffers at the very most
    wire.writer.transport.abort()
    async with within(5):
        await ended.wait()


async def test_a_client_that_leaves_an_idle_stream_ends_it(serve: Serve) -> None:
    ended = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    await wire.head()
    wire.writer.close()
    async with within(5):
        await ended.wait()


async def test_a_stream_that_breaks_is_not_mistaken_for_a_whole_one(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"part"
        await asyncio.sleep(0)
        raise RuntimeError("source broke")

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    assert b"0\r\n\r\n" not in await wire.rest()
    assert "response aborted" in caplog.text


async def test_an_upgraded_connection_belongs_to_the_handler(serve: Serve) -> None:
    async def shout(connection: Connection) -> None:
        while data := await connection.read():
            await connection.write(data.upper())

    async def handler(request: Request) -> Answer:
        return Upgrade(shout, {"Upgrade": "shout"})

    wire = await (await serve(handler)).connect()
    await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: shout\r\nConnection: Upgrade\r\n\r\nhel")
    status, headers = await wire.head()
    assert (status, headers["upgrade"], headers["connection"]) == (101, "shout", "Upgrade")
    await wire.send(b"lo")
    assert await wire.reader.readexactly(5) == b"HELLO"
    wire.writer.write_eof()
    assert await wire.rest() == b""


async def test_a_declined_upgrade_is_an_ordinary_request(serve: Serve) -> None:
    wire = await (await serve(echo)).connect()
    await wire.send(b"GET /1 HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + GET)
    assert (await wire.answer())[1]["x-path"] == "/1"
    assert (await wire.answer())[1]["x-path"] == "/a b"


async def _sizes(request: Request) -> Answer:
    """Streams the sizes of a body's parts, or rejects it unread."""
    body = request.body_stream
    assert body is not None
    assert request.body == b""
    if request.path == "/rejected":
        return Response(403, {}, b"no")

    async def chunks() -> AsyncIterator[bytes]:
        while part := await body.read():
            yield str(len(part)).encode()

    return Stream(chunks())


async def test_a_streamed_body_is_handled_before_it_has_arrived(serve: Serve) -> None:
    wire = await (await serve(_sizes, streams_body=lambda method, target: method == "PUT")).connect()
    await wire.send(b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    await wire.head()
    assert await wire.chunk() == b"3"
    await wire.send(b"4\r\nabcd\r\n")
    assert await wire.chunk() == b"4"
    await wire.send(b"0\r\n\r\nPUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde")
    assert await wire.chunk() == b""
    assert (await wire.answer())[2] == b"5"  # the next request on the same connection


async def test_a_client_that_waits_for_continue_may_send_its_streamed_body(serve: Serve) -> None:
    wire = await (await serve(_sizes, streams_body=lambda method, target: True)).connect()
    await wire.send(b"PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert (await wire.head())[0] == 100
    await wire.send(b"ab")
    assert (await wire.answer())[2] == b"2"


async def test_the_response_to_an_unread_body_arrives_and_the_connection_ends(serve: Serve) -> None:
    wire = await (await serve(_sizes, streams_body=lambda method, target: True)).connect()
    await wire.send(
        b"PUT /rejected HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 3_000_000
    )
    assert (await wire.answer())[::2] == (403, b"no")
    async with within(10):
        assert await wire.rest() == b""


async def test_a_stream_of_known_length_is_not_chunked(serve: Serve) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"c"

    async def handler(request: Request) -> Answer:
        return Stream(chunks(), length=3)

    wire = await (await serve(handler)).connect()
    await wire.send(GET + GET)
    for _ in range(2):
        _, headers, body = await wire.answer()
        assert body == b"abc"
        assert "transfer-encoding" not in headers


async def test_an_exchange_is_cancelled_when_the_client_disconnects(serve: Serve) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def run() -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    async def handler(request: Request) -> Answer:
        return Exchange(run)

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    async with within(10):
        await started.wait()
        wire.writer.close()
        await cancelled.wait()


async def test_an_exchange_that_fails_is_an_internal_error(serve: Serve) -> None:
    async def run() -> Answer:
        raise RuntimeError("broken")

    async def handler(request: Request) -> Answer:
        return Exchange(run)

    wire = await (await serve(handler)).connect()
    await wire.send(GET + GET)
    assert (await wire.answer())[0] == 500
    assert (await wire.answer())[0] == 500
