"""Websockets over an upgraded connection."""

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from volcano.net.client_connection import RequestFailed
from volcano.net.frames import (
    ABNORMAL,
    BAD_TEXT,
    NO_STATUS,
    NORMAL,
    TOO_BIG,
    UNEXPECTED,
    Frame,
    FrameError,
    FrameReader,
    Opcode,
    encode_frame,
)
from volcano.net.http1 import RequestHeaders
from volcano.net.messages import Answer, Connection, Request, Response, Upgrade
from volcano.net.pool import ConnectionPool

MAX_MESSAGE = 4 << 20
_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # fixed by RFC 6455


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
        masks: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._connection = connection
        self._client = client
        self._masks = masks
        self._max_size = max_size
        self._reader = FrameReader(expect_masks=not client, max_size=max_size)
        self._frames: list[Frame] = []
        self._parts: list[Frame] = []
        self._closing = False
        self.subprotocol = subprotocol
        self.close_code = 0  # of the peer; 0 while it has not closed
        self.close_reason = ""

    async def send(self, data: bytes | str) -> None:
        """Sends one message: binary for bytes, text for a string."""
        if self._closing:
            raise ConnectionResetError("the websocket is closed")
        if isinstance(data, str):
            await self._write(Frame(Opcode.TEXT, data.encode()))
        else:
            await self._write(Frame(Opcode.BINARY, data))

    async def ping(self, payload: bytes = b"") -> None:
        await self._write(Frame(Opcode.PING, payload))

    async def receive(self) -> Message | None:
        """Returns the next message; None at the end (then `close_code` is set)."""
        while not self.close_code:
            try:
                frame = await self._next_frame()
                message = await self._on_frame(frame) if frame is not None else None
            except FrameError as error:
                await self.close(error.code, str(error))
                self.close_code = error.code
                return None
            if frame is None:
                self.close_code = ABNORMAL
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
        if self._closing:
            return
        payload = b"" if code == NO_STATUS else code.to_bytes(2, "big") + reason.encode()[:123]
        try:
            await self._write(Frame(Opcode.CLOSE, payload))
        except ConnectionError:
            self.close_code = self.close_code or ABNORMAL
        self._closing = True

    async def _write(self, frame: Frame) -> None:
        await self._connection.write(encode_frame(frame, self._masks(4) if self._client else b""))

    async def _next_frame(self) -> Frame | None:
        while not self._frames:
            try:
                data = await self._connection.read()
            except RequestFailed:
                return None
            if not data:
                return None
            self._frames.extend(self._reader.feed(data))
        return self._frames.pop(0)

    async def _on_frame(self, frame: Frame) -> Message | None:
        match frame.opcode:
            case Opcode.PING:
                if not self._closing:
                    await self._write(Frame(Opcode.PONG, frame.payload))
            case Opcode.PONG:
                pass
            case Opcode.CLOSE:
                await self._on_close(frame.payload)
            case _:
                return self._assemble(frame)
        return None

    async def _on_close(self, payload: bytes) -> None:
        if len(payload) == 1:
            raise FrameError("a close frame has a code of two bytes")
        self.close_code = int.from_bytes(payload[:2], "big") or NO_STATUS
        self.close_reason = payload[2:].decode("utf-8", "replace")
        await self.close(self.close_code)

    def _assemble(self, frame: Frame) -> Message | None:
        if (frame.opcode is Opcode.CONTINUATION) is not bool(self._parts):
            raise FrameError("a message must begin once and be continued until it ends")
        self._parts.append(frame)
        if sum(len(part.payload) for part in self._parts) > self._max_size:
            raise FrameError(f"a message is larger than {self._max_size} bytes", TOO_BIG)
        if not frame.final:
            return None
        parts, self._parts = self._parts, []
        message = Message(b"".join(part.payload for part in parts), parts[0].opcode is Opcode.TEXT)
        if message.text:
            try:
                message.data.decode("utf-8")
            except UnicodeDecodeError:
                raise FrameError("a text message is not UTF-8", BAD_TEXT) from None
        return message


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
            raise RequestFailed(
                f"{target}: the server answered {reply.status} to a websocket handshake: {reason}"
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
