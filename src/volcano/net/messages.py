"""What an HTTP handler is given and what it may answer with."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Headers = Mapping[str, str]  # names in lower case


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end: its address and, when it showed a verified client certificate, the subject."""

    address: str = ""
    common_name: str = ""
    organizations: tuple[str, ...] = ()


@dataclass(slots=True)
class Request:
    """One HTTP request, body included."""

    method: str
    path: str  # percent-decoded, without the query
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    peer: Peer = Peer()
    target: str = ""  # the request target as it was sent

    def parameter(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default


@dataclass(slots=True)
class Response:
    """A whole answer. Content-Length is added by the server."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True)
class Stream:
    """An answer sent in chunks as they come (chunked transfer encoding); ends cleanly when the iterator ends.

    The iterator is closed (`aclose`) when the client goes away.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    # Somebody may look at it page by page: a client that takes nothing for a while is not hung up on.
    allow_stall: bool = False


class Connection(Protocol):
    """The raw byte stream of an upgraded connection."""

    async def read(self) -> bytes:
        """Some bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Upgrade:
    """Switches the protocol (101): `run` then owns the connection."""

    run: Callable[[Connection], Awaitable[None]]
    headers: dict[str, str] = field(default_factory=dict)


Answer = Response | Stream | Upgrade
Handler = Callable[[Request], Awaitable[Answer]]
