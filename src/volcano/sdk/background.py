"""Event loop in a thread of its own, so that the SDK's functions block as users expect, in notebooks too.

A notebook runs its cells inside an event loop, where `asyncio.run` is an error.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import cache
from typing import TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for callers in other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="volcano-sdk", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Runs a coroutine and returns its result; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Iterates over an asynchronous source; it is closed when the caller stops."""
        try:
            while True:
                try:
                    yield self.run(_next(source))
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                self.run(close())


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)


@cache
def background() -> BackgroundLoop:
    """The loop of this process, started on first use."""
    return BackgroundLoop()
