"""SPDY/3.1 as used by Kubernetes clients: streams opened by the client, over a connection or inside a websocket.

There is no flow control: the clients' implementation neither sends nor respects window updates. A stream
that is not read blocks the connection, as in the clients.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from volcano.base.http.messages import Connection
from volcano.base.http.websocket import WebSocket
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
    """The stream is not expected."""


class SpdyStream:
    """One stream of a connection: `buffer` has the data received."""

    def __init__(self, connection: "SpdyConnection", number: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.number = number
        self.headers = headers
        self.buffer = ReceiveBuffer()
        self.dropped = asyncio.Event()  # set when the client has reset the stream
        self.finished = False  # whether nothing more can be sent

    async def write(self, data: bytes) -> None:
        if self.finished:
            raise BrokenPipeError("the stream is closed")
        await self._connection.send(Data(self.number, data))

    async def close(self) -> None:
        """Ends the data sent; the client may still send."""
        if not self.finished:
            self.finished = True
            await self._connection.send(Data(self.number, b"", fin=True))

    def drop(self) -> None:
        """Handles a reset by the client or a closed connection."""
        self.finished = True
        self.buffer.end()
        self.dropped.set()

    async def reset(self, status: int = CANCEL) -> None:
        """Ends both directions."""
        self._connection.forget(self)
        self.buffer.discard()
        if not self.finished:
            self.finished = True
            await self._connection.send(Reset(self.number, status))


class SpdyConnection:
    """Server side of a connection. `opened` is called with each new stream, and may raise `StreamRejected`."""

    def __init__(self, connection: Connection, opened: Callable[[SpdyStream], None]) -> None:
        self._connection = connection
        self._opened = opened
        self._framer = Framer()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._pings = 0

    async def run(self) -> None:
        """Receives frames until the client disconnects or sends GOAWAY."""
        try:
            while data := await self._connection.read():
                for frame in self._framer.feed(data):
                    if isinstance(frame, GoAway):
                        return
                    await self._handle_frame(frame)
        except SpdyError:
            await self.go_away(PROTOCOL_ERROR)
        finally:
            for stream in self._streams.values():
                stream.drop()
            self._streams.clear()

    async def send(self, frame: Frame) -> None:
        await self._connection.write(self._framer.encode(frame))

    async def ping(self) -> None:
        self._pings += 2  # those of a server are even
        await self.send(Ping(self._pings))

    async def go_away(self, status: int = 0) -> None:
        with suppress(ConnectionError):
            await self.send(GoAway(self._last, status))

    def forget(self, stream: SpdyStream) -> None:
        self._streams.pop(stream.number, None)

    async def _handle_frame(self, frame: Frame) -> None:
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
    """A byte stream in the binary messages of a websocket."""

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
