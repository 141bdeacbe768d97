"""Connections without a network, and clients to put at their other end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from volcano.base.http.websocket import WebSocket
from volcano.nodes.kubelet.streams.spdy_frames import (
    Data,
    Frame,
    Framer,
    GoAway,
    Ping,
    Reset,
    SynReply,
    SynStream,
)


class Pipe:
    """One end of a connection: what is written here is read at `other`."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self.other: Pipe
        self.closed = False

    async def read(self) -> bytes:
        if self.closed:
            return b""
        data = await self._arrived.get()
        self.closed = not data
        return data

    async def write(self, data: bytes) -> None:
        if self.closed or self.other.closed:
            raise ConnectionResetError("the other end has gone")
        self.other._arrived.put_nowait(data)
        await asyncio.sleep(0)

    async def close(self) -> None:
        self.other._arrived.put_nowait(b"")
        self.closed = True


def pipes() -> tuple[Pipe, Pipe]:
    one, two = Pipe(), Pipe()
    one.other, two.other = two, one
    return one, two


class SpdyPeer:
    """A client like moby's: opens streams and records the data received on each."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._framer = Framer()
        self._next = 1
        self.received: dict[int, bytes] = {}
        self.finished: set[int] = set()
        self.reset: dict[int, int] = {}
        self.replied: set[int] = set()
        self.pongs: list[int] = []
        self.gone = False
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def open(self, **headers: str) -> int:
        number, self._next = self._next, self._next + 2
        await self.send(SynStream(number, headers))
        return number

    async def send(self, frame: Frame) -> None:
        await self._connection.write(self._framer.encode(frame))

    async def send_data(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        await self.send(Data(stream, data, fin))

    async def until(self, question: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not question():
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._connection.close()

    async def _read(self) -> None:
        while data := await self._connection.read():
            for frame in self._framer.feed(data):
                self._handle(frame)
            self._changed.set()
        self.gone = True
        self._changed.set()

    def _handle(self, frame: Frame) -> None:
        match frame:
            case SynReply(number, _, _):
                self.replied.add(number)
            case Data(number, data, fin):
                self.received[number] = self.received.get(number, b"") + data
                if fin:
                    self.finished.add(number)
            case Reset(number, status):
                self.reset[number] = status
            case Ping(number):
                self.pongs.append(number)
            case GoAway():
                self.gone = True


def websockets(protocol: str) -> tuple[WebSocket, WebSocket]:
    """A server's and a client's end of one websocket."""
    server, client = pipes()
    return WebSocket(server, subprotocol=protocol), WebSocket(client, client=True, subprotocol=protocol)


async def finished(work: Awaitable[None]) -> None:
    await asyncio.wait_for(work, 10)
