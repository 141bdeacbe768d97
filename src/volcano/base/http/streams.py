"""Reading and writing of transports with flow control."""

import asyncio
from collections.abc import AsyncIterator

# Chunks are collected during one iteration of the event loop, up to this many bytes, then written at once.
WRITE_BUFFER_BYTES = 64 << 10
# Received bytes that may wait to be read before reading is paused.
READ_BUFFER_BYTES = 256 << 10


class ChunkWriter:
    """Writes the chunks of a stream, collecting those of one event loop iteration; waits while the client
    does not read."""

    def __init__(self, transport: asyncio.Transport, writable: asyncio.Event, *, chunked: bool) -> None:
        self._transport = transport
        self._writable = writable
        self._chunked = chunked
        self._loop = asyncio.get_running_loop()
        self._collected: list[bytes] = []
        self._size = 0

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in chunks:
                if not chunk:
                    continue
                if not self._collected:
                    self._loop.call_soon(self._flush)
                self._collected.append(chunk)
                self._size += len(chunk)
                if self._size >= WRITE_BUFFER_BYTES:
                    self._flush()
                    await asyncio.sleep(0)  # an iterator that is always ready must not starve other tasks
                if not self._writable.is_set():
                    await self._writable.wait()
        finally:
            self._flush()

    def _flush(self) -> None:
        if not self._collected:
            return
        data = self._collected[0] if len(self._collected) == 1 else b"".join(self._collected)
        self._collected, self._size = [], 0
        if self._transport.is_closing():
            return
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)


class ByteStream:
    """Received bytes of a connection; pauses reading while they are not consumed."""

    def __init__(self, transport: asyncio.Transport, writable: asyncio.Event, rest: bytes = b"") -> None:
        self._transport = transport
        self._writable = writable
        self._buffer = [rest] if rest else []
        self._size = len(rest)
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._arrived = asyncio.Event()
        if rest:
            self._arrived.set()

    def feed(self, data: bytes) -> None:
        if not data:
            return
        self._buffer.append(data)
        self._size += len(data)
        self._arrived.set()
        if self._size > READ_BUFFER_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def feed_eof(self, error: Exception | None = None) -> None:
        """Marks the end; with `error`, further reads raise it."""
        self._ended = True
        self._error = error
        self._arrived.set()

    def take(self) -> bytes:
        """Returns the bytes received so far."""
        data = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer, self._size = [], 0
        if not self._ended:
            self._arrived.clear()
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    async def read(self) -> bytes:
        """Returns all bytes received, at least one; empty at the end."""
        await self._arrived.wait()
        if self._error is not None and not self._buffer:
            raise self._error
        return self.take()

    async def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the other end has gone")
        self._transport.write(data)
        await self._writable.wait()

    async def close(self) -> None:
        self._transport.close()
