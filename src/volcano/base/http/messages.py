"""Requests that an HTTP handler receives, and the answers it returns."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Headers = Mapping[str, str]  # names in lower case
# A tuple is a repeated header, once for each value.
HeaderLines = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Peer:
    """The client: its address and, with a verified client certificate, the certificate's subject."""

    address: str = ""
    common_name: str = ""
    organizations: tuple[str, ...] = ()


class BodyStream(Protocol):
    """The body of a request, read as it arrives."""

    async def read(self) -> bytes:
        """Returns the bytes that have arrived; empty at the end."""
        ...


@dataclass(slots=True)
class Request:
    """One HTTP request, body included, or with its body as a stream (`Server.streams_body`)."""

    method: str
    path: str  # percent-decoded, without the query
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    peer: Peer = Peer()
    target: str = ""  # as sent
    body_stream: BodyStream | None = None

    def parameter(self, name: str, default: str = "") -> str:
        """Returns the first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default


@dataclass(slots=True)
class Response:
    """A complete response. The server adds Content-Length."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True)
class Stream:
    """A response sent in chunks as they come (chunked transfer encoding, or with the given length); ends when the
    iterator ends.

    The iterator is closed (`aclose`) when the client disconnects.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: HeaderLines = field(default_factory=dict)
    # For clients such as pagers: not disconnected when they read nothing for a while.
    allow_stall: bool = False
    length: int | None = None  # of the body in bytes, where it is known


class Connection(Protocol):
    """The byte stream of an upgraded connection."""

    async def read(self) -> bytes:
        """Returns the bytes that have arrived; empty at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


Upgraded = Callable[[Connection], Awaitable[None]]  # uses an upgraded connection


@dataclass(slots=True)
class Upgrade:
    """Switches the protocol (101): `run` then owns the connection."""

    run: Upgraded
    headers: HeaderLines = field(default_factory=dict)
    allow_stall: bool = True  # see Stream


@dataclass(slots=True)
class Exchange:
    """A response that another server gives: `run` waits for it, and is cancelled when the client disconnects."""

    run: "Callable[[], Awaitable[Answer]]"


Answer = Response | Stream | Upgrade | Exchange
Handler = Callable[[Request], Awaitable[Answer]]
