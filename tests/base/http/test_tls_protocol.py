"""TLS preserves bytes and their order, with flow control, until either side closes."""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from tests.base.http.conftest import Bench, Serve, Wire, echo, within
from volcano.base.http import tls, tls_protocol
from volcano.base.http.messages import Answer, Request, Response, Stream

GET = b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"
LONG = 20.0


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server and for its clients."""
    authority = tls.create_authority("test-ca", now=time.time())
    credential = tls.issue(authority, "server", now=time.time(), server=True, hosts=["127.0.0.1"])
    return tls.server_context(credential), tls.client_context(authority.cert_pem)


Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


async def connected(bench: Bench, contexts: Contexts) -> Wire:
    return await bench.connect(contexts[1], server_hostname="127.0.0.1")


async def closed(bench: Bench) -> None:
    async with within(LONG):
        while bench.server.connections:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("size", [0, 1, 16 << 10, (16 << 10) + 1, 300_000, 2_000_000])
async def test_bodies_of_any_size_come_back_as_they_were_sent(
    serve: Serve, contexts: Contexts, size: int
) -> None:
    wire = await connected(await serve(echo, tls=contexts[0]), contexts)
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    for _ in range(2):
        await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + body)
        status, _, answered = await wire.answer()
        assert (status, answered == body) == (200, True)


async def test_a_request_in_many_records_is_one_request(serve: Serve, contexts: Contexts) -> None:
    wire = await connected(await serve(echo, tls=contexts[0]), contexts)
    for byte in b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc":
        await wire.send(bytes([byte]))
    assert (await wire.answer())[2] == b"abc"


async def test_more_requests_than_are_read_at_once_are_all_answered_in_order(
    serve: Serve, contexts: Contexts
) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0)
        return Response(200, {}, request.path.encode())

    wire = await connected(await serve(handler, tls=contexts[0]), contexts)
    await wire.send(b"".join([GET % number for number in range(300)]))
    async with within(LONG):
        for number in range(300):
            assert (await wire.answer())[2] == b"/%d" % number


async def test_a_stream_waits_for_a_client_that_does_not_read(serve: Serve, contexts: Contexts) -> None:
    made = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(200):
            made += 1
            yield b"x" * 100_000

    async def handler(request: Request) -> Answer:
        return Stream(chunks())

    bench = await serve(handler, tls=contexts[0])
    wire = await connected(bench, contexts)
    await wire.send(GET % 1)
    async with within(LONG):
        seen = -1
        while made != seen or not made:  # until nothing more is made
            seen = made
            await asyncio.sleep(0.2)
    assert made < 200
    await wire.head()
    received = 0
    while chunk := await wire.chunk():
        received += len(chunk)
    assert received == 20_000_000


async def test_an_answer_that_ends_the_connection_ends_it_properly(serve: Serve, contexts: Contexts) -> None:
    wire = await connected(await serve(echo, tls=contexts[0]), contexts)
    await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert (await wire.answer())[0] == 200
    assert await wire.reader.read() == b""  # would raise if the connection had just been cut


async def test_a_client_that_leaves_is_let_go(serve: Serve, contexts: Contexts) -> None:
    bench = await serve(echo, tls=contexts[0])
    polite, rude = await connected(bench, contexts), await connected(bench, contexts)
    for wire in (polite, rude):
        await wire.send(GET % 1)
        assert (await wire.answer())[0] == 200
    polite.writer.close()
    rude.writer.transport.abort()
    await closed(bench)


@pytest.mark.parametrize(
    "sent", [GET % 1, b"\x16\x03\x01\x00\x05garbage", b""], ids=["http", "garbage", "nothing"]
)
async def test_who_does_not_speak_tls_is_shown_out_and_others_are_served(
    serve: Serve, contexts: Contexts, sent: bytes
) -> None:
    bench = await serve(echo, tls=contexts[0])
    other_client = await bench.connect()
    await other_client.send(sent)
    if not sent:
        other_client.writer.write_eof()
    async with within(LONG):
        assert b"HTTP" not in await other_client.rest()
    wire = await connected(bench, contexts)
    await wire.send(GET % 1)
    assert (await wire.answer())[0] == 200


async def test_a_record_that_was_tampered_with_ends_the_connection(serve: Serve, contexts: Contexts) -> None:
    bench = await serve(echo, tls=contexts[0])
    wire = await connected(bench, contexts)
    below = wire.writer.get_extra_info("socket")
    await wire.send(GET % 1)
    assert (await wire.answer())[0] == 200
    assert os.write(below.fileno(), b"\x17\x03\x03\x00\x20" + b"\x00" * 32) == 37
    await closed(bench)


async def test_a_handshake_that_takes_too_long_is_broken_off(
    serve: Serve, contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_protocol, "HANDSHAKE_TIMEOUT", 0.05)
    other_client = await (await serve(echo, tls=contexts[0])).connect()
    async with within(LONG):
        with contextlib.suppress(ConnectionError):
            assert await other_client.rest() == b""
