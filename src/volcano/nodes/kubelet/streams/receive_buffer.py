"""What arrives on one channel of many: kept until it is read, and no more of it than is bearable."""

import asyncio
from collections import deque

MAX_BUFFERED = 1 << 20  # bytes that may wait before the sender is stopped


class ReceiveBuffer:
    """Bytes for one reader, in order; whoever feeds it waits while too much is unread."""

    def __init__(self, limit: int = MAX_BUFFERED) -> None:
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._arrived = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()

    async def feed(self, data: bytes) -> None:
        """Adds some bytes; returns when there is room for more. After the end they are dropped."""
        if self._ended or not data:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._arrived.set()
        if self._size > self._limit:
            self._space.clear()
            await self._space.wait()

    def end(self) -> None:
        """Nothing more comes; what has come can still be read."""
        self._ended = True
        self._arrived.set()
        self._space.set()

    def discard(self) -> None:
        """Nobody reads any more: what is here and what still comes is dropped."""
        self._waiting.clear()
        self._size = 0
        self.end()

    async def read(self) -> bytes:
        """One piece of what has come; empty at the end."""
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
