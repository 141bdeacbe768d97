"""Bytes from a client into requests: framing, limits, and what makes them malformed."""

from collections.abc import Callable
from dataclasses import dataclass

import httptools

from volcano.net.messages import Peer, Request
from volcano.net.wire import Malformed, split_target


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may send and how long it may take, in bytes and seconds."""

    body: int = 3 << 20
    head: int = 64 << 10
    headers: int = 200
    idle: float = 180.0  # between requests on a kept connection
    receive: float = 60.0  # from the first byte of a request to its last
    stall: float = 120.0  # without taking any byte of an answer
    pipelined: int = 32  # requests waiting on one connection before we stop reading

    @property
    def message(self) -> int:
        """Bytes one request may take on the wire: chunked bodies carry framing beside their content."""
        return self.body * 8 + self.head


@dataclass(slots=True)
class Incoming:
    """A request and what its framing says about the connection."""

    request: Request
    keep_alive: bool
    chunked_allowed: bool  # HTTP/1.1; older clients get an unframed body and a closed connection
    upgrade: bool


class RequestParser:
    """Collects httptools' callbacks into `Incoming` requests, handed to `deliver` as they are complete.

    `expects_continue` is called when the client waits for a go-ahead before it sends the body.
    """

    def __init__(
        self,
        limits: Limits,
        peer: Peer,
        deliver: Callable[[Incoming], None],
        expects_continue: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._peer = peer
        self._deliver = deliver
        self._expects_continue = expects_continue
        self._parser = httptools.HttpRequestParser(self)
        self.receiving = False  # inside a request
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_size = 0
        self._wire_size = 0
        self._in_head = True

    def feed(self, data: bytes) -> bytes | None:
        """Takes bytes in; returns what follows an upgrade request, else None. Raises `Malformed`."""
        already = self.receiving
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parser = httptools.HttpRequestParser(self)
            return data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, Malformed) else Malformed(str(error)) from error
        except httptools.HttpParserError as error:
            raise Malformed(str(error)) from error
        if already and self.receiving:
            self._count(len(data))
        return None

    def _count(self, size: int) -> None:
        self._wire_size += size
        if self._in_head and self._wire_size > self._limits.head:
            raise Malformed(f"the request head is longer than {self._limits.head} bytes", 431)
        if self._wire_size > self._limits.message:
            raise Malformed(f"the request is longer than {self._limits.body} bytes", 413)

    # httptools' callbacks, in the order they come

    def on_message_begin(self) -> None:
        self._reset()
        self.receiving = True

    def on_url(self, part: bytes) -> None:
        self._target += part
        if len(self._target) > self._limits.head:
            raise Malformed(f"the request target is longer than {self._limits.head} bytes", 414)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) + 4
        if self._head_size > self._limits.head or len(self._headers) >= self._limits.headers:
            raise Malformed(
                f"the request head is longer than {self._limits.head} bytes or has too many lines", 431
            )
        if not self._in_head:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        if known is None:
            self._headers[key] = text
        elif key in ("host", "content-length"):
            raise Malformed(f"more than one {key} header")
        else:
            self._headers[key] = f"{known}{'; ' if key == 'cookie' else ', '}{text}"

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers, version = self._headers, self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Malformed(f"HTTP/{version} is not spoken here; use HTTP/1.1", 505)
        if version == "1.1" and "host" not in headers:
            raise Malformed("an HTTP/1.1 request must have a host header")
        length = headers.get("content-length", "0")
        has_body = length != "0" or "transfer-encoding" in headers
        if length.isdigit() and int(length) > self._limits.body:
            raise Malformed(f"the request body is longer than {self._limits.body} bytes", 413)
        if has_body and self._parser.should_upgrade():
            raise Malformed("a request to upgrade the connection must not have a body")
        if headers.get("expect", "").lower() == "100-continue" and has_body:
            self._expects_continue()

    def on_body(self, part: bytes) -> None:
        self._body_size += len(part)
        if self._body_size > self._limits.body:
            raise Malformed(f"the request body is longer than {self._limits.body} bytes", 413)
        self._body.append(part)

    def on_message_complete(self) -> None:
        self.receiving = False
        path, query = split_target(self._target)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        parser = self._parser
        request = Request(
            parser.get_method().decode("ascii"),
            path,
            query,
            self._headers,
            body,
            self._peer,
            self._target.decode("latin-1"),
        )
        self._deliver(
            Incoming(
                request,
                parser.should_keep_alive(),
                parser.get_http_version() == "1.1",
                parser.should_upgrade(),
            )
        )
