"""exec and attach over SPDY: every channel is a stream that the client opens."""

import asyncio
from contextlib import suppress

import orjson

from volcano.base.http.messages import Connection
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.streams.receive_buffer import ReceiveBuffer
from volcano.nodes.kubelet.streams.session import Channel, StreamOptions
from volcano.nodes.kubelet.streams.spdy import SpdyConnection, SpdyStream, StreamRejected

NAMES = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STREAM_TYPES = {
    "stdin": Channel.STDIN,
    "stdout": Channel.STDOUT,
    "stderr": Channel.STDERR,
    "error": Channel.ERROR,
    "resize": Channel.RESIZE,
}
STREAMS_TIMEOUT = 30.0  # seconds
CLOSE_TIMEOUT = 3.0


class SpdyClient:
    """Client of an exec or attach over a SPDY connection."""

    def __init__(self, connection: Connection, options: StreamOptions) -> None:
        self.stdin = ReceiveBuffer()
        self.resizes = ReceiveBuffer()
        self._spdy = SpdyConnection(connection, self._opened)
        self._streams: dict[Channel, SpdyStream] = {}
        asked = {
            Channel.STDIN: options.stdin,
            Channel.STDOUT: options.stdout,
            Channel.STDERR: options.stderr,
            Channel.ERROR: True,
            Channel.RESIZE: options.tty,
        }
        self._expected = {channel for channel, wanted in asked.items() if wanted}
        self._complete = asyncio.Event()
        self._reading = asyncio.create_task(self._spdy.run())

    async def ready(self) -> bool:
        """Waits until the client has opened every requested stream; False when it does not."""
        complete = asyncio.create_task(self._complete.wait())
        try:
            await asyncio.wait(
                [complete, self._reading],
                timeout=STREAMS_TIMEOUT,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            complete.cancel()
        return self._complete.is_set()

    async def run(self) -> None:
        with suppress(ConnectionError):
            await asyncio.shield(self._reading)

    async def send(self, channel: Channel, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None and data:
            with suppress(BrokenPipeError):  # the client has reset this stream
                await stream.write(data)

    async def ping(self) -> None:
        await self._spdy.ping()

    async def finish(self, status: Manifest) -> None:
        await self.send(Channel.ERROR, orjson.dumps(status))
        for stream in self._streams.values():
            await stream.close()
            stream.buffer.discard()
        await asyncio.wait([self._reading], timeout=CLOSE_TIMEOUT)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _opened(self, stream: SpdyStream) -> None:
        channel = STREAM_TYPES.get(stream.headers.get("streamtype", ""))
        if channel is None or channel not in self._expected or channel in self._streams:
            raise StreamRejected(f"a stream of type {stream.headers.get('streamtype', '')!r}")
        self._streams[channel] = stream
        if channel is Channel.STDIN:
            self.stdin = stream.buffer
        elif channel is Channel.RESIZE:
            self.resizes = stream.buffer
        if self._streams.keys() == self._expected:
            self._complete.set()
