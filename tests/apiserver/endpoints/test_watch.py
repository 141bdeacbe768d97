"""Watch streams: every change in order, in the negotiated output, until the timeout or a compaction."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.apiserver.registries import config_map
from tests.apiserver.servers import TestServer
from volcano.apiserver.storage.store import Store

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
