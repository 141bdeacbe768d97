"""A bounded pool of persistent connections to one server, with TLS and proxies."""

import asyncio
import contextlib
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from volcano.base.http.client_connection import (
    MAX_BODY,
    ClientConnection,
    Reply,
    RequestBody,
    RequestFailed,
    RequestTimedOut,
    StreamedReply,
)
from volcano.base.http.dialer import Dial
from volcano.base.http.http1 import RequestHeaders, request_head
from volcano.base.http.proxy import Proxy, Tunnel
from volcano.base.http.same_name import SELF_SIGNED, has_same_names, issued_to, unverified_context
from volcano.base.http.tls_context import client_context

NO_HEADERS: RequestHeaders = {}
CONNECTIONS = 64
TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
SHUTDOWN_TIMEOUT = 2.0
# Servers close idle connections after a few minutes; closing them earlier avoids writing to a closing one.
MAX_IDLE = 50.0


class ConnectionPool:
    """Connections to the server at `url`. At most `connections` requests run at a time; streams are not
    counted."""

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str = "",
        proxy: Proxy | None = None,
        connections: int = CONNECTIONS,
        connect_timeout: float = CONNECT_TIMEOUT,
        dial: Dial | None = None,
        same_name: bool = False,
        max_body: int = MAX_BODY,
    ) -> None:
        """`dial` opens the connections where the host's network does not lead to the server. `same_name` accepts
        certificates that bear the name of the authority that issued them. Replies of more than `max_body` bytes are
        rejected, unless they are read as streams."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"server address {url!r} must look like https://host:port")
        self.secure = parts.scheme == "https"
        self.host, self.port = parts.hostname, parts.port or (443 if self.secure else 80)
        self._tls = (tls or client_context()) if self.secure else None
        self._server_name = server_name or self.host
        self._proxy = proxy
        self._slots = asyncio.Semaphore(connections)
        self._connect_timeout = connect_timeout
        self._dial = dial
        self._max_body = max_body
        self._same_name = same_name
        self._has_same_name: bool | None = None  # of the server's certificate; None: not known yet
        self._idle: list[ClientConnection] = []
        self._closing: set[ClientConnection] = set()
        self._streams: set[ClientConnection] = set()
        default = 443 if self.secure else 80
        name = f"[{self.host}]" if ":" in self.host else self.host
        self._authority = name if self.port == default else f"{name}:{self.port}"
        # A plain request through a proxy has an absolute target.
        self._prefix = f"http://{self._authority}" if proxy and not self.secure else ""
        self._common = {"Host": self._authority, **(proxy.headers if proxy and not self.secure else {})}

    async def request(
        self,
        method: str,
        target: str,
        headers: RequestHeaders = NO_HEADERS,
        body: bytes = b"",
        *,
        timeout: float = TIMEOUT,
    ) -> Reply:
        """Sends a request. Raises `RequestFailed` when the reply is incomplete or too large."""
        data = self._encode(method, target, headers, body)
        async with self._slots:
            connection = self._take_idle() or await self._connect()
            reply = await connection.request(
                data, timeout=timeout, head_only=method == "HEAD", max_body=self._max_body
            )
            if connection.reusable:
                self._idle.append(connection)
        return reply

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        target: str,
        headers: RequestHeaders = NO_HEADERS,
        body: bytes | RequestBody = b"",
        *,
        timeout: float | None = TIMEOUT,
    ) -> AsyncIterator[StreamedReply]:
        """Sends a request and reads the reply as it arrives, also of upgrades (status 101). Leaving the block
        ends it. The headers of a request with a streamed body include those of its framing."""
        connection = self._take_idle() or await self._connect()
        self._streams.add(connection)
        streamed = body if isinstance(body, RequestBody) else None
        head_only = method == "HEAD"
        try:
            data = self._encode(method, target, headers, None if isinstance(body, RequestBody) else body)
            yield await connection.stream(data, timeout=timeout, head_only=head_only, body=streamed)
        finally:
            self._streams.discard(connection)
            if connection.reusable and streamed is None:
                self._idle.append(connection)
            elif connection.upgraded:
                connection.close()
            else:
                connection.abort()

    async def close(self) -> None:
        """Closes idle connections, aborts streams, and waits until they are closed."""
        ending = [connection.closed for connection in (*self._idle, *self._streams, *self._closing)]
        for connection in self._idle:
            connection.close()
        for connection in self._streams:
            connection.abort()
        self._idle.clear()
        if ending:
            await asyncio.wait(ending, timeout=SHUTDOWN_TIMEOUT)

    def _encode(self, method: str, target: str, headers: RequestHeaders, body: bytes | None) -> bytes:
        lines: dict[str, str | tuple[str, ...]] = {**self._common, **headers}
        if body or (body is not None and method in ("POST", "PUT", "PATCH")):
            lines["Content-Length"] = str(len(body))
        return request_head(method, self._prefix + target, lines) + (body or b"")

    def _take_idle(self) -> ClientConnection | None:
        """Returns the most recently used idle connection that is still usable, if any."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and asyncio.get_running_loop().time() - connection.idle_since < MAX_IDLE:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> ClientConnection:
        address = f"{self.host}:{self.port}"
        try:
            async with asyncio.timeout(self._connect_timeout):
                if self._proxy is None:
                    return await self._connect_directly(address)
                return await self._connect_through(self._proxy, address)
        except TimeoutError:
            raise RequestTimedOut(
                f"cannot connect to {address} in {self._connect_timeout:g} seconds", sent=False
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise RequestFailed(f"{address} is not trusted: {error.verify_message}", sent=False) from error
        except (OSError, ssl.SSLError) as error:
            raise RequestFailed(f"cannot connect to {address}: {reason_of(error)}", sent=False) from error

    async def _connect_directly(self, address: str) -> ClientConnection:
        if self._tls is None or not self._same_name:
            return await self._open(address, self._tls)
        first = self._has_same_name is not False
        if first:  # a verification that OpenSSL breaks off is an error in the log of the server
            connection = await self._open_same_name(address, self._tls)
            if connection is not None:
                return connection
        try:
            return await self._open(address, self._tls)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code != SELF_SIGNED or first:
                raise
            connection = await self._open_same_name(address, self._tls)  # the certificate has been replaced
            if connection is None:
                raise
            return connection

    async def _open_same_name(self, address: str, tls: ssl.SSLContext) -> ClientConnection | None:
        """Connects to a server whose certificate bears the name of the authority that issued it; None if not so."""
        connection = await self._open(address, unverified_context())
        certificate = connection.peer_certificate
        self._has_same_name = has_same_names(certificate) and issued_to(
            certificate, self._server_name, tls.get_ca_certs(binary_form=True), time.time()
        )
        if self._has_same_name:
            return connection
        self._closing.add(connection)
        connection.closed.add_done_callback(lambda _: self._closing.discard(connection))
        connection.close()
        return None

    async def _open(self, address: str, tls: ssl.SSLContext | None) -> ClientConnection:
        loop = asyncio.get_running_loop()
        server_name = self._server_name if tls else None
        shutdown_timeout = SHUTDOWN_TIMEOUT if tls else None
        if self._dial is None:
            _, connection = await loop.create_connection(
                lambda: ClientConnection(address),
                self.host,
                self.port,
                ssl=tls,
                server_hostname=server_name,
                ssl_shutdown_timeout=shutdown_timeout,
            )
            return connection
        with contextlib.ExitStack() as unless_connected:
            dialled = await self._dial(self.host, self.port)
            unless_connected.callback(dialled.close)
            _, connection = await loop.create_connection(
                lambda: ClientConnection(address),
                sock=dialled,
                ssl=tls,
                server_hostname=server_name,
                ssl_shutdown_timeout=shutdown_timeout,
            )
            unless_connected.pop_all()
        return connection

    async def _connect_through(self, proxy: Proxy, address: str) -> ClientConnection:
        loop = asyncio.get_running_loop()
        proxy_tls = ssl.create_default_context() if proxy.secure else None
        if self._tls is None:
            _, connection = await loop.create_connection(
                lambda: ClientConnection(address), proxy.host, proxy.port, ssl=proxy_tls
            )
            return connection
        name = f"[{self.host}]" if ":" in self.host else self.host
        authority = f"{name}:{self.port}"
        transport, tunnel = await loop.create_connection(
            lambda: Tunnel(proxy, authority), proxy.host, proxy.port, ssl=proxy_tls
        )
        with contextlib.ExitStack() as unless_secured:
            unless_secured.callback(transport.abort)
            await tunnel.opened
            connection = ClientConnection(address)
            secured = await loop.start_tls(
                transport, connection, self._tls, server_hostname=self._server_name
            )
            unless_secured.pop_all()
        assert secured is not None
        connection.connection_made(secured)
        return connection


def reason_of(error: OSError) -> str:
    """Why a connection failed, in words: `connection refused` instead of an error number."""
    if isinstance(error, (ssl.SSLError, socket.gaierror)) or not error.errno:
        return str(error.strerror or error)
    return os.strerror(error.errno).lower()
