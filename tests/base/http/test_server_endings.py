"""Ends of connections: clients that are slow, do not read or disconnect, and a server that stops."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.base.http.conftest import GET, Serve, echo, within
from volcano.base.http.messages import Answer, Connection, Request, Response, Stream, Upgrade
from volcano.base.http.request_parser import Limits


async def test_a_slow_client_is_answered_and_an_idle_one_disconnected(serve: Serve) -> None:
    bench = await serve(echo, limits=Limits(receive=0.2, idle=0.2))
    slow, idle = await bench.connect(), await bench.connect()
    await slow.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
    await idle.send(GET)
    await idle.answer()
    async with within(10):
        assert (await slow.answer())[0] == 408
        assert await idle.rest() == b""


async def test_a_client_that_never_reads_is_hung_up_on(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {}, b"x" * (20 << 20))

    bench = await serve(handler, limits=Limits(stall=0.2))
    wire = await bench.connect(limit=1024)
    await wire.send(GET)
    async with within(10):
        while bench.server.connections:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("upgraded", [False, True])
async def test_a_client_that_looks_page_by_page_is_waited_for(serve: Serve, upgraded: bool) -> None:
    size = 16 << 20

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(size >> 16):
            yield bytes(1 << 16)

    async def run(connection: Connection) -> None:
        async for chunk in chunks():
            await connection.write(chunk)

    async def handler(request: Request) -> Answer:
        return Upgrade(run, {"Upgrade": "x"}) if upgraded else Stream(chunks(), allow_stall=True)

    bench = await serve(handler, limits=Limits(stall=0.2))
    wire = await bench.connect(limit=1024)
    await wire.send(
        GET.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n") if upgraded else GET
    )
    await asyncio.sleep(1.5)
    assert bench.server.connections
    received = 0
    async with within(20):
        while received < size and (piece := await wire.reader.read(1 << 20)):
            received += len(piece)
    assert received >= size


async def test_stopping_finishes_requests_and_ends_streams_cleanly(serve: Serve) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"event"
        await asyncio.Event().wait()

    async def handler(request: Request) -> Answer:
        if request.path == "/watch":
            return Stream(chunks())
        begun.set()
        await go.wait()
        return Response(200, {}, b"written")

    bench = await serve(handler)
    busy, watching, idle = [await bench.connect() for _ in range(3)]
    await busy.send(GET)
    await watching.send(b"GET /watch HTTP/1.1\r\nHost: h\r\n\r\n")
    await watching.head()
    assert await watching.chunk() == b"event"
    await begun.wait()
    stopping = asyncio.create_task(bench.server.stop(5))
    assert await watching.chunk() == b""  # a clean end, so that the client resumes elsewhere
    assert await idle.rest() == b""
    go.set()
    status, headers, body = await busy.answer()
    assert (status, headers["connection"], body) == (200, "close", b"written")
    async with within(2):
        await stopping
    with pytest.raises(ConnectionRefusedError):
        await bench.connect()


async def test_stopping_does_not_wait_for_ever(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    bench = await serve(handler)
    wire = await bench.connect()
    await wire.send(GET)
    await asyncio.sleep(0.05)
    async with within(2):
        await bench.server.stop(0.1)
    assert await wire.rest() == b""


async def test_a_handler_goes_on_when_its_client_has_gone(serve: Serve) -> None:
    begun, finished = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        begun.set()
        await asyncio.sleep(0.05)
        finished.set()
        return Response()

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    await begun.wait()
    wire.writer.transport.abort()
    async with within(2):
        await finished.wait()


async def test_a_client_may_stop_sending_and_still_read(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.02)
        return Response(200, {}, b"late")

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    wire.writer.write_eof()
    assert (await wire.answer())[2] == b"late"
    assert await wire.rest() == b""
