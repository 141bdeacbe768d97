"""HTTP/1.1 message heads and request targets; shared by the server and the connection pool."""

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

from volcano.base.http.messages import HeaderLines

RequestHeaders = HeaderLines

# Statuses whose responses have no body.
STATUSES_WITHOUT_BODY = frozenset({204, 304})
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n"
    for status in HTTPStatus
    if status.value != 100
}


class MalformedRequest(Exception):
    """Received bytes that are not a valid HTTP request; `status` is the response's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def response_head(status: int, headers: HeaderLines, framing: str) -> bytes:
    """Encodes the head of a response. `framing` are the server's own lines; raises ValueError on injected
    lines."""
    return _answer_lines(status, tuple(headers.items())) + f"{framing}\r\n".encode("latin-1")


@lru_cache(maxsize=256)  # nearly all responses begin with the same few lines
def _answer_lines(status: int, headers: tuple[tuple[str, str | tuple[str, ...]], ...]) -> bytes:
    lines = _header_lines(headers)
    line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n"
    return f"{line}{lines}".encode("latin-1")


def request_head(method: str, target: str, headers: RequestHeaders) -> bytes:
    """Encodes the head of a request; raises ValueError when a header or the target contains a line break."""
    lines = _header_lines(headers.items())
    if not target.isascii() or " " in target or "\n" in target or "\r" in target:
        raise ValueError(f"request target {target!r} must be percent-encoded")
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def _header_lines(headers: Iterable[tuple[str, str | tuple[str, ...]]]) -> str:
    pairs = [
        (name, value)
        for name, values in headers
        for value in ((values,) if isinstance(values, str) else values)
    ]
    lines = "".join([f"{name}: {value}\r\n" for name, value in pairs])
    check_lines(len(pairs), lines)
    return lines


def check_lines(count: int, lines: str) -> None:
    """Raises ValueError when header names or values contain a line break."""
    if lines.count("\n") != count or lines.count("\r") != count:
        raise ValueError("a header contains a line break")


def split_target(target: bytes) -> tuple[str, dict[str, list[str]]]:
    """Returns the percent-decoded path and the query parameters of a request target, in origin or absolute
    form."""
    if not target.startswith(b"/"):
        target = _origin_form(target)
    raw_path, _, raw_query = target.partition(b"?")
    try:
        path = raw_path.decode("ascii") if b"%" not in raw_path else unquote(raw_path, errors="strict")
        query = parse_qs(raw_query.decode("ascii"), keep_blank_values=True) if raw_query else {}
    except UnicodeDecodeError:
        raise MalformedRequest("the request target is not valid UTF-8, percent-encoded") from None
    return path, query


def _origin_form(target: bytes) -> bytes:
    """Returns `http://host/path?query` as `/path?query`; `*` and `host:port` are returned unchanged."""
    _, separator, rest = target.partition(b"://")
    if not separator:
        return target
    authority = rest.partition(b"/")[0].partition(b"?")[0]
    origin = rest[len(authority) :]
    return origin if origin.startswith(b"/") else b"/" + origin
