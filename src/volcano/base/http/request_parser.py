"""Parses HTTP requests and enforces limits on their size."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import httptools

from volcano.base.http.http1 import MalformedRequest, split_target
from volcano.base.http.messages import Peer, Request
from volcano.base.http.streams import ByteStream

_LENGTH = b"content-length"
CACHED_HEAD_BYTES = 2048  # of the longest head that is cached


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request in bytes and seconds."""

    body: int = 3 << 20
    head: int = 64 << 10
    headers: int = 200
    idle: float = 180.0  # between requests on a persistent connection
    receive: float = 60.0  # from the first byte of a request to its last
    stall: float = 120.0  # without reading any byte of a response
    pipelined: int = 32  # requests queued on one connection before reading is paused
    buffered: int = 256 << 20  # bodies of all connections of a server together

    @property
    def message(self) -> int:
        """Bytes that one request may have on the wire: chunked bodies include framing."""
        return self.body * 8 + self.head


@dataclass(slots=True)
class ParsedRequest:
    """A request and the connection properties of its framing."""

    request: Request
    keep_alive: bool
    chunked_allowed: bool  # HTTP/1.1; older clients get an unframed body and a closed connection
    upgrade: bool


class Head(NamedTuple):
    """The headers of a request without Content-Length, and the framing they imply."""

    headers: Mapping[str, str]
    in_chunks: bool
    expects_continue: bool


def read_head(lines: tuple[bytes, ...]) -> Head:
    """Parses alternating header names and values; raises `MalformedRequest`. The result is shared and must
    not be modified."""
    headers: dict[str, str] = {}
    for name, value in zip(lines[::2], lines[1::2], strict=True):
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = headers.get(key)
        if known is None:
            headers[key] = text
        elif key == "host":
            raise MalformedRequest(f"more than one {key} header")
        else:
            headers[key] = f"{known}{'; ' if key == 'cookie' else ', '}{text}"
    expects = headers.get("expect", "").lower() == "100-continue"
    return Head(headers, "transfer-encoding" in headers, expects)


# A client sends the same lines with every request.
cached_head = lru_cache(maxsize=1024)(read_head)


class BodyBuffer:
    """Bytes of the request bodies that a server holds in memory."""

    def __init__(self, limit: int) -> None:
        self.used = 0
        self._limit = limit

    def take(self, size: int) -> None:
        if self.used + size > self._limit:
            raise MalformedRequest("the server holds too many request bodies, please try again later", 429)
        self.used += size

    def release(self, size: int) -> None:
        self.used -= size


