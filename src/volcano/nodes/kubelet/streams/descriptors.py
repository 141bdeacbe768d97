"""Pipes, terminals and sockets read and written in the event loop, no faster than the other end goes."""

import asyncio
import errno
import os
from collections.abc import Callable

CHUNK_SIZE = 32 << 10  # bytes at a time: what the clients of the channel protocols expect at most


async def read_chunk(descriptor: int) -> bytes:
    """Some bytes; empty at the end, which for a terminal is when nobody has it open any more."""
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
    """Writes everything; raises BrokenPipeError when nobody reads it any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _readiness(descriptor, loop.add_writer, loop.remove_writer)
        except OSError as error:
            if error.errno in (errno.EIO, errno.ECONNRESET):
                raise BrokenPipeError(error.errno, "nobody reads any more") from None
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
