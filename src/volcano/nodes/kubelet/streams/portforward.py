"""Port forwarding: each connection is a pair of streams, one for data and one for errors."""

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from volcano.base.clock import Clock
from volcano.base.http.messages import Connection
from volcano.base.http.websocket import WebSocket
from volcano.kube.api.errors import BadRequest
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.streams.channels import PROTOCOLS, Codec, close_websocket
from volcano.nodes.kubelet.streams.receive_buffer import ReceiveBuffer
from volcano.nodes.kubelet.streams.session import PING_INTERVAL
from volcano.nodes.kubelet.streams.spdy import SpdyConnection, SpdyStream, StreamRejected, Tunnel
from volcano.nodes.shim.specs import Failure

CHUNK_SIZE = 64 << 10
MAX_PORTS = 100  # of one websocket with channels; a channel's number is a byte


@dataclass(frozen=True, slots=True)
class Target:
    """The pod whose ports are forwarded."""

    runtime: Runtime
    uid: str
    name: str  # <name>_<namespace>, as in the kubelet's messages

    async def dial(self, port: int) -> socket.socket:
        """Connects to a port; raises ConnectionError with the kubelet's message."""
        try:
            return await self.runtime.connect(self.uid, port)
        except (OSError, Failure) as error:
            refused = isinstance(error, OSError) and error.errno
            why = os.strerror(refused) if refused else str(error)
            raise ConnectionRefusedError(
                f"error forwarding port {port} to pod {self.name}, uid {self.uid}: "
                f"failed to connect to localhost:{port} inside the pod: {why.lower()}"
            ) from None


def port_number(text: str) -> int:
    """A port number, or 0 if invalid."""
    return int(text) if text.isdecimal() and len(text) < 6 and 0 < int(text) < 1 << 16 else 0


def ports_of(values: Sequence[str]) -> list[int]:
    """The ports of a request: repeated parameters, or separated by commas."""
    texts = [text.strip() for value in values for text in value.split(",")]
    ports = [port_number(text) for text in texts]
    if not ports or 0 in ports or len(ports) > MAX_PORTS:
        raise BadRequest(
            f'query parameter "ports" must name 1 to {MAX_PORTS} ports from 1 to 65535, not {",".join(texts)[:100]!r}'
        )
    return ports


