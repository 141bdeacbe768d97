"""SPDY/3.1 as Kubernetes' clients speak it: streams that the client opens, over a connection or inside a websocket.

There are no windows: the one implementation that clients have neither keeps nor heeds them, so waiting for a window
update would be waiting for ever. A stream that is not read stops the connection, as it does at the other end.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from volcano.net.messages import Connection
from volcano.net.websocket import WebSocket
from volcano.nodes.kubelet.streams.receive_buffer import ReceiveBuffer
from volcano.nodes.kubelet.streams.spdy_frames import (
    CANCEL,
    INVALID_STREAM,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Data,
    Frame,
    Framer,
    GoAway,
    Ping,
    Reset,
    SpdyError,
    SynReply,
    SynStream,
)

MAX_STREAMS = 2048  # open at the same time


class StreamRejected(Exception):
    """A stream that makes no sense here."""


class SpdyStream:
    """One stream of a connection: `inbox` is what the client says on it."""

    def __init__(self, connection: "SpdyConnection", number: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.number = number
        self.headers = headers
        self.buffer = ReceiveBuffer()
        self.dropped = asyncio.Event()  # the client has no use for it any more
        self.finished = False  # we have nothing more to say, or the client does not listen any more

    async def write(self, data: bytes) -> None:
        if self.finished:
            raise BrokenPipeError("the stream is closed")
        await self._connection.send(Data(self.number, data))

    async def close(self) -> None:
        """We say nothing more; the client may."""
        if not self.finished:
            self.finished = True
            await self._connection.send(Data(self.number, b"", fin=True))

    def drop(self) -> None:
        """The client has reset the stream, or gone."""
        self.finished = True
        self.buffer.end()
        self.dropped.set()

    async def reset(self, status: int = CANCEL) -> None:
        """Both directions end here."""
        self._connection.forget(self)
        self.buffer.discard()
        if not self.finished:
            self.finished = True
            await self._connection.send(Reset(self.number, status))


class SpdyConnection:
    """The server's end. `opened` is called with each new stream, and may raise `Refused`."""

    def __init__(self, connection: Connection, opened: Callable[[SpdyStream], None]) -> None:
        self._connection = connection
        self._opened = opened
        self._framer = Framer()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._pings = 0

    async def run(self) -> None:
        """Takes in frames until the client has gone or says that it goes."""
        try:
            while data := await self._connection.read():
                for frame in self._framer.feed(data):
                    if isinstance(frame, GoAway):
                        return
                    await self._take(frame)
        except SpdyError:
            await self.go_away(PROTOCOL_ERROR)
        finally:
            for stream in self._streams.values():
                stream.drop()
            self._streams.clear()

    async def send(self, frame: Frame) -> None:
        await self._connection.write(self._framer.encode(frame))

    async def ping(self) -> None:
        self._pings += 2  # a server's are even
        await self.send(Ping(self._pings))

    async def go_away(self, status: int = 0) -> None:
        with suppress(ConnectionError):
            await self.send(GoAway(self._last, status))

    def forget(self, stream: SpdyStream) -> None:
        self._streams.pop(stream.number, None)

    async def _take(self, frame: Frame) -> None:
        match frame:
            case SynStream(number, headers, fin):
                await self._open(number, dict(headers), fin)
            case Data(number, data, fin):
                await self._feed(number, data, fin)
            case Reset(number, _):
                if (stream := self._streams.pop(number, None)) is not None:
                    stream.drop()
            case Ping(number) if number % 2:
                await self.send(frame)

    async def _open(self, number: int, headers: dict[str, str], fin: bool) -> None:
        if number <= self._last or number % 2 == 0:
            await self.send(Reset(number, PROTOCOL_ERROR))
            return
        self._last = number
        stream = SpdyStream(self, number, headers)
        if fin:
            stream.buffer.end()
        try:
            if len(self._streams) >= MAX_STREAMS:
                raise StreamRejected(f"more than {MAX_STREAMS} streams")
            self._opened(stream)
        except StreamRejected:
            await self.send(Reset(number, REFUSED_STREAM))
            return
        self._streams[number] = stream
        await self.send(SynReply(number, {}))

    async def _feed(self, number: int, data: bytes, fin: bool) -> None:
        stream = self._streams.get(number)
        if stream is None:
            if number > self._last:
                await self.send(Reset(number, INVALID_STREAM))
            return
        await stream.buffer.feed(data)
        if fin:
            stream.buffer.end()
            if stream.finished:
                self.forget(stream)


class Tunnel:
    """A websocket whose binary messages are pieces of one byte stream."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while (message := await self._socket.receive()) is not None:
            if message.data:
                return message.data
        return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)

    async def close(self) -> None:
        await self._socket.close()
