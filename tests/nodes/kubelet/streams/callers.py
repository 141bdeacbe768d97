"""Clients of exec, attach and port-forward, at the other end of a connection that was upgraded."""

import asyncio
from collections.abc import Callable

from tests.nodes.kubelet.streams.wire import Pipe, pipes
from volcano.base.http.messages import Answer, Request, Upgrade
from volcano.base.http.websocket import WebSocket

WEBSOCKET = {"upgrade": "websocket", "sec-websocket-key": "k", "sec-websocket-version": "13"}
V5, V4, TEXT = "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"


def asked(protocol: str, *command: str, **query: str) -> Request:
    given = {name: [value] for name, value in query.items()}
    return Request(
        "GET", "/", {**given, "command": list(command)}, {**WEBSOCKET, "sec-websocket-protocol": protocol}
    )


def by_spdy(*protocols: str, **query: str) -> Request:
    given = {name: [value] for name, value in query.items() if name != "command"}
    command = query.get("command", "").split()
    headers = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": ", ".join(protocols)}
    return Request("POST", "/", {**given, "command": command}, headers)


class Caller:
    """A client at the other end of an upgraded connection."""

    def __init__(self, answer: Answer) -> None:
        assert isinstance(answer, Upgrade), answer
        self.headers = answer.headers
        near, self.pipe = pipes()
        self.running = asyncio.ensure_future(_served(answer, near))

    def websocket(self) -> WebSocket:
        return WebSocket(self.pipe, client=True)

    async def everything(self, *sent: bytes) -> dict[int, bytes]:
        """The data received on each channel until the server closes, after sending some messages."""
        socket = self.websocket()
        for each in sent:
            await socket.send(each)
        received: dict[int, bytes] = {}
        async with asyncio.timeout(20):
            async for message in socket:
                channel = message.data[0]
                received[channel] = received.get(channel, b"") + message.data[1:]
            await socket.close()
            await self.running
        return received


async def _served(answer: Upgrade, near: Pipe) -> None:
    try:
        await answer.run(near)
    finally:
        await near.close()


async def until(question: Callable[[], bool]) -> None:
    """Polls a condition."""
    async with asyncio.timeout(20):
        while not question():
            await asyncio.sleep(0.01)