async def copy_in(buffer: ReceiveBuffer, connection: socket.socket) -> None:
    """Copies data from the client to the pod, then shuts down the write side."""
    loop = asyncio.get_running_loop()
    try:
        while data := await buffer.read():
            await loop.sock_sendall(connection, data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        buffer.discard()  # the pod has closed the connection; its earlier output is still copied


# Streams over SPDY


@dataclass(slots=True)
class _Pair:
    streams: dict[str, SpdyStream] = field(default_factory=dict)
    port: int = 0


class SpdyForwarder:
    """Forwards ports over one SPDY connection."""

    def __init__(self, target: Target, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        self._waiting: dict[str, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def tunnel(self, websocket: WebSocket) -> None:
        """Serves SPDY inside a websocket."""
        await self.serve(Tunnel(websocket))
        await close_websocket(websocket)

    async def serve(self, connection: Connection) -> None:
        spdy = SpdyConnection(connection, self._opened)
        reading = asyncio.create_task(spdy.run())
        pinging = asyncio.create_task(self._ping(spdy))
        try:
            await asyncio.wait([reading, pinging], return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = [reading, pinging, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ping(self, spdy: SpdyConnection) -> None:
        while True:
            await self._clock.sleep(PING_INTERVAL)
            await spdy.ping()

    def _opened(self, stream: SpdyStream) -> None:
        """Pairs two streams with the same request id. Older clients send none: their streams are consecutive."""
        kind, port = stream.headers.get("streamtype", ""), port_number(stream.headers.get("port", ""))
        if kind not in ("error", "data") or not port:
            raise StreamRejected(f"a stream of type {kind!r} to port {stream.headers.get('port', '')!r}")
        number = stream.number - 2 if kind == "data" else stream.number
        request = stream.headers.get("requestid") or f"stream {number}"
        pair = self._waiting.setdefault(request, _Pair(port=port))
        if kind in pair.streams or pair.port != port:
            raise StreamRejected(f"request {request} has a stream of type {kind} already")
        pair.streams[kind] = stream
        if len(pair.streams) == 2:
            del self._waiting[request]
            task = asyncio.create_task(self._forward(port, pair.streams["data"], pair.streams["error"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        try:
            try:
                connection = await self._target.dial(port)
            except ConnectionError as error_text:
                await error.write(str(error_text).encode())
            else:
                with connection:
                    await _relay(connection, data)
            await data.close()
            await error.close()
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            data.buffer.discard()
            error.buffer.discard()


async def _relay(connection: socket.socket, stream: SpdyStream) -> None:
    """Copies in both directions until the pod closes the connection or the client resets the stream."""
    inwards = asyncio.create_task(copy_in(stream.buffer, connection))
    outwards = asyncio.create_task(_copy_out(connection, stream))
    dropped = asyncio.create_task(stream.dropped.wait())
    try:
        await asyncio.wait([outwards, dropped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (inwards, outwards, dropped):
            task.cancel()
        await asyncio.gather(inwards, outwards, dropped, return_exceptions=True)


async def _copy_out(connection: socket.socket, stream: SpdyStream) -> None:
    loop = asyncio.get_running_loop()
    while data := await _received(loop, connection):
        await stream.write(data)


async def _received(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> bytes:
    try:
        return await loop.sock_recv(connection, CHUNK_SIZE)
    except OSError:
        return b""  # a reset connection has ended


# Channels of a websocket


class ChannelForwarder:
    """Forwards the ports of a request over channels: even ones carry data, odd ones errors."""

    def __init__(self, target: Target, ports: Sequence[int], clock: Clock) -> None:
        self._target = target
        self._ports = ports
        self._clock = clock
        self._buffers = [ReceiveBuffer() for _ in ports]

    async def serve(self, websocket: WebSocket) -> None:
        codec = PROTOCOLS[websocket.subprotocol]
        forwarding = asyncio.create_task(self._forward_all(websocket, codec))
        tasks = [
            forwarding,
            asyncio.create_task(self._read(websocket, codec)),
            asyncio.create_task(self._ping(websocket)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finished = forwarding.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if finished:
            await close_websocket(websocket)

    async def _forward_all(self, websocket: WebSocket, codec: Codec) -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(len(self._ports)):
                group.create_task(self._forward(websocket, codec, index))

    async def _ping(self, websocket: WebSocket) -> None:
        while True:
            await self._clock.sleep(PING_INTERVAL)
            await websocket.ping()

    async def _read(self, websocket: WebSocket, codec: Codec) -> None:
        while (message := await websocket.receive()) is not None:
            channel, data = codec.decode(message.data)
            if 0 <= channel < 2 * len(self._buffers) and channel % 2 == 0:
                await self._buffers[channel // 2].feed(data)

    async def _forward(self, websocket: WebSocket, codec: Codec, index: int) -> None:
        port, data_channel, error_channel = self._ports[index], 2 * index, 2 * index + 1
        for channel in (data_channel, error_channel):
            await websocket.send(codec.encode(channel, port.to_bytes(2, "little")))
        try:
            connection = await self._target.dial(port)
        except ConnectionError as error_text:
            await websocket.send(codec.encode(error_channel, str(error_text).encode()))
            return
        loop, buffer = asyncio.get_running_loop(), self._buffers[index]
        with connection:
            inwards = asyncio.create_task(copy_in(buffer, connection))
            try:
                while data := await _received(loop, connection):
                    await websocket.send(codec.encode(data_channel, data))
            finally:
                buffer.discard()
                inwards.cancel()
                await asyncio.gather(inwards, return_exceptions=True)
