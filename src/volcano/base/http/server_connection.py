"""One connection of the server: parses requests and sends responses, in order."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from volcano.base.http.http1 import (
    CONTINUE,
    LAST_CHUNK,
    STATUSES_WITHOUT_BODY,
    MalformedRequest,
    response_head,
)
from volcano.base.http.messages import Answer, Exchange, Handler, Peer, Request, Response, Stream, Upgrade
from volcano.base.http.request_parser import BodyBuffer, Limits, ParsedRequest, RequestParser
from volcano.base.http.streams import WRITE_BUFFER_BYTES, ByteStream, ChunkWriter
from volcano.base.log import Log

log = Log("server")

# How long a rejected client may go on sending before the connection is closed; closing at once would lose the
# response.
LINGER_SECONDS = 1.0

ErrorHandler = Callable[[Request, BaseException], Response]
MalformedHandler = Callable[[MalformedRequest], Response]
StreamsBody = Callable[[str, str], bool]  # by method and target


class ServerContext(Protocol):
    """The server's properties that a connection needs."""

    handler: Handler
    limits: Limits
    body_buffer: BodyBuffer
    on_error: ErrorHandler
    on_malformed: MalformedHandler
    date: str  # the Date header, refreshed every second
    stopping: bool
    connections: "set[ServerConnection]"
    streams_body: StreamsBody | None  # requests that are handled before their body has arrived


