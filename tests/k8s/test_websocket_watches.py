"""Watches over websockets: the same handshakes, messages and endings as of a real API server."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.apiserver.servers import ADMIN_TOKEN, TestServer
from tests.conftest import started
from tests.k8s.control_plane.cluster import RealCluster
from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.server import Server
from volcano.base.http.websocket import connect

pytestmark = pytest.mark.k8s

WATCH = "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Ddefault&timeoutSeconds=2"
ORIGIN = {"Origin": "https://client"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    yield from started(tmp_path_factory)


@dataclass(frozen=True)
class Outcome:
    """What a client sees of a websocket: its messages and its end, or the status of the rejection."""

    subprotocol: str = ""
    messages: tuple[tuple[bool, bool, str, str], ...] = ()  # text, ends with a newline, type of event, name
    close_code: int = 0
    rejected: str = ""


async def outcome(pool: ConnectionPool, token: str, headers: dict[str, str], **options: Any) -> Outcome:
    """Reads a websocket to its end."""
    messages = []
    try:
        async with connect(pool, WATCH, {"Authorization": f"Bearer {token}", **headers}, **options) as socket:
            async for message in socket:
                event = json.loads(message.data)
                name = event["object"]["metadata"]["name"]
                messages.append((message.text, message.data.endswith(b"\n"), event["type"], name))
            return Outcome(socket.subprotocol, tuple(messages), socket.close_code)
    except RequestFailed as error:
        return Outcome(rejected=str(error).split("answered ")[1].split()[0])


async def of_both(real: RealCluster, headers: dict[str, str], **options: Any) -> tuple[Outcome, Outcome]:
    context = ssl.create_default_context(cafile=str(real.ca_file))
    pool = ConnectionPool(real.url, tls=context)
    theirs = await outcome(pool, real.token, headers, **options)
    await pool.close()
    server = await TestServer().start()
    async with Server(server.api) as http:
        pool = ConnectionPool(http.url)
        reading = asyncio.create_task(outcome(pool, ADMIN_TOKEN, headers, **options))
        while not reading.done():
            await asyncio.sleep(0.05)
            server.clock.advance(0.1)
        await pool.close()
        return theirs, await reading


@pytest.mark.parametrize(
    ("headers", "protocols"),
    [
        (ORIGIN, []),
        (ORIGIN, ["any"]),
        (ORIGIN, ["one", "two"]),
        ({}, []),
        ({"Origin": "null"}, []),
    ],
)
async def test_a_handshake_has_the_same_outcome(
    real: RealCluster, headers: dict[str, str], protocols: list[str]
) -> None:
    theirs, ours = await of_both(real, headers, protocols=protocols)
    assert ours == theirs


async def test_an_event_is_a_text_message(real: RealCluster) -> None:
    _, ours = await of_both(real, ORIGIN)
    assert ours == Outcome("", ((True, True, "ADDED", "default"),), 1000)
