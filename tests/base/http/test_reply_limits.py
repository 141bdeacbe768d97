"""A server that sends without end does not fill the memory of its client: headers and whole bodies are bounded."""

import asyncio
from collections.abc import Iterator
from itertools import repeat

import pytest

from tests.base.http.conftest import within
from tests.base.http.test_pool import pool_to, raw_server
from volcano.base.http.client_connection import MAX_BODY, MAX_HEAD, ReplyTooLarge
from volcano.kube.api.errors import Unavailable
from volcano.kube.client.replies import MAX_LINE, LineSplitter

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PART = b"x" * (64 << 10)
CHUNK = b"%x\r\n%b\r\n" % (len(PART), PART)
IN_TRANSIT = 16 << 20  # bytes in the buffers of the kernel and of both transports
LIMIT = 1 << 20


class Endless:
    """A server that sends a beginning, and then the same bytes, if any, until the client leaves."""

    def __init__(self, beginning: bytes, repeated: bytes) -> None:
        self.sent = 0
        self._parts: Iterator[bytes] = repeat(repeated) if repeated else iter(())
        self._beginning = beginning

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._beginning)
        try:
            for part in self._parts:
                writer.write(part)
                self.sent += len(part)
                await writer.drain()
            await reader.read()  # until the client leaves
        except ConnectionError:
            pass


@pytest.mark.parametrize(
    ("beginning", "repeated", "message"),
    [
        pytest.param(OK + b"Name: ", PART, "headers of more than 1024 KiB", id="one header"),
        pytest.param(
            OK, b"Name: value\r\n" * 1000, "headers of more than 1024 KiB|Too many headers", id="many headers"
        ),
        pytest.param(CHUNKED + b"1\r\nx\r\n0\r\nName: ", PART, "headers of more than", id="after the body"),
        pytest.param(CHUNKED, CHUNK, "a body of more than 1024 KiB", id="chunks"),
        pytest.param(OK + b"\r\n", PART, "a body of more than 1024 KiB", id="until the end"),
        pytest.param(
            OK + b"Content-Length: 99999999999\r\n\r\n", b"", "a body of more than 1024 KiB", id="announced"
        ),
    ],
)
async def test_an_endless_reply_is_rejected_after_its_limit(
    beginning: bytes, repeated: bytes, message: str
) -> None:
    server = Endless(beginning, repeated)
    async with raw_server(server.talk) as url, pool_to(url, max_body=LIMIT) as pool, within(30):
        with pytest.raises(ReplyTooLarge, match=message) as caught:
            await pool.request("GET", "/")
        assert "127.0.0.1:" in str(caught.value)
    assert server.sent < max(MAX_HEAD, LIMIT) + IN_TRANSIT


async def test_the_headers_of_a_streamed_reply_are_bounded_too() -> None:
    server = Endless(OK + b"Name: ", PART)
    async with raw_server(server.talk) as url, pool_to(url) as pool, within(30):
        with pytest.raises(ReplyTooLarge, match="headers of more than"):
            async with pool.stream("GET", "/"):
                raise AssertionError("it has no end of its headers")


async def test_a_streamed_body_may_have_any_length() -> None:
    parts = (MAX_BODY >> 16) + 10

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        for _ in range(parts):
            writer.write(CHUNK)
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with raw_server(talk) as url, pool_to(url) as pool, pool.stream("GET", "/") as reply, within(30):
        received = 0
        while part := await reply.body.read():
            received += len(part)
    assert received == parts * len(PART) > MAX_BODY


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % LIMIT + b"x" * LIMIT)
            await writer.drain()

    async with raw_server(talk) as url, pool_to(url, max_body=LIMIT) as pool, within(30):
        for _ in range(2):  # on one connection
            assert len((await pool.request("GET", "/")).body) == LIMIT


def test_a_line_without_end_is_rejected() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.feed(b"o\n") == [b"two"]
    for _ in range(MAX_LINE >> 16):
        splitter.feed(PART)
    with pytest.raises(Unavailable, match="a line of more than 64 MiB"):
        splitter.feed(PART)
