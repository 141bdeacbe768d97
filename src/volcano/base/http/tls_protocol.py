"""Server-side TLS: a handshake, then bytes to and from the application protocol without extra copies."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any

from volcano.base.log import Log

log = Log("server")

HANDSHAKE_TIMEOUT = 10.0  # seconds
READ_BUFFER_BYTES = 256 << 10  # bytes read from a socket at a time
# The maximum of one read: a whole TLS record.
MAX_RECORD_BYTES = 16 << 10


class TlsProtocol(asyncio.BufferedProtocol):
    """Connects a socket and the application protocol, which is created after the handshake.

    `read_buffer` receives the socket's bytes. They are consumed at once, so that all connections can share
    it.
    """

    def __init__(
        self, context: ssl.SSLContext, new_protocol: Callable[[], asyncio.Protocol], read_buffer: bytearray
    ) -> None:
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._received, self._to_send, server_side=True)
        self._new_protocol = new_protocol
        self._protocol: asyncio.Protocol | None = None
        self._read_buffer = memoryview(read_buffer)
        self._loop = asyncio.get_running_loop()
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._paused = False  # the application protocol has paused reading
        self._ended = False  # the client has stopped sending

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._handshake_timer = self._loop.call_later(HANDSHAKE_TIMEOUT, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received.write(self._read_buffer[:nbytes])
        if self._protocol is None:
            self._do_handshake()
        if self._protocol is not None:
            self._read()

    def eof_received(self) -> bool:
        self._end()
        return False  # TLS cannot be half closed

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    # from the client

    def _do_handshake(self) -> None:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            log.info("TLS handshake failed", reason=error.reason or str(error))
            self._flush()  # the alert with the reason
            self.transport.close()
            return
        self._flush()
        assert self._handshake_timer is not None, "set when the connection was made"
        self._handshake_timer.cancel()
        self._protocol = self._new_protocol()
        self._protocol.connection_made(TlsTransport(self))

    def _read(self) -> None:
        """Passes on received bytes. Does not read when nothing has arrived: that would cost an exception."""
        assert self._protocol is not None
        while not (self._paused or self._ended) and (self._received.pending or self.tls.pending()):
            try:
                data = self.tls.read(MAX_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break  # the record is incomplete
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                self._fail(error)
                return
            if not data:
                self._end()
                self.transport.close()
                return
            self._protocol.data_received(data)

    def _end(self) -> None:
        if self._protocol is not None and not self._ended:
            self._ended = True
            self._protocol.eof_received()

    def _fail(self, error: ssl.SSLError) -> None:
        log.info("TLS connection failed", reason=error.reason or str(error))
        self.transport.abort()

    # from the application protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            written = self.tls.write(data)
            while written < len(data):
                written += self.tls.write(memoryview(data)[written:])
        except ssl.SSLError as error:
            self._fail(error)
        else:
            self._flush()

    def pause_reading(self) -> None:
        self._paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
            self._loop.call_soon(self._read)  # bytes that arrived before the pause

    def close(self) -> None:
        """Sends close_notify, and closes once all is sent."""
        with contextlib.suppress(OSError):  # the client's close_notify is not awaited
            self.tls.unwrap()
        self._flush()
        self.transport.close()

    def _flush(self) -> None:
        if self._to_send.pending and not self.transport.is_closing():
            self.transport.write(self._to_send.read())


class TlsTransport(asyncio.Transport):
    """The transport of the application protocol."""

    def __init__(self, protocol: TlsProtocol) -> None:
        super().__init__()
        self._tls_protocol = protocol
        self._transport = protocol.transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (
            self._tls_protocol.tls if name == "ssl_object" else self._transport.get_extra_info(name, default)
        )

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._transport.is_closing():
            self._tls_protocol.write(data)

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._tls_protocol.pause_reading()

    def resume_reading(self) -> None:
        self._tls_protocol.resume_reading()

    def close(self) -> None:
        if not self._transport.is_closing():
            self._tls_protocol.close()

    def abort(self) -> None:
        self._transport.abort()
