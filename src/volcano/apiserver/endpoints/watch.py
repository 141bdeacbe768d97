"""Watch streams: events as JSON lines in the negotiated output, until the timeout or a 410 Gone."""

from collections.abc import AsyncIterator

import orjson

from volcano.apiserver.endpoints.responses import ResponseWriter
from volcano.apiserver.registry.conversion import ConvertingWatcher
from volcano.apiserver.storage.watch_cache import Watcher
from volcano.clock import Clock
from volcano.kube.errors import ApiError


async def stream(
    feed: Watcher | ConvertingWatcher,
    clock: Clock,
    writer: ResponseWriter,
    *,
    timeout: float,
    bookmarks: bool,
) -> AsyncIterator[bytes]:
    """Lines of one watch. An error after the start of the stream is sent as an ERROR event."""
    try:
        async for batch in feed.batches(clock, timeout=timeout, bookmarks=bookmarks):
            if writer.sends_stored_bytes:
                yield b"".join([event.line() for event in batch])
            else:
                now = clock.now().wall
                yield b"".join([writer.event(event.type, event.data, now) for event in batch])
    except ApiError as error:
        line = {"type": "ERROR", "object": error.status()}
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    finally:
        feed.close()
