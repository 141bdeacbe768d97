"""Reads and writes pipes, terminals and sockets in the event loop, with backpressure."""

import asyncio
import errno
import os
from collections.abc import Callable

CHUNK_SIZE = 32 << 10  # bytes; the maximum that clients of the channel protocols expect


async def read_chunk(descriptor: int) -> bytes:
    """The next bytes; empty at the end, which for a terminal is when its other end is closed."""
    while True:
        try:
            return os.read(descriptor, CHUNK_SIZE)
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _readiness(descriptor, loop.add_reader, loop.remove_reader)
        except OSError as error:
            if error.errno in (errno.EIO, errno.ECONNRESET):
                return b""
            raise


async def write_all(descriptor: int, data: bytes) -> None:
    """Writes everything; raises BrokenPipeError when the other end is closed."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _readiness(descriptor, loop.add_writer, loop.remove_writer)
        except OSError as error:
            if error.errno in (errno.EIO, errno.ECONNRESET):
                raise BrokenPipeError(error.errno, "the other end is closed") from None
            raise


async def _readiness(descriptor: int, watch: Callable[..., object], forget: Callable[[int], object]) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(descriptor, _wake, ready)
    try:
        await ready
    finally:
        forget(descriptor)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
