"""A server like UFM's on loopback: HTTPS with a certificate of its own authority, basic authentication, ports."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from volcano.base.http.messages import Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls import create_authority, issue
from volcano.base.http.tls_context import server_context

USER, PASSWORD = "reader", "s3cret:with-colon"


def port(node: str, switch: str, description: str = "Computer IB Port") -> dict[str, Any]:
    return {"description": description, "tier": 4, "system_name": node, "peer_node_name": switch}


PORTS = [
    port("n0", "sw1"),
    port("n1", "sw1"),
    port("n1", "sw2"),
    port("n2", "sw3"),
    port("spine", "core", "Switch IB Port"),
]


class UfmServer:
    """Answers with `ports`, or with `body` and `status` as they are set."""

    def __init__(self) -> None:
        self.ports: Any = list(PORTS)
        self.status = 200
        self.delay = 0.0
        self.stopping = asyncio.Event()
        self.body: bytes | None = None
        self.requests: list[str] = []
        self.authority = create_authority("ufm", now=time.time())
        credential = issue(self.authority, "ufm", now=time.time(), hosts=["127.0.0.1"], server=True)
        self._server = Server(self._answer, tls=server_context(credential))

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def secret(self) -> dict[str, str]:
        """Data of a Secret for this server."""
        values = {"username": USER, "password": PASSWORD, "ca.crt": self.authority.cert_pem.decode()}
        return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}

    async def _answer(self, request: Request) -> Response:
        self.requests.append(request.target)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.delay):
                await self.stopping.wait()
        wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if request.headers.get("authorization") != wanted:
            return Response(401, {}, b"")
        if not request.target.endswith("/ufmRest/resources/ports"):
            return Response(404, {}, b"")
        body = orjson.dumps(self.ports) if self.body is None else self.body
        return Response(self.status, {"Content-Type": "application/json"}, body)


@asynccontextmanager
async def ufm_server() -> AsyncIterator[UfmServer]:
    made = UfmServer()
    await made._server.start()
    try:
        yield made
    finally:
        made.stopping.set()
        await made._server.stop(0.5)
        await asyncio.sleep(0.05)  # connections that the client aborted are closed
