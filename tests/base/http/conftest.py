"""A server around any handler, and raw client sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from volcano.base.http.messages import Handler, Request, Response
from volcano.base.http.server import Server

GET = b"GET /a%20b?x=1&x=2&empty= HTTP/1.1\r\nHost: h\r\n\r\n"


class Wire:
    """One client connection that sends plain bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and headers of the next response."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in headers.items()}

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next whole response."""
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while chunk := await self.chunk():
                body += chunk
            return status, headers, body
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Everything up to the end of the connection; a reset is an end too."""
        with contextlib.suppress(ConnectionResetError):
            return await self.reader.read()
        return b""


class Bench:
    """A running server and connections to it."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self.port = server, port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, tls: ssl.SSLContext | None = None, **options: Any) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, **options)
        self._writers.append(writer)
        return Wire(reader, writer)

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await self.server.stop(1.0)


Serve = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(handler, ...)` starts a server that ends with the test."""
    benches: list[Bench] = []

    async def start(handler: Handler, **options: Any) -> Bench:
        server = Server(handler, **options)
        benches.append(Bench(server, await server.start()))
        return benches[-1]

    yield start
    for bench in benches:
        await bench.close()


async def echo(request: Request) -> Response:
    """Answers with the request's properties."""
    return Response(200, {"X-Method": request.method, "X-Path": request.path}, request.body)


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Fails the test when its body takes longer."""
    async with asyncio.timeout(seconds):
        yield
