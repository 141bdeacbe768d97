"""TLS on a server's connection: a handshake, then bytes to and from the protocol inside, as directly as can be."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any

from volcano.log import Log

log = Log("server")

HANDSHAKE_TIMEOUT = 10.0  # seconds a client may take until it can ask something
READ_BUFFER_BYTES = 256 << 10  # bytes taken from a socket at a time
# What one read gives at most: all of a record.
MAX_RECORD_BYTES = 16 << 10


class TlsProtocol(asyncio.BufferedProtocol):
    """Between a socket and the protocol inside, which is made when the handshake is done.

    `room` is where bytes arrive. They are gone from there before the loop turns: all connections can share one.
    """

    def __init__(
        self, context: ssl.SSLContext, inside: Callable[[], asyncio.Protocol], read_buffer: bytearray
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._make = inside
        self._inside: asyncio.Protocol | None = None
        self._read_buffer = memoryview(read_buffer)
        self._loop = asyncio.get_running_loop()
        self._too_slow: asyncio.TimerHandle | None = None
        self._paused = False  # the protocol inside takes nothing more for now
        self._ended = False  # the client sends nothing more

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.below = transport
        self._too_slow = self._loop.call_later(HANDSHAKE_TIMEOUT, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        if self._too_slow is not None:
            self._too_slow.cancel()
        if self._inside is not None:
            self._inside.connection_lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.write(self._read_buffer[:nbytes])
        if self._inside is None:
            self._shake_hands()
        if self._inside is not None:
            self._read()

    def eof_received(self) -> bool:
        self._end()
        return False  # TLS cannot be half closed

    def pause_writing(self) -> None:
        if self._inside is not None:
            self._inside.pause_writing()

    def resume_writing(self) -> None:
        if self._inside is not None:
            self._inside.resume_writing()

    # from the client

    def _shake_hands(self) -> None:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            log.info("no TLS connection", reason=error.reason or str(error))
            self._flush()  # the alert that tells the client why
            self.below.close()
            return
        self._flush()
        assert self._too_slow is not None, "set when the connection was made"
        self._too_slow.cancel()
        self._inside = self._make()
        self._inside.connection_made(TlsTransport(self))

    def _read(self) -> None:
        """Hands on what has arrived. A read that would find nothing is not tried: it would cost an exception."""
        assert self._inside is not None
        while not (self._paused or self._ended) and (self._incoming.pending or self.tls.pending()):
            try:
                data = self.tls.read(MAX_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break  # the rest of the record is still to come
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                self._broken(error)
                return
            if not data:
                self._end()
                self.below.close()
                return
            self._inside.data_received(data)

    def _end(self) -> None:
        if self._inside is not None and not self._ended:
            self._ended = True
            self._inside.eof_received()

    def _broken(self, error: ssl.SSLError) -> None:
        log.info("TLS connection broken", reason=error.reason or str(error))
        self.below.abort()

    # from the protocol inside

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            written = self.tls.write(data)
            while written < len(data):
                written += self.tls.write(memoryview(data)[written:])
        except ssl.SSLError as error:
            self._broken(error)
        else:
            self._flush()

    def pause_reading(self) -> None:
        self._paused = True
        self.below.pause_reading()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self.below.resume_reading()
            self._loop.call_soon(self._read)  # what had arrived before the pause

    def close(self) -> None:
        """Tells the client that nothing more comes, and closes once all is sent."""
        with contextlib.suppress(OSError):  # nobody waits for the client to say the same
            self.tls.unwrap()
        self._flush()
        self.below.close()

    def _flush(self) -> None:
        if self._outgoing.pending and not self.below.is_closing():
            self.below.write(self._outgoing.read())


class TlsTransport(asyncio.Transport):
    """What the protocol inside writes to."""

    def __init__(self, secure: TlsProtocol) -> None:
        super().__init__()
        self._secure = secure
        self._below = secure.below

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._secure.tls if name == "ssl_object" else self._below.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._below.is_closing():
            self._secure.write(data)

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._secure.pause_reading()

    def resume_reading(self) -> None:
        self._secure.resume_reading()

    def close(self) -> None:
        if not self._below.is_closing():
            self._secure.close()

    def abort(self) -> None:
        self._below.abort()
