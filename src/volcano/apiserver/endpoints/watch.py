"""Watch streams: events as JSON lines in the negotiated output, until the timeout or a 410 Gone.

A client that asks for a websocket gets each event as a message.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import urlsplit

import orjson

from volcano.apiserver.endpoints.responses import ResponseWriter
from volcano.apiserver.registry.conversion import ConvertingWatcher
from volcano.apiserver.storage.watch_cache import Watcher
from volcano.base.clock import Clock
from volcano.base.http.messages import Answer, Request, Response, Stream, Upgrade
from volcano.base.http.websocket import WebSocket, accept, is_websocket
from volcano.kube.api.errors import ApiError

HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
UPGRADES = re.compile(r"(^|,)\s*upgrade\s*(,|$)", re.IGNORECASE)  # in the header Connection


def answer(
    request: Request,
    feed: Watcher | ConvertingWatcher,
    clock: Clock,
    writer: ResponseWriter,
    *,
    timeout: float,
    bookmarks: bool,
) -> Answer:
    """The answer to a watch: lines, or a websocket if the client asks for one."""
    lines = stream(feed, clock, writer, timeout=timeout, bookmarks=bookmarks)
    if not is_websocket(request) or not UPGRADES.search(request.headers.get("connection", "")):
        return Stream(lines, 200, HEADERS)
    answered = _websocket(request, lines)
    if not isinstance(answered, Upgrade):
        feed.close()
    return answered


async def stream(
    feed: Watcher | ConvertingWatcher,
    clock: Clock,
    writer: ResponseWriter,
    *,
    timeout: float,
    bookmarks: bool,
) -> AsyncGenerator[bytes]:
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


def _websocket(request: Request, lines: AsyncGenerator[bytes]) -> Answer:
    """Upgrades a watch as kube-apiserver does: with the header Origin and at most one subprotocol, of any name."""
    if not urlsplit(request.headers.get("origin", "")).scheme:
        return Response(
            403, {"Content-Type": "text/plain"}, b"a websocket needs an Origin header with a URL\n"
        )
    offered = [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",")]
    if len(offered) > 1:
        return Response(400, {"Content-Type": "text/plain"}, b"offer one subprotocol at most\n")

    async def run(socket: WebSocket) -> None:
        async with aclosing(lines), asyncio.TaskGroup() as tasks:  # the end of one task ends the other
            sending, waiting = (
                tasks.create_task(_send(lines, socket)),
                tasks.create_task(_await_close(socket)),
            )
            sending.add_done_callback(lambda _: waiting.cancel())
            waiting.add_done_callback(lambda _: sending.cancel())

    answered = accept(request, run, protocols=[name for name in offered if name])
    if isinstance(answered, Upgrade):
        answered.allow_stall = False
    return answered


async def _send(lines: AsyncGenerator[bytes], socket: WebSocket) -> None:
    try:
        async for batch in lines:
            for line in batch.splitlines(keepends=True):
                await socket.send(line.decode())
    except ConnectionError:
        return  # the client has disconnected


async def _await_close(socket: WebSocket) -> None:
    """Answers pings and ignores messages until the client closes."""
    async for _ in socket:
        pass
