"""Websockets over an upgraded connection."""

import asyncio
import base64
import hashlib
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wsproto.connection import Connection as Framing
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError

from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.http1 import RequestHeaders
from volcano.base.http.messages import Answer, Connection, Headers, Request, Response, Upgrade
from volcano.base.http.pool import ConnectionPool

MAX_MESSAGE = 4 << 20
NORMAL = 1000
NO_STATUS = 1005
ABNORMAL = 1006
TOO_BIG = 1009
UNEXPECTED = 1011
LONGEST_REASON = 123  # bytes, so that a close frame fits into a control frame
_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # fixed by RFC 6455


class HandshakeRejected(RequestFailed):
    """The server answered something else to the handshake of a websocket."""

    def __init__(self, message: str, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = body


@dataclass(frozen=True, slots=True)
class Message:
    """One message; text arrives as UTF-8 bytes."""

    data: bytes
    text: bool = False


class WebSocket:
    """One end of a websocket. `receive` answers pings and returns None after the peer has closed."""

    def __init__(
        self,
        connection: Connection,
        *,
        client: bool = False,
        subprotocol: str = "",
        max_size: int = MAX_MESSAGE,
    ) -> None:
        self._connection = connection
        self._framing = Framing(ConnectionType.CLIENT if client else ConnectionType.SERVER)
        self._max_size = max_size
        self._parts: list[bytes] = []  # of the message that is being received
        self._size = 0  # of these parts
        self._received: deque[Event] = deque()
        self.subprotocol = subprotocol
        self.close_code = 0  # of the peer; 0 while it has not closed
        self.close_reason = ""

    async def send(self, data: bytes | str) -> None:
        """Sends one message: binary for bytes, text for a string."""
        await self._write(TextMessage(data=data) if isinstance(data, str) else BytesMessage(data=data))

    async def ping(self, payload: bytes = b"") -> None:
        await self._write(Ping(payload=payload))

    async def receive(self) -> Message | None:
        """Returns the next message; None at the end (then `close_code` is set)."""
        while not self.close_code:
            event = await self._next_event()
            match event:
                case None:
                    self.close_code = ABNORMAL
                case Ping():
                    if self._framing.state is ConnectionState.OPEN:
                        await self._write(event.response())
                case CloseConnection():  # by the peer, or because it violated the protocol
                    self.close_code = event.code or NO_STATUS
                    self.close_reason = event.reason or ""
                    await self.close(self.close_code)
                case TextMessage() | BytesMessage():
                    message = await self._assemble(event)
                    if message is not None:
                        return message
        return None

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while (message := await self.receive()) is not None:
            yield message

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Sends a close frame; does not wait for the peer's."""
        if self._framing.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            return
        try:
            await self._write(CloseConnection(code=code, reason=reason[:LONGEST_REASON]))
        except ConnectionError:
            self.close_code = self.close_code or ABNORMAL

    async def _write(self, event: Event) -> None:
        try:
            data = self._framing.send(event)
        except LocalProtocolError as error:
            raise ConnectionResetError("the websocket is closed") from error
        await self._connection.write(data)

    async def _next_event(self) -> Event | None:
        while not self._received:
            try:
                data = await self._connection.read()
            except RequestFailed:
                return None
            if not data:
                return None
            self._framing.receive_data(data)
            self._received.extend(self._framing.events())
        return self._received.popleft()

    async def _assemble(self, event: TextMessage | BytesMessage) -> Message | None:
        part = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._max_size:
            self.close_code = TOO_BIG
            await self.close(TOO_BIG, f"a message is larger than {self._max_size} bytes")
            return None
        if not event.message_finished:
            return None
        parts, self._parts, self._size = self._parts, [], 0
        return Message(b"".join(parts), isinstance(event, TextMessage))


def is_websocket(request: Request) -> bool:
    """Whether a request asks for a websocket."""
    return request.headers.get("upgrade", "").lower() == "websocket"


def accept(
    request: Request,
    run: Callable[[WebSocket], Awaitable[None]],
    *,
    protocols: Sequence[str] = (),
    max_size: int = MAX_MESSAGE,
) -> Answer:
    """Returns the answer that upgrades a request to a websocket for `run`, with the client's first of our
    `protocols`.

    A client that offers only other subprotocols, or no valid handshake, is rejected.
    """
    key = request.headers.get("sec-websocket-key", "")
    if not is_websocket(request) or not key:
        return _bad_request("a websocket handshake needs Upgrade: websocket and a Sec-WebSocket-Key")
    if request.headers.get("sec-websocket-version") != "13":
        return Response(426, {"Sec-WebSocket-Version": "13"}, b"only websocket version 13 is spoken here\n")
    offered = [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",")]
    offered = [name for name in offered if name]
    chosen = next((name for name in offered if name in protocols), "")
    if offered and protocols and not chosen:
        return _bad_request(f"none of the subprotocols {', '.join(offered)} is one of {', '.join(protocols)}")
    headers = {"Upgrade": "websocket", "Sec-WebSocket-Accept": _accept_key(key)}
    if chosen:
        headers["Sec-WebSocket-Protocol"] = chosen

    async def serve(connection: Connection) -> None:
        socket = WebSocket(connection, subprotocol=chosen, max_size=max_size)
        code = UNEXPECTED
        try:
            await run(socket)
            code = NORMAL
        except asyncio.CancelledError:
            code = NORMAL
            raise
        finally:
            await socket.close(code)

    return Upgrade(serve, headers)


@asynccontextmanager
async def connect(
    pool: ConnectionPool,
    target: str,
    headers: RequestHeaders,
    *,
    protocols: Sequence[str] = (),
    max_size: int = MAX_MESSAGE,
) -> AsyncIterator[WebSocket]:
    """Opens a websocket to `target` of the pool's server. Raises `RequestFailed` when the server rejects it."""
    key = base64.b64encode(os.urandom(16)).decode()
    wanted = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    if protocols:
        wanted["Sec-WebSocket-Protocol"] = ", ".join(protocols)
    async with pool.stream("GET", target, {**headers, **wanted}) as reply:
        if reply.status != 101:
            reason = (await reply.body.read()).decode("utf-8", "replace").strip()
            raise HandshakeRejected(
                f"{target}: the server answered {reply.status} to a websocket handshake: {reason}",
                reply.status,
                reply.headers,
                reason.encode(),
            )
        if reply.headers.get("sec-websocket-accept") != _accept_key(key):
            raise RequestFailed(f"{target}: the server did not complete the websocket handshake")
        chosen = reply.headers.get("sec-websocket-protocol", "")
        socket = WebSocket(reply.body, client=True, subprotocol=chosen, max_size=max_size)
        try:
            yield socket
        finally:
            await socket.close()


def _accept_key(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + _SALT).encode(), usedforsecurity=False).digest()).decode()


def _bad_request(message: str) -> Response:
    return Response(400, {"Content-Type": "text/plain; charset=utf-8"}, f"{message}\n".encode())
