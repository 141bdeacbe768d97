"""One connection of the server: requests in, answers out, in order."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from volcano.log import Log
from volcano.net.flow import COLLECT, Pump, Raw
from volcano.net.incoming import Incoming, Limits, RequestParser
from volcano.net.messages import Answer, Handler, Peer, Request, Response, Stream, Upgrade
from volcano.net.wire import BODILESS, CONTINUE, LAST_CHUNK, Malformed, response_head

log = Log("server")

# How long a refused client may go on sending before we hang up; closing at once would lose the refusal.
LINGER = 1.0

ErrorAnswer = Callable[[Request, BaseException], Response]


class House(Protocol):
    """What a connection needs of its server."""

    handler: Handler
    limits: Limits
    on_error: ErrorAnswer
    date: str  # the Date header, refreshed every second
    stopping: bool
    exchanges: "set[Exchange]"


class Exchange(asyncio.Protocol):
    """Parses what arrives, runs the handler for one request at a time and writes its answer."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Incoming | Response] = deque()  # a Response refuses what could not be parsed
        self._task: asyncio.Task[None] | None = None
        self._streaming = False  # the present answer is a stream or an upgraded connection
        self._patient = False  # the client may take as long as it likes
        self._refused = False  # nothing more is parsed
        self._reading_paused = False
        self._continue_wanted = False
        self._raw: Raw | None = (
            None  # what arrives belongs to an upgraded (or about to be upgraded) connection
        )
        self._writable = asyncio.Event()
        self._writable.set()
        self.since = self._loop.time()  # when the present state (idle, receiving, stalled) began

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._secure = transport.get_extra_info("ssl_object") is not None
        self._peer = _peer(transport)
        self._parser = RequestParser(self._house.limits, self._peer, self._deliver, self._expects_continue)
        self._house.exchanges.add(self)
        if self._house.stopping:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._house.exchanges.discard(self)
        self._waiting.clear()
        self._refused = True
        self._writable.set()
        if self._raw is not None:
            self._raw.feed_eof()
        # A handler once begun is finished even when its client has gone: a write half done helps nobody.
        if self._streaming and self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        if self._raw is not None:
            self._raw.feed_eof()
        if self._streaming and self._raw is None and self._task is not None:
            self._task.cancel()
        self._refused = True
        # A client may stop sending and still read what it asked for; TLS cannot be half closed.
        return not self._secure and (self._task is not None or bool(self._waiting))

    def data_received(self, data: bytes) -> None:
        if self._raw is not None:
            self._raw.feed(data)
            return
        if self._refused:
            return
        was_receiving = self._parser.receiving
        try:
            rest = self._parser.feed(data)
        except Malformed as error:
            if not self._refused:  # else: bytes after a request that asked to close
                self._refuse(error)
            return
        if rest is not None:
            self._raw = Raw(self._transport, self._writable, rest)
        if self._parser.receiving and not was_receiving:
            self.since = self._loop.time()

    def pause_writing(self) -> None:
        self._writable.clear()
        self.since = self._loop.time()

    def resume_writing(self) -> None:
        self._writable.set()
        self._next()

    # requests

    def _deliver(self, incoming: Incoming) -> None:
        if self._refused:
            return
        self._refused = not incoming.keep_alive
        self._waiting.append(incoming)
        if len(self._waiting) >= self._house.limits.pipelined and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        self._next()

    def _expects_continue(self) -> None:
        if self._task is None and not self._waiting:
            self._transport.write(CONTINUE)
        else:
            self._continue_wanted = True  # earlier answers go first

    def _refuse(self, error: Malformed) -> None:
        self._refused = True
        body = f"{error}\n".encode()
        self._waiting.append(Response(error.status, {"Content-Type": "text/plain; charset=utf-8"}, body))
        self._next()

    def _next(self) -> None:
        """Starts on the next request, unless one is being answered or the client does not read."""
        if self._task is not None or not self._writable.is_set() or self._transport.is_closing():
            return
        if not self._waiting:
            self.since = self._loop.time()
            if self._refused or self._house.stopping:
                self._transport.close()
            elif self._continue_wanted:
                self._continue_wanted = False
                self._transport.write(CONTINUE)
            return
        incoming = self._waiting.popleft()
        if isinstance(incoming, Response):
            self._send(incoming, keep_alive=False, head_only=False)
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._loop.call_later(LINGER, self._transport.close)
            return
        if self._reading_paused and len(self._waiting) < self._house.limits.pipelined // 2:
            self._reading_paused = False
            self._transport.resume_reading()
        self._task = self._loop.create_task(self._serve(incoming))

    async def _serve(self, incoming: Incoming) -> None:
        try:
            answer = await self._ask(incoming.request)
            if type(answer) is Response:
                self._respond(incoming, answer)
            else:
                await self._run(incoming, answer)
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception as error:
            log.error("answer broken off", path=incoming.request.path, error=error)
            self._transport.abort()  # the client must not take the part for the whole
        finally:
            self._task, self._streaming, self._patient = None, False, False
        self._next()

    async def _ask(self, request: Request) -> Answer:
        try:
            return await self._house.handler(request)
        except Exception as error:
            log.error("handler failed", method=request.method, path=request.path, error=error)
            return self._house.on_error(request, error)

    # answers

    def _respond(self, incoming: Incoming, response: Response) -> None:
        if incoming.upgrade:
            self._decline_upgrade()
        keep_alive = incoming.keep_alive and not self._house.stopping
        if not keep_alive:
            self._refused = True
        self._send(response, keep_alive=keep_alive, head_only=incoming.request.method == "HEAD")

    def _send(self, response: Response, *, keep_alive: bool, head_only: bool) -> None:
        body, bodiless = response.body, response.status in BODILESS
        framing = "" if bodiless else f"Content-Length: {len(body)}\r\n"
        head = response_head(response.status, response.headers, framing + self._connection(keep_alive))
        if head_only or bodiless:
            body = b""
        if len(body) <= COLLECT:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _connection(self, keep_alive: bool) -> str:
        date = f"Date: {self._house.date}\r\n"
        return date if keep_alive else date + "Connection: close\r\n"

    def _decline_upgrade(self) -> None:
        """The answer is a plain one: what came after the request is HTTP after all."""
        raw, self._raw = self._raw, None
        if raw is not None and (rest := raw.take()):
            self._loop.call_soon(self.data_received, rest)

    async def _run(self, incoming: Incoming, answer: Answer) -> None:
        self._streaming = True
        self._patient = isinstance(answer, Upgrade) or (isinstance(answer, Stream) and answer.patient)
        match answer:
            case Stream():
                if incoming.upgrade:
                    self._decline_upgrade()
                await self._stream(incoming, answer)
            case Upgrade():
                await self._upgrade(incoming, answer)
            case _:
                raise TypeError(
                    f"a handler must answer with Response, Stream or Upgrade, not {type(answer).__name__}"
                )

    async def _stream(self, incoming: Incoming, stream: Stream) -> None:
        chunked = incoming.chunked_allowed
        keep_alive = incoming.keep_alive and chunked and not self._house.stopping
        if not keep_alive:
            self._refused = True
        framing = ("Transfer-Encoding: chunked\r\n" if chunked else "") + self._connection(keep_alive)
        try:
            self._transport.write(response_head(stream.status, stream.headers, framing))
            if incoming.request.method != "HEAD":
                await Pump(self._transport, self._writable, chunked=chunked).run(stream.chunks)
        except asyncio.CancelledError:
            if not self._house.stopping or self._transport.is_closing():
                raise
            self._refused = True  # the server is going: the stream ends here, cleanly
        finally:
            await _close(stream.chunks)
        if chunked and incoming.request.method != "HEAD":
            self._transport.write(LAST_CHUNK)

    async def _upgrade(self, incoming: Incoming, upgrade: Upgrade) -> None:
        self._refused = True
        if self._raw is None:
            error = Response(400, {}, b"this address needs a request that upgrades the connection\n")
            self._send(error, keep_alive=False, head_only=False)
            return
        headers = {"Connection": "Upgrade", **upgrade.headers}
        self._transport.write(response_head(101, headers, ""))
        try:
            await upgrade.run(self._raw)
        finally:
            await self._raw.close()

    # what the server asks of a connection

    def tick(self, now: float) -> None:
        """Hangs up on a client that takes too long; called about once a second."""
        limits = self._house.limits
        if not self._writable.is_set():
            if now - self.since > limits.stall and not self._patient:
                log.info("client does not read, hanging up", peer=self._peer.address)
                self._transport.abort()
        elif self._task is None and self._raw is None and not self._refused:
            if self._parser.receiving:
                if now - self.since > limits.receive:
                    self._refuse(Malformed(f"the request took longer than {limits.receive:g} seconds", 408))
            elif now - self.since > limits.idle:
                self._transport.close()

    def finish(self) -> None:
        """Ends streams and idle connections; a request in progress is still answered."""
        if self._streaming and self._task is not None:
            self._task.cancel()
        elif self._task is None and not self._waiting:
            self._transport.close()

    def abort(self) -> None:
        """Ends at once."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()


async def _close(chunks: AsyncIterator[bytes]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()


def _peer(transport: asyncio.Transport) -> Peer:
    """Who is at the other end of a transport."""
    address = transport.get_extra_info("peername")
    host = str(address[0]) if isinstance(address, tuple) else str(address or "")
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    certificate: dict[str, Any] = (tls.getpeercert() if tls is not None else None) or {}
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for name, value in subject if name == "commonName"]
    groups = tuple(value for name, value in subject if name == "organizationName")
    return Peer(host, names[0] if names else "", groups)