class RequestParser:
    """Collects httptools' callbacks into `ParsedRequest`s, passed to `deliver` when they are complete.

    `expects_continue` is called when the client waits for 100 Continue before it sends the body. Requests for which
    `streams_body` (given method and target) is true are delivered after their head, with their body as a stream.
    """

    def __init__(
        self,
        limits: Limits,
        peer: Peer,
        deliver: Callable[[ParsedRequest], None],
        expects_continue: Callable[[], None],
        buffer: BodyBuffer | None = None,
        *,
        streams_body: Callable[[str, str], bool] | None = None,
        open_stream: Callable[[], ByteStream] | None = None,
    ) -> None:
        self._limits = limits
        self._buffer = buffer or BodyBuffer(limits.buffered)
        self._peer = peer
        self._deliver = deliver
        self._expects_continue = expects_continue
        self._streams_body = streams_body
        self._open_stream = open_stream
        self._stream: ByteStream | None = None  # of the body of a request that has been delivered
        self._parser = httptools.HttpRequestParser(self)
        self.receiving = False  # inside a request
        self.buffered = 0  # bytes of the body received so far
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: Mapping[str, str] = {}
        self._lines: list[bytes] = []  # names and values, without Content-Length
        self._length: str | None = None
        self._version = ""
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_size = 0
        self._wire_size = 0
        self._in_head = True

    def feed(self, data: bytes) -> bytes | None:
        """Parses bytes; returns those after an upgrade request, else None. Raises `MalformedRequest`."""
        already = self.receiving
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parser = httptools.HttpRequestParser(self)
            return data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, MalformedRequest) else MalformedRequest(str(error)) from error
        except httptools.HttpParserError as error:
            raise MalformedRequest(str(error)) from error
        if already and self.receiving and self._stream is None:
            self._count(len(data))
        return None

    def _count(self, size: int) -> None:
        self._wire_size += size
        if self._in_head and self._wire_size > self._limits.head:
            raise MalformedRequest(f"the request head is longer than {self._limits.head} bytes", 431)
        if self._wire_size > self._limits.message:
            raise MalformedRequest(f"limit is {self._limits.body} bytes", 413)

    # httptools' callbacks, in the order of their calls

    def on_message_begin(self) -> None:
        self._reset()
        self.receiving = True

    def on_url(self, part: bytes) -> None:
        self._target += part
        if len(self._target) > self._limits.head:
            raise MalformedRequest(f"the request target is longer than {self._limits.head} bytes", 414)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) + 4
        if self._head_size > self._limits.head:
            raise self._head_too_long()
        if not self._in_head:
            return  # a trailer
        if len(name) == len(_LENGTH) and name.lower() == _LENGTH:
            if self._length is not None:
                raise MalformedRequest("more than one content-length header")
            self._length = value.decode("latin-1")
        else:
            self._lines += (name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        version, length = self._parser.get_http_version(), self._length
        if version not in ("1.1", "1.0"):
            raise MalformedRequest(f"HTTP/{version} is not spoken here; use HTTP/1.1", 505)
        head = (cached_head if self._head_size <= CACHED_HEAD_BYTES else read_head)(tuple(self._lines))
        headers = head.headers if length is None else {**head.headers, "content-length": length}
        if len(headers) > self._limits.headers:
            raise self._head_too_long()
        if version == "1.1" and "host" not in headers:
            raise MalformedRequest("an HTTP/1.1 request must have a host header")
        has_body = head.in_chunks or length not in (None, "0")
        self._headers, self._version = headers, version
        if has_body and self._is_streamed():
            if head.expects_continue:
                self._expects_continue()
            self._deliver_head()
            return
        if length is not None and length.isdigit() and int(length) > self._limits.body:
            raise MalformedRequest(f"limit is {self._limits.body} bytes", 413)
        if has_body and self._parser.should_upgrade():
            raise MalformedRequest("a request to upgrade the connection must not have a body")
        if head.expects_continue and has_body:
            self._expects_continue()

    def _is_streamed(self) -> bool:
        if self._streams_body is None or self._open_stream is None or self._parser.should_upgrade():
            return False
        return self._streams_body(self._parser.get_method().decode("ascii"), self._target.decode("latin-1"))

    def _deliver_head(self) -> None:
        assert self._open_stream is not None
        self._stream = self._open_stream()
        self._deliver(self._request(b"", self._stream))

    def abort_stream(self) -> None:
        """Ends the stream of a body that will not be completed."""
        if self._stream is not None:
            self._stream.take()  # resumes reading
            self._stream.feed_eof(ConnectionResetError("the client disconnected within the request's body"))
            self._stream = None

    def _head_too_long(self) -> MalformedRequest:
        return MalformedRequest(
            f"the request head is longer than {self._limits.head} bytes or has too many lines", 431
        )

    def on_body(self, part: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(part)
            return
        self._body_size += len(part)
        if self._body_size > self._limits.body:
            raise MalformedRequest(f"limit is {self._limits.body} bytes", 413)
        self._buffer.take(len(part))
        self.buffered += len(part)
        self._body.append(part)

    def on_message_complete(self) -> None:
        self.receiving = False
        if self._stream is not None:
            self._stream.feed_eof()
            self._stream = None
            return
        self.buffered = 0  # now the receiver's
        self._deliver(self._request(self._body[0] if len(self._body) == 1 else b"".join(self._body), None))

    def _request(self, body: bytes, stream: ByteStream | None) -> ParsedRequest:
        path, query = split_target(self._target)
        parser = self._parser
        request = Request(
            parser.get_method().decode("ascii"),
            path,
            query,
            self._headers,
            body,
            self._peer,
            self._target.decode("latin-1"),
            stream,
        )
        return ParsedRequest(
            request,
            parser.should_keep_alive(),
            self._version == "1.1",
            parser.should_upgrade(),
        )