class ServerConnection(asyncio.Protocol):
    """Parses requests, runs the handler for one at a time and sends its response."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[ParsedRequest | Response] = (
            deque()
        )  # a Response rejects what could not be parsed
        self._task: asyncio.Task[None] | None = None
        self._streaming = False  # the current response is a stream or an upgraded connection
        self._may_stall = False  # no timeout for reading the response
        self._stop_parsing = False  # further bytes are ignored
        self._reading_paused = False
        self._continue_wanted = False
        self._byte_stream: ByteStream | None = (
            None  # received bytes of an upgraded (or about to be upgraded) connection
        )
        self._writable = asyncio.Event()
        self._writable.set()
        self.since = self._loop.time()  # when the current state (idle, receiving, stalled) began

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._secure = transport.get_extra_info("ssl_object") is not None
        self._peer = _peer(transport)
        self._parser = RequestParser(
            self._server.limits,
            self._peer,
            self._deliver,
            self._expects_continue,
            self._server.body_buffer,
            streams_body=self._server.streams_body,
            open_stream=lambda: ByteStream(self._transport, self._writable),
        )
        self._server.connections.add(self)
        if self._server.stopping:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._release_bodies()
        self._stop_parsing = True
        self._writable.set()
        if self._byte_stream is not None:
            self._byte_stream.feed_eof()
        self._parser.abort_stream()
        # A handler runs to its end even when the client has disconnected: a write must not be done by half.
        if self._streaming and self._task is not None:
            self._task.cancel()

    def _release_bodies(self) -> None:
        """Forgets requests that are not answered any more."""
        held = sum(
            len(waiting.request.body) for waiting in self._waiting if isinstance(waiting, ParsedRequest)
        )
        self._server.body_buffer.release(held + self._parser.buffered)
        self._parser.buffered = 0
        self._waiting.clear()

    def eof_received(self) -> bool:
        if self._byte_stream is not None:
            self._byte_stream.feed_eof()
        if self._streaming and self._byte_stream is None and self._task is not None:
            self._task.cancel()
        self._stop_parsing = True
        self._parser.abort_stream()
        # A client may stop sending and still read its response; TLS cannot be half closed.
        return not self._secure and (self._task is not None or bool(self._waiting))

    def data_received(self, data: bytes) -> None:
        if self._byte_stream is not None:
            self._byte_stream.feed(data)
            return
        if self._stop_parsing:
            return
        was_receiving = self._parser.receiving
        try:
            rest = self._parser.feed(data)
        except MalformedRequest as error:
            if not self._stop_parsing:  # else: bytes after a request with Connection: close
                self._reject(error)
            return
        if rest is not None:
            self._byte_stream = ByteStream(self._transport, self._writable, rest)
        if self._parser.receiving and not was_receiving:
            self.since = self._loop.time()

    def pause_writing(self) -> None:
        self._writable.clear()
        self.since = self._loop.time()

    def resume_writing(self) -> None:
        self._writable.set()
        self._next()

    # requests

    def _deliver(self, parsed: ParsedRequest) -> None:
        if self._stop_parsing:
            self._server.body_buffer.release(len(parsed.request.body))
            return
        self._stop_parsing = not parsed.keep_alive
        self._waiting.append(parsed)
        if len(self._waiting) >= self._server.limits.pipelined and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        self._next()

    def _expects_continue(self) -> None:
        if self._task is None and not self._waiting:
            self._transport.write(CONTINUE)
        else:
            self._continue_wanted = True  # after earlier responses

    def _reject(self, error: MalformedRequest) -> None:
        self._stop_parsing = True
        self._parser.abort_stream()
        self._waiting.append(self._server.on_malformed(error))
        self._next()

    def _next(self) -> None:
        """Starts the next request, unless one is in progress or the client does not read."""
        if self._task is not None or not self._writable.is_set() or self._transport.is_closing():
            return
        if not self._waiting:
            self.since = self._loop.time()
            if self._stop_parsing or self._server.stopping:
                self._transport.close()
            elif self._continue_wanted:
                self._continue_wanted = False
                self._transport.write(CONTINUE)
            return
        parsed = self._waiting.popleft()
        if isinstance(parsed, Response):
            self._send(parsed, keep_alive=False, head_only=False)
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._loop.call_later(LINGER_SECONDS, self._transport.close)
            return
        if self._reading_paused and len(self._waiting) < self._server.limits.pipelined // 2:
            self._reading_paused = False
            self._transport.resume_reading()
        self._task = self._loop.create_task(self._serve(parsed))

    async def _serve(self, parsed: ParsedRequest) -> None:
        if parsed.request.body_stream is not None and self._continue_wanted:
            self._continue_wanted = False
            self._transport.write(CONTINUE)
        try:
            answer = await self._handle(parsed.request)
            if type(answer) is Response:
                self._respond(parsed, answer)
            else:
                await self._run(parsed, answer)
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception as error:  # a bug in one handler must not stop the server
            log.error("response aborted", path=parsed.request.path, error=error)
            self._transport.abort()  # the client must not take a partial response for the whole
        finally:
            self._server.body_buffer.release(len(parsed.request.body))
            self._task, self._streaming, self._may_stall = None, False, False
        if parsed.request.body_stream is not None and self._parser.receiving:
            self._discard_body()
        else:
            self._next()

    def _discard_body(self) -> None:
        """Ignores the rest of a body that the handler did not read, and closes the connection soon."""
        self._stop_parsing = True
        self._parser.abort_stream()
        self._loop.call_later(LINGER_SECONDS, self._transport.close)

    async def _handle(self, request: Request) -> Answer:
        try:
            return await self._server.handler(request)
        except Exception as error:  # a bug in one handler must not stop the server
            log.error("handler failed", method=request.method, path=request.path, error=error)
            return self._server.on_error(request, error)

    # responses

    def _respond(self, parsed: ParsedRequest, response: Response) -> None:
        if parsed.upgrade:
            self._decline_upgrade()
        keep_alive = parsed.keep_alive and not self._server.stopping
        if not keep_alive:
            self._stop_parsing = True
        self._send(response, keep_alive=keep_alive, head_only=parsed.request.method == "HEAD")

    def _send(self, response: Response, *, keep_alive: bool, head_only: bool) -> None:
        body, bodiless = response.body, response.status in STATUSES_WITHOUT_BODY
        framing = "" if bodiless else f"Content-Length: {len(body)}\r\n"
        head = response_head(response.status, response.headers, framing + self._connection(keep_alive))
        if head_only or bodiless:
            body = b""
        if len(body) <= WRITE_BUFFER_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _connection(self, keep_alive: bool) -> str:
        date = f"Date: {self._server.date}\r\n"
        return date if keep_alive else date + "Connection: close\r\n"

    def _decline_upgrade(self) -> None:
        """Handles a plain response to an upgrade request: the bytes after the request are HTTP."""
        stream, self._byte_stream = self._byte_stream, None
        if stream is not None and (rest := stream.take()):
            self._loop.call_soon(self.data_received, rest)

    async def _run(self, parsed: ParsedRequest, answer: Answer) -> None:
        self._streaming = True
        self._may_stall = isinstance(answer, Upgrade | Stream) and answer.allow_stall
        match answer:
            case Exchange():
                await self._exchange(parsed, answer)
            case Stream():
                if parsed.upgrade:
                    self._decline_upgrade()
                await self._stream(parsed, answer)
            case Upgrade():
                await self._upgrade(parsed, answer)
            case _:
                raise TypeError(
                    f"a handler must answer with Response, Stream, Upgrade or Exchange, not {type(answer).__name__}"
                )

    async def _exchange(self, parsed: ParsedRequest, exchange: Exchange) -> None:
        try:
            answer = await exchange.run()
        except Exception as error:  # a bug in one handler must not stop the server
            log.error("handler failed", path=parsed.request.path, error=error)
            answer = self._server.on_error(parsed.request, error)
        if isinstance(answer, Response):
            self._respond(parsed, answer)
        else:
            await self._run(parsed, answer)

    async def _stream(self, parsed: ParsedRequest, stream: Stream) -> None:
        chunked = parsed.chunked_allowed and stream.length is None
        keep_alive = parsed.keep_alive and parsed.chunked_allowed and not self._server.stopping
        if not keep_alive:
            self._stop_parsing = True
        framing = "Transfer-Encoding: chunked\r\n" if chunked else ""
        if stream.length is not None:
            framing = f"Content-Length: {stream.length}\r\n"
        framing += self._connection(keep_alive)
        try:
            self._transport.write(response_head(stream.status, stream.headers, framing))
            if parsed.request.method != "HEAD":
                await ChunkWriter(self._transport, self._writable, chunked=chunked).run(stream.chunks)
        except asyncio.CancelledError:
            if not self._server.stopping or self._transport.is_closing():
                raise
            self._stop_parsing = True  # the server is stopping: the stream ends regularly
        finally:
            await _close(stream.chunks)
        if chunked and parsed.request.method != "HEAD":
            self._transport.write(LAST_CHUNK)

    async def _upgrade(self, parsed: ParsedRequest, upgrade: Upgrade) -> None:
        self._stop_parsing = True
        if self._byte_stream is None:
            error = Response(400, {}, b"this address needs a request that upgrades the connection\n")
            self._send(error, keep_alive=False, head_only=False)
            return
        headers = {"Connection": "Upgrade", **upgrade.headers}
        self._transport.write(response_head(101, headers, ""))
        try:
            await upgrade.run(self._byte_stream)
        finally:
            await self._byte_stream.close()

    # called by the server

    def tick(self, now: float) -> None:
        """Closes the connection of a client that takes too long; called about once a second."""
        limits = self._server.limits
        if not self._writable.is_set():
            if now - self.since > limits.stall and not self._may_stall:
                log.info("stalled client disconnected", peer=self._peer.address)
                self._transport.abort()
        elif self._task is None and self._byte_stream is None and not self._stop_parsing:
            if self._parser.receiving:
                if now - self.since > limits.receive:
                    self._reject(
                        MalformedRequest(f"the request took longer than {limits.receive:g} seconds", 408)
                    )
            elif now - self.since > limits.idle:
                self._transport.close()

    def finish(self) -> None:
        """Ends streams and idle connections; a request in progress is still answered."""
        if self._streaming and self._task is not None:
            self._task.cancel()
        elif self._task is None and not self._waiting:
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()


async def _close(chunks: AsyncIterator[bytes]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()


def _peer(transport: asyncio.Transport) -> Peer:
    """Returns the peer of a transport."""
    address = transport.get_extra_info("peername")
    host = str(address[0]) if isinstance(address, tuple) else str(address or "")
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    certificate: dict[str, Any] = (tls.getpeercert() if tls is not None else None) or {}
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for name, value in subject if name == "commonName"]
    groups = tuple(value for name, value in subject if name == "organizationName")
    return Peer(host, names[0] if names else "", groups)
