"""Watch streams: every change in order, in the negotiated output, until the timeout or a compaction."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.apiserver.registries import config_map
from tests.apiserver.servers import ADMIN_TOKEN, TestServer
from volcano.apiserver.storage.store import Store
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.server import Server
from volcano.base.http.websocket import WebSocket, connect

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.fixture
async def server() -> TestServer:
    return await TestServer().start()


class Watcher:
    """Reads a watch event by event."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._events: list[Any] = []

    async def next(self) -> Any:
        while not self._events:
            chunk = await asyncio.wait_for(anext(self._chunks), 5)
            self._events += [json.loads(line) for line in chunk.splitlines()]
        return self._events.pop(0)

    async def rest(self) -> list[Any]:
        return self._events + [
            json.loads(line) async for chunk in self._chunks for line in chunk.splitlines()
        ]


async def watch(server: TestServer, query: str = "", **headers: str) -> Watcher:
    stream = await server.stream(f"{MAPS}?watch=true&{query}", **headers)
    return Watcher(stream.chunks)


async def version(server: TestServer) -> str:
    return str((await server.get(MAPS)).json["metadata"]["resourceVersion"])


async def test_changes_arrive_in_order(server: TestServer) -> None:
    watcher = await watch(server, f"resourceVersion={await version(server)}")
    await server.made(MAPS, config_map("a"))
    await server.ask("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, content_type="application/merge-patch+json")
    await server.ask("DELETE", f"{MAPS}/a")
    events = [await watcher.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"]["data"] == {"x": "1"}


async def test_without_a_version_the_present_comes_first(server: TestServer) -> None:
    await server.made(MAPS, config_map("a"))
    watcher = await watch(server)
    assert (await watcher.next())["object"]["metadata"]["name"] == "a"


async def test_streaming_lists_end_with_a_bookmark(server: TestServer) -> None:
    await server.made(MAPS, config_map("a"))
    watcher = await watch(
        server, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    first, mark = await watcher.next(), await watcher.next()
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_ends_when_its_time_is_up(server: TestServer) -> None:
    watcher = await watch(server, f"timeoutSeconds=5&resourceVersion={await version(server)}")
    ending = asyncio.create_task(watcher.rest())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.clock.advance(6)
    assert await asyncio.wait_for(ending, 5) == []


async def test_tables_are_watched_too_and_only_the_first_has_columns(server: TestServer) -> None:
    watcher = await watch(server, f"resourceVersion={await version(server)}", accept=TABLE)
    await server.made(MAPS, config_map("a", k="v"))
    await server.made(MAPS, config_map("b"))
    first, second = await watcher.next(), await watcher.next()
    assert first["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["object"]["rows"][0]["cells"] == ["a", 1, "0s"]
    assert second["object"]["columnDefinitions"] == []


async def test_metadata_alone_is_watched_too(server: TestServer) -> None:
    watcher = await watch(server, f"resourceVersion={await version(server)}", accept=PARTIAL)
    await server.made(MAPS, config_map("a", k="v"))
    seen = (await watcher.next())["object"]
    assert (seen["kind"], "data" in seen) == ("PartialObjectMetadata", False)


async def test_a_version_from_the_future_or_the_past_is_gone(server: TestServer) -> None:
    response = await server.get(f"{MAPS}?watch=true&resourceVersion=999999")
    assert (response.code, response.json["reason"]) == (410, "Expired")
    assert (await server.get(f"{MAPS}?watch=true&resourceVersion=x")).code == 422


async def test_a_watch_behind_the_history_ends_with_an_error_event() -> None:
    server = await TestServer(store=Store(history=2)).start()
    watcher = await watch(server, f"resourceVersion={await version(server)}")
    for name in "abcdef":
        await server.made(MAPS, config_map(name))
    event = await watcher.next()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_stream_stops_following_when_the_client_leaves(server: TestServer) -> None:
    stream = await server.stream(f"{MAPS}?watch=true")
    await server.made(MAPS, config_map("a"))
    await anext(stream.chunks)
    followers = server.registry.store.collection("configmaps").watchers
    assert len(followers) == 1
    await stream.chunks.aclose()  # type: ignore[attr-defined]
    assert len(followers) == 0


@asynccontextmanager
async def over_the_network(server: TestServer) -> AsyncIterator[ConnectionPool]:
    """Connections to the server on a port, where requests can be upgraded."""
    async with Server(server.api) as http:
        pool = ConnectionPool(http.url)
        try:
            yield pool
        finally:
            await pool.close()


WEBSOCKET = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Origin": "https://client"}


async def next_event(socket: WebSocket) -> Any:
    message = await asyncio.wait_for(socket.receive(), 5)
    assert message is not None
    assert message.text
    return json.loads(message.data)


async def test_a_websocket_gets_each_event_as_a_message(server: TestServer) -> None:
    await server.made(MAPS, config_map("a"))
    async with (
        over_the_network(server) as pool,
        connect(pool, f"{MAPS}?watch=true", WEBSOCKET, protocols=["any"]) as socket,
    ):
        assert socket.subprotocol == "any"
        await server.made(MAPS, config_map("b"))
        await server.ask("DELETE", f"{MAPS}/a")
        await socket.send("ignored")
        events = [await next_event(socket) for _ in range(3)]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


async def test_the_websocket_of_a_watch_is_closed_after_the_timeout(server: TestServer) -> None:
    async with (
        over_the_network(server) as pool,
        connect(pool, f"{MAPS}?watch=true&timeoutSeconds=5", WEBSOCKET) as socket,
    ):
        ending = asyncio.create_task(socket.receive())
        for _ in range(100):
            server.clock.advance(1)
            await asyncio.sleep(0.01)
            if ending.done():
                break
        assert await asyncio.wait_for(ending, 5) is None
        assert socket.close_code == 1000


async def test_a_watch_ends_when_its_websocket_is_closed(server: TestServer) -> None:
    async with over_the_network(server) as pool:
        async with connect(pool, f"{MAPS}?watch=true", WEBSOCKET):
            assert long_running(await metrics(server)) == 1
        for _ in range(100):
            if long_running(await metrics(server)) == 0:
                break
            await asyncio.sleep(0.02)
        assert long_running(await metrics(server)) == 0


async def metrics(server: TestServer) -> str:
    return (await server.ask("GET", "/metrics")).body.decode()


def long_running(text: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'verb="WATCH"' in line)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": ""}, 403),
        ({"origin": "null"}, 403),
        ({"sec_websocket_protocol": "x, y"}, 400),
        ({"sec_websocket_key": ""}, 400),
    ],
)
async def test_a_handshake_that_kube_apiserver_rejects_is_rejected(
    server: TestServer, headers: dict[str, str], code: int
) -> None:
    handshake = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "origin": "https://client",
        "sec_websocket_version": "13",
        "sec_websocket_key": "MTIzNDU2Nzg5MDEyMzQ1Ng==",
    }
    assert (await server.ask("GET", f"{MAPS}?watch=true", **{**handshake, **headers})).code == code


async def test_an_error_before_the_watch_answers_the_handshake(server: TestServer) -> None:
    handshake = {"upgrade": "websocket", "connection": "Upgrade", "origin": "https://client"}
    answer = await server.ask("GET", f"{MAPS}?watch=true&fieldSelector=a%3Db", **handshake)
    assert answer.code == 400
    assert answer.json["kind"] == "Status"


async def test_an_upgrade_header_alone_asks_for_no_websocket(server: TestServer) -> None:
    watcher = await watch(server, "", upgrade="websocket", origin="https://client")
    await server.made(MAPS, config_map("a"))
    assert (await watcher.next())["object"]["metadata"]["name"] == "a"
