"""An HTTP/1.1 server with graceful shutdown."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.utils import formatdate

from volcano.base.http.http1 import MalformedRequest
from volcano.base.http.messages import Handler, Request, Response
from volcano.base.http.request_parser import BodyBuffer, Limits
from volcano.base.http.server_connection import ErrorHandler, MalformedHandler, ServerConnection, StreamsBody
from volcano.base.http.tls_protocol import READ_BUFFER_BYTES, TlsProtocol
from volcano.base.log import Log

log = Log("server")

BACKLOG = 1024
TICK = 1.0


def plain_error(request: Request, error: BaseException) -> Response:
    """The default response to an exception of the handler."""
    return Response(500, {"Content-Type": "text/plain; charset=utf-8"}, b"internal error\n")


def plain_rejection(error: MalformedRequest) -> Response:
    """The default response to a request that cannot be parsed or is too long."""
    return Response(error.status, {"Content-Type": "text/plain; charset=utf-8"}, f"{error}\n".encode())


class Server:
    """Serves `handler` on one address, loopback by default.

    With `tls`, serves HTTPS; the subject of a verified client certificate is part of the request's peer.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        tls: ssl.SSLContext | None = None,
        max_body: int | None = None,
        limits: Limits | None = None,
        on_error: ErrorHandler = plain_error,
        on_malformed: MalformedHandler = plain_rejection,
        streams_body: StreamsBody | None = None,
    ) -> None:
        """Requests for which `streams_body` (given method and target) is true are handled before their body has
        arrived, and without a limit of its size."""
        self.handler = handler
        self.streams_body = streams_body
        self.limits = limits or Limits()
        if max_body is not None:
            self.limits = replace(self.limits, body=max_body)
        self.on_error = on_error
        self.on_malformed = on_malformed
        self.body_buffer = BodyBuffer(self.limits.buffered)
        self.connections: set[ServerConnection] = set()
        self.stopping = False
        self.date = formatdate(usegmt=True)
        self._tls = tls
        self._read_buffer = bytearray(READ_BUFFER_BYTES if tls is not None else 0)
        self._listener: asyncio.Server | None = None
        self._extra_listeners: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._address = ("", 0)

    @property
    def url(self) -> str:
        """The server's address, such as `https://127.0.0.1:6443`."""
        host, port = self._address
        return f"{'https' if self._tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Starts listening; returns the port, a free one for 0."""
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = await loop.create_server(
            self._new_protocol, host, port, backlog=BACKLOG, family=family
        )
        bound = self._listener.sockets[0].getsockname()
        self._address = (host, bound[1])
        self._tick()
        return self._address[1]

    async def listen_on(self, listening: socket.socket) -> Callable[[], Awaitable[None]]:
        """Serves on one more listening socket; returns a function that stops that and closes the socket."""
        listening.setblocking(False)
        listener = await asyncio.get_running_loop().create_server(self._new_protocol, sock=listening)
        self._extra_listeners.append(listener)

        async def end() -> None:
            listener.close()
            self._extra_listeners.remove(listener)

        return end

    async def stop(self, grace: float = 5.0) -> None:
        """Stops accepting, ends streams, waits up to `grace` seconds for requests in progress, then closes
        all connections."""
        self.stopping = True
        for listener in (self._listener, *self._extra_listeners):
            if listener is not None:
                listener.close()
        if self._ticker is not None:
            self._ticker.cancel()
        deadline = asyncio.get_running_loop().time() + grace
        for connection in list(self.connections):
            connection.finish()
        while self.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()
        while self.connections:
            await asyncio.sleep(0)
        if self._listener is not None:
            await self._listener.wait_closed()

    async def __aenter__(self) -> "Server":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _new_protocol(self) -> asyncio.BaseProtocol:
        """Creates the protocol of a new connection."""
        if self._tls is None:
            return ServerConnection(self)
        return TlsProtocol(self._tls, lambda: ServerConnection(self), self._read_buffer)

    def _tick(self) -> None:
        """Updates the Date header and enforces the connections' timeouts, once a second."""
        loop = asyncio.get_running_loop()
        self.date = formatdate(usegmt=True)
        now = loop.time()
        for connection in list(self.connections):
            connection.tick(now)
        self._ticker = loop.call_later(TICK, self._tick)
