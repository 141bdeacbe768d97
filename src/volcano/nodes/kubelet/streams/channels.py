"""Kubernetes' channel protocols over a websocket: the first byte of a message is its channel."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from volcano.base.http.websocket import NORMAL, WebSocket
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.streams.receive_buffer import ReceiveBuffer
from volcano.nodes.kubelet.streams.session import Channel

CLOSE = 255  # v5: the channel in the next byte is closed
# A client that is still sending needs time to read the status: closing with unread data would discard it.
CLOSE_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class Codec:
    """Message encoding of a channel protocol."""

    as_text: bool = False  # a digit and base64
    status_objects: bool = True  # otherwise only the error message
    closes: bool = False

    def encode(self, channel: int, data: bytes) -> bytes | str:
        if self.as_text:
            return f"{channel}{base64.b64encode(data).decode()}"
        return bytes((channel,)) + data

    def decode(self, message: bytes) -> tuple[int, bytes]:
        """The channel and its data; channel -1 for an invalid message."""
        if not message:
            return -1, b""
        if not self.as_text:
            return message[0], message[1:]
        try:
            return message[0] - ord("0"), base64.b64decode(message[1:], validate=True)
        except (binascii.Error, ValueError):
            return -1, b""


PROTOCOLS: Mapping[str, Codec] = {
    "v5.channel.k8s.io": Codec(closes=True),
    "v4.channel.k8s.io": Codec(),
    "v4.base64.channel.k8s.io": Codec(as_text=True),
    "channel.k8s.io": Codec(status_objects=False),
    "base64.channel.k8s.io": Codec(as_text=True, status_objects=False),
    "": Codec(status_objects=False),
}
NAMES = tuple(name for name in PROTOCOLS if name)


class ChannelClient:
    """Client of an exec or attach over a websocket."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._codec = PROTOCOLS[socket.subprotocol]
        self.stdin = ReceiveBuffer()
        self.resizes = ReceiveBuffer()
        self._buffers = {Channel.STDIN: self.stdin, Channel.RESIZE: self.resizes}

    async def send_empty(self, channel: Channel) -> None:
        """Sends an empty message, which confirms the connection."""
        await self.send(channel, b"")

    async def run(self) -> None:
        try:
            while (message := await self._socket.receive()) is not None:
                channel, data = self._codec.decode(message.data)
                if channel == CLOSE and self._codec.closes:
                    finished = self._buffers.get(Channel(data[0])) if data and data[0] in _CHANNELS else None
                    if finished is not None:
                        finished.end()
                elif channel in _CHANNELS and (buffer := self._buffers.get(Channel(channel))) is not None:
                    await buffer.feed(data)
        finally:
            for buffer in self._buffers.values():
                buffer.end()

    async def send(self, channel: Channel, data: bytes) -> None:
        await self._socket.send(self._codec.encode(channel, data))

    async def ping(self) -> None:
        await self._socket.ping()

    async def finish(self, status: Manifest) -> None:
        if self._codec.status_objects:
            await self.send(Channel.ERROR, orjson.dumps(status))
        elif status["status"] != "Success":
            await self.send(Channel.ERROR, status["message"].encode())
        await close_websocket(self._socket)


async def close_websocket(socket: WebSocket) -> None:
    """Closes a websocket and waits briefly for the client to receive it."""
    await socket.close(NORMAL)
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            while await socket.receive() is not None:
                pass
    except TimeoutError:
        pass


_CHANNELS = frozenset(Channel)
