"""What arrives on one channel of many: kept until it is read, and no more of it than is bearable."""

import asyncio
from collections import deque

HOLD = 1 << 20  # bytes that may wait before the sender is stopped


class Inbox:
    """Bytes for one reader, in order; whoever feeds it waits while too much is unread."""

    def __init__(self, hold: int = HOLD) -> None:
        self._hold = hold
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def feed(self, data: bytes) -> None:
        """Adds some bytes; returns when there is room for more. After the end they are dropped."""
        if self._ended or not data:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._arrived.set()
        if self._size > self._hold:
            self._room.clear()
            await self._room.wait()

    def end(self) -> None:
        """Nothing more comes; what has come can still be read."""
        self._ended = True
        self._arrived.set()
        self._room.set()

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
        if self._size <= self._hold:
            self._room.set()
        if not self._waiting and not self._ended:
            self._arrived.clear()
        return data
