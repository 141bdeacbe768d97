"""A real HTTP server that receives notifications."""

import asyncio
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

import orjson

from volcano.base.http.messages import Request, Response
from volcano.base.http.server import Server


class Receiver:
    """Keeps what it receives; answers with the statuses it is given, then with 204."""

    def __init__(
        self,
        *statuses: int,
        hangs: bool = False,
        headers: dict[str, str] | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self.statuses = list(statuses)
        self.hangs = hangs
        self.headers = headers or {}
        self.requests: list[Request] = []
        self._server = Server(self._handle, tls=tls)

    async def __aenter__(self) -> "Receiver":
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.stop(0.1)

    @property
    def url(self) -> str:
        return f"{self._server.url}/hook?team=a"

    @property
    def events(self) -> list[Any]:
        return [orjson.loads(request.body) for request in self.requests]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    async def _handle(self, request: Request) -> Response:
        self.requests.append(request)
        while self.hangs:
            await asyncio.sleep(0.05)
        return Response(self.statuses.pop(0) if self.statuses else 204, self.headers, b"")


async def until(condition: Callable[[], Any], seconds: float = 15.0) -> None:
    """Waits until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
