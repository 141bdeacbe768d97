"""Bounded buffer of the data received on one channel."""

import asyncio
from collections import deque

MAX_BUFFERED = 1 << 20  # bytes that may wait before the sender is blocked


class ReceiveBuffer:
    """Bytes for one reader, in order; `feed` blocks while too much is unread."""

    def __init__(self, limit: int = MAX_BUFFERED) -> None:
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._arrived = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()

    async def feed(self, data: bytes) -> None:
        """Adds data; returns when more fits. After the end, data is dropped."""
        if self._ended or not data:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._arrived.set()
        if self._size > self._limit:
            self._space.clear()
            await self._space.wait()

    def end(self) -> None:
        """Ends the data; what is buffered can still be read."""
        self._ended = True
        self._arrived.set()
        self._space.set()

    def discard(self) -> None:
        """Drops the buffered data and all that follows."""
        self._waiting.clear()
        self._size = 0
        self.end()

    async def read(self) -> bytes:
        """The next chunk; empty at the end."""
        await self._arrived.wait()
        if not self._waiting:
            return b""
        data = self._waiting.popleft()
        self._size -= len(data)
        if self._size <= self._limit:
            self._space.set()
        if not self._waiting and not self._ended:
            self._arrived.clear()
        return data
