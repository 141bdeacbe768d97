"""DNS server for cluster names, over UDP and TCP, on sockets that the runtime has bound."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from volcano.base.log import Log
from volcano.nodes.kubelet.dns.host_resolver import HostResolver
from volcano.nodes.kubelet.dns.message import (
    ANY_CLASS,
    INTERNET,
    MAX_TCP_SIZE,
    MalformedMessage,
    Question,
    ResponseCode,
    read,
    write,
)
from volcano.nodes.kubelet.dns.names import ClusterDns
from volcano.nodes.kubelet.dns.records import OUT_OF_ZONE, DnsAnswer

log = Log("dns")

IDLE_SECONDS = 10.0
MAX_CONNECTIONS = 256
MAX_FORWARDED = 512  # questions that wait for this host's name servers
MAX_UNREAD = 64 * 1024  # bytes of incomplete questions of one connection


class DnsServer:
    """Answers from `names`. Names outside the cluster are those of `resolver`; without one they do not exist."""

    def __init__(
        self,
        names: ClusterDns,
        udp: socket.socket,
        tcp: socket.socket | None = None,
        resolver: HostResolver | None = None,
    ) -> None:
        self._names = names
        self._resolver = resolver
        self._forwarded: set[asyncio.Task[None]] = set()
        self._udp = udp
        self._tcp = tcp
        self._rotation = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self.connections: set[asyncio.Transport] = set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._udp.setblocking(False)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), sock=self._udp)
        if self._tcp is not None:
            self._tcp.setblocking(False)
            self._server = await loop.create_server(lambda: _Connection(self), sock=self._tcp)

    async def stop(self) -> None:
        """Closes the transports; another process that has the sockets open keeps receiving."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for transport in list(self.connections):
            transport.abort()
        for task in self._forwarded:
            task.cancel()
        await asyncio.gather(*self._forwarded, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next iteration of the event loop

    def answer(self, message: bytes, respond: Callable[[bytes], None], *, datagram: bool) -> bool:
        """Passes the encoded reply to `respond`, now or later; returns False when the message is malformed."""
        try:
            question = read(message)
        except MalformedMessage:
            return False
        limit = question.limit if datagram else MAX_TCP_SIZE
        code = _error_code(question)
        if code is not None:
            respond(self._encode(question, OUT_OF_ZONE, limit, code))
            return True
        try:
            found = self._rotate(self._names.lookup(question.name, question.type))
            if found.authoritative or self._resolver is None:
                respond(self._encode(question, found, limit))
                return True
        except Exception as error:  # a bug with one object must not stop the server
            log.error("name lookup failed", name=question.name, error=error)
            respond(self._encode(question, OUT_OF_ZONE, limit, ResponseCode.SERVFAIL))
            return True
        failure = self._encode(question, OUT_OF_ZONE, limit, ResponseCode.SERVFAIL)
        if len(self._forwarded) >= MAX_FORWARDED:
            respond(failure)
        else:
            forwarding = self._forward(self._resolver, message, failure, respond, datagram=datagram)
            task = asyncio.create_task(forwarding)
            self._forwarded.add(task)
            task.add_done_callback(self._forwarded.discard)
        return True

    async def _forward(
        self,
        resolver: HostResolver,
        message: bytes,
        failure: bytes,
        respond: Callable[[bytes], None],
        *,
        datagram: bool,
    ) -> None:
        respond(await resolver.ask(message, datagram=datagram) or failure)

    def _encode(
        self, question: Question, answer: DnsAnswer, limit: int, code: ResponseCode | None = None
    ) -> bytes:
        return write(question, answer, self._names.domain, limit, code)

    def _rotate(self, answer: DnsAnswer) -> DnsAnswer:
        """Rotates the records: most clients use the first address."""
        kinds = {record.type for record in answer.records}
        if len(answer.records) < 2 or len(kinds) > 1:
            return answer
        self._rotation += 1
        first = self._rotation % len(answer.records)
        return DnsAnswer(
            answer.exists,
            answer.records[first:] + answer.records[:first],
            answer.additional,
            answer.authoritative,
        )


def _error_code(question: Question) -> ResponseCode | None:
    if question.operation != 0:
        return ResponseCode.NOTIMP
    if question.version:
        return ResponseCode.NOERROR  # only EDNS version 0 is supported; the OPT record of the reply says so
    return None if question.kind in (INTERNET, ANY_CLASS) else ResponseCode.REFUSED


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # asyncio's transport is not a subclass

    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        self._server.answer(data, lambda reply: self._respond(reply, addr), datagram=True)

    def _respond(self, reply: bytes, addr: tuple[str | int, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(reply, addr)

    def error_received(self, exc: Exception) -> None:
        return  # the client has closed its socket


class _Connection(asyncio.Protocol):
    """A TCP connection: length-prefixed messages, answered in order; closed when idle."""

    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        if len(self._server.connections) >= MAX_CONNECTIONS:
            transport.abort()
            return
        self._server.connections.add(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._server.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._unread += data
        while len(self._unread) >= 2:
            end = 2 + int.from_bytes(self._unread[:2])
            if len(self._unread) < end:
                break
            message = bytes(self._unread[2:end])
            del self._unread[:end]
            if not self._server.answer(message, self._respond, datagram=False):
                self._transport.close()
                return
        if len(self._unread) > MAX_UNREAD + 2 or self._transport.get_write_buffer_size() > MAX_TCP_SIZE * 4:
            self._transport.abort()  # the client sends questions without reading answers
            return
        self._wait()

    def _respond(self, reply: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(len(reply).to_bytes(2) + reply)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(IDLE_SECONDS, self._transport.close)
