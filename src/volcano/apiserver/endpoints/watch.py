"""Watch streams: events as lines, in the shape the client asked for, until time is up or history is gone."""

from collections.abc import AsyncIterator

import orjson

from volcano.apiserver.endpoints.responses import Shaper
from volcano.apiserver.storage.watch_cache import Watcher
from volcano.clock import Clock
from volcano.kube.errors import ApiError


async def stream(
    feed: Watcher, clock: Clock, shaper: Shaper, *, timeout: float, bookmarks: bool
) -> AsyncIterator[bytes]:
    """The lines of one watch. A refusal in the middle becomes an ERROR event, as clients expect."""
    try:
        async for pieces in feed.batches(clock, timeout=timeout, bookmarks=bookmarks):
            if shaper.plain:
                yield b"".join([piece.line() for piece in pieces])
            else:
                now = clock.now().wall
                yield b"".join([shaper.event(piece.type, piece.data, now) for piece in pieces])
    except ApiError as error:
        event = {"type": "ERROR", "object": error.status()}
        yield orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
    finally:
        feed.close()
