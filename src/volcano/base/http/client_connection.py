"""One connection to a server: sends a request and receives its reply, whole or as a stream."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import httptools

from volcano.base.http.http1 import LAST_CHUNK
from volcano.base.http.messages import BodyStream, Headers
from volcano.base.http.streams import ByteStream

MAX_HEAD = 1 << 20  # bytes of the headers of a reply, and of what follows its body
MAX_BODY = 32 << 20  # bytes of a reply that is read whole


class RequestFailed(Exception):
    """The request failed before its reply was complete. `sent` says whether the server may have acted on it."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class RequestTimedOut(RequestFailed):
    """The server did not reply in time."""


class ReplyTooLarge(RequestFailed):
    """The reply has more bytes than are accepted; sending the request again does not help."""


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The body of a request, sent as it arrives: in chunks, or with the length that the request's head names."""

    stream: BodyStream
    chunked: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with its whole body."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """The head of a reply whose body (or upgraded connection) is read as it arrives."""

    status: int
    headers: Headers
    body: ByteStream
    lines: Sequence[tuple[str, str]] = ()  # all headers as sent; `headers` has the last of repeated ones


class ClientConnection(asyncio.Protocol):
    """Carries one request at a time; `reusable` after a reply that leaves the connection open."""

    def __init__(self, server: str) -> None:
        """`server` is the address in error messages."""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._result: asyncio.Future[Reply | StreamedReply] | None = None
        self._byte_stream: ByteStream | None = None
        self.upgraded = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None  # of a streamed body
        self._lost: Exception | None = None
        self.reusable = False
        self.idle_since = 0.0
        self.closed: asyncio.Future[None] = self._loop.create_future()

    # asyncio.Protocol

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the server, DER encoded; None without TLS."""
        tls = self._transport.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) if tls is not None else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.reusable = True
        _keep_alive(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        if self._sending is not None:
            self._sending.cancel()
        self.closed.set_result(None)
        self._writable.set()
        if self.upgraded and self._byte_stream is not None:
            self._byte_stream.feed_eof()
        elif self._pending() and self._closes_with_body():
            self._complete()
        else:
            self._fail(
                RequestFailed(f"{self._server} closed the connection" + (f": {error}" if error else ""))
            )

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self.upgraded and self._byte_stream is not None:
            self._byte_stream.feed(data)
            return
        if not self._pending():
            self.abort()  # data without a request
            return
        self._unframed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._byte_stream is not None:
                self._byte_stream.feed(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._fail(RequestFailed(f"{self._server} does not answer in HTTP: {error}"))
            self.abort()
        if self._unframed > MAX_HEAD and self._pending():
            self._reject(f"headers of more than {MAX_HEAD >> 10} KiB")

    # requests

    async def request(
        self, data: bytes, *, timeout: float, head_only: bool = False, max_body: int = MAX_BODY
    ) -> Reply:
        """Sends a request and returns the whole reply. Raises ReplyTooLarge if its body has more bytes."""
        self._max_body = max_body
        reply = await self._send(data, timeout, stream=False, head_only=head_only)
        assert isinstance(reply, Reply)
        return reply

    async def stream(
        self, data: bytes, *, timeout: float | None, head_only: bool = False, body: RequestBody | None = None
    ) -> StreamedReply:
        """Sends a request and returns its reply's head; `timeout` is for the head alone. `body` is sent after `data`,
        if need be while the reply arrives."""
        reply = await self._send(data, timeout, stream=True, head_only=head_only, body=body)
        assert isinstance(reply, StreamedReply)
        return reply

    async def _send(
        self,
        data: bytes,
        timeout: float | None,
        *,
        stream: bool,
        head_only: bool,
        body: RequestBody | None = None,
    ) -> Reply | StreamedReply:
        if self._lost is not None or self._transport.is_closing():
            raise RequestFailed(f"{self._server} closed the connection", sent=False)
        self.reusable = False
        self._result = self._loop.create_future()
        self._stream, self._head_only = stream, head_only
        self._status, self._headers = 0, dict[str, str]()
        self._lines: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._unframed = 0  # bytes since the last part of a body: headers, those after the body included
        self._in_head = True
        if timeout is not None:
            self._timer = self._loop.call_later(timeout, self._time_out, timeout)
        self._transport.write(data)
        if body is not None:
            self._sending = self._loop.create_task(self._send_body(body))
        completed = False
        try:
            reply = await self._result
            completed = True
            return reply
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if not completed:
                self.abort()

    async def _send_body(self, body: RequestBody) -> None:
        """Sends a body as it arrives; a body that ends early aborts the connection."""
        try:
            while part := await body.stream.read():
                if self._transport.is_closing():
                    return
                self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if body.chunked else part)
                await self._writable.wait()
            if body.chunked and not self._transport.is_closing():
                self._transport.write(LAST_CHUNK)
        except OSError as error:
            self._fail(RequestFailed(f"the request to {self._server} was not completed: {error}"))
            self._transport.abort()

    def close(self) -> None:
        """Closes the connection after pending writes."""
        self.reusable = False
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.reusable = False
        self._transport.abort()

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")
            if self._stream:
                self._lines.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._status = self._parser.get_status_code()
        if not self._stream and not self._head_only and self._announced() > self._max_body:
            self._reject(f"a body of more than {self._max_body >> 10} KiB")
        if self._stream and (self._status >= 200 or self._status == 101):
            self._byte_stream = ByteStream(self._transport, self._writable)
            self.upgraded = self._status == 101
            self._set_result(StreamedReply(self._status, self._headers, self._byte_stream, self._lines))
        if self._head_only and self._status >= 200:
            self._finish(reusable=False)  # the parser would wait for the body that Content-Length announces

    def on_body(self, part: bytes) -> None:
        self._unframed = 0
        if self._byte_stream is not None:
            self._byte_stream.feed(part)
            return
        self._body_size += len(part)
        if self._body_size <= self._max_body:
            self._body.append(part)
        elif self._pending():
            self._reject(f"a body of more than {self._max_body >> 10} KiB")

    def on_message_complete(self) -> None:
        if self.upgraded or self._head_only:
            return
        if self._status < 200:  # 100 Continue and the like: the final reply follows
            self._headers, self._lines, self._in_head = {}, [], True
        else:
            self._finish(reusable=self._parser.should_keep_alive())

    # completion

    def _finish(self, *, reusable: bool) -> None:
        self.reusable = reusable and not self._transport.is_closing()
        self.idle_since = self._loop.time()
        self._complete()
        if not self.reusable:
            self._transport.close()

    def _complete(self) -> None:
        if self._byte_stream is not None:
            self._byte_stream.feed_eof()
            self._byte_stream = None
            self._result = None
        else:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._set_result(Reply(self._status, self._headers, body))

    def _set_result(self, reply: Reply | StreamedReply) -> None:
        if self._result is not None and not self._result.done():
            self._result.set_result(reply)

    def _fail(self, error: RequestFailed) -> None:
        self._lost = error
        if self._byte_stream is not None:
            self._byte_stream.feed_eof(error)
        elif self._result is not None and not self._result.done():
            self._result.set_exception(error)

    def _reject(self, what: str) -> None:
        self._body = []
        self._fail(ReplyTooLarge(f"{self._server} answers with {what}"))
        self.abort()

    def _time_out(self, seconds: float) -> None:
        self._fail(RequestTimedOut(f"{self._server} did not answer within {seconds:g} seconds"))
        self._transport.abort()

    def _pending(self) -> bool:
        """Whether a reply, or the rest of one, is awaited."""
        return self._byte_stream is not None or (self._result is not None and not self._result.done())

    def _announced(self) -> int:
        """The length of the body, if the reply has told it; the parser has checked the number."""
        return int(self._headers.get("content-length") or 0)

    def _closes_with_body(self) -> bool:
        """Whether the end of the connection is the regular end of the reply."""
        framed = "content-length" in self._headers or "transfer-encoding" in self._headers
        return not self._in_head and not framed


def _keep_alive(transport: asyncio.Transport) -> None:
    """Enables TCP keep-alive, so that a watch notices a server that disappeared."""
    endpoint = transport.get_extra_info("socket")
    if endpoint is None or endpoint.family == socket.AF_UNIX:
        return
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not available on every system
            endpoint.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
