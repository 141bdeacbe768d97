"""Following a kind: bookmarks, ends, slowness, and what a restart of history means."""

import asyncio

import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, pod, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.store import Store
from volcano.apiserver.storage.watch_cache import BOOKMARK_EVERY, EncodedEvent, Watcher
from volcano.base.clock import VirtualClock
from volcano.kube.api.errors import BadRequest, Gone, Invalid, NotFound
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, POD, Kind
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EventType, Query


async def ready(registry: Registry) -> DirectClient:
    client = DirectClient(registry)
    await client.create(NAMESPACE, namespace("default"))
    return client


async def drained() -> None:
    """Lets all tasks run until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


def told(pieces: list[EncodedEvent]) -> list[tuple[str, str]]:
    return [(piece.type.value, orjson.loads(piece.data)["metadata"].get("name", "")) for piece in pieces]


async def test_a_piece_is_written_as_one_line() -> None:
    made = registry()
    client = await ready(made)
    created = await client.create(CONFIG_MAP, config_map())
    (piece,) = made.open_watcher(CONFIG_MAP, Query()).take()
    line = piece.line()
    assert line.endswith(b"}\n")
    assert orjson.loads(line) == {"type": "ADDED", "object": created}


async def test_watchers_of_one_namespace_hear_of_no_other() -> None:
    made = registry()
    client = await ready(made)
    await client.create(NAMESPACE, namespace("other"))
    feed = made.open_watcher(CONFIG_MAP, Query(namespace="other"))
    await client.create(CONFIG_MAP, config_map("a"))
    await client.create(CONFIG_MAP, config_map("b", "other"))
    assert told(feed.take()) == [("ADDED", "b")]


async def test_bookmarks_come_about_once_a_minute_and_say_where_one_is() -> None:
    clock = VirtualClock()
    made = registry(clock=clock)
    client = await ready(made)
    batches = made.open_watcher(CONFIG_MAP, Query()).batches(clock, bookmarks=True)
    waiting = asyncio.ensure_future(anext(batches))
    await drained()
    await client.create(POD, pod())  # of another kind: the bookmark says that it need not be asked for again
    clock.advance(BOOKMARK_EVERY - 1)
    await drained()
    assert not waiting.done()
    clock.advance(1.5)
    (bookmark,) = await waiting
    manifest = orjson.loads(bookmark.data)
    assert bookmark.type is EventType.BOOKMARK
    assert (manifest["kind"], manifest["metadata"]["resourceVersion"]) == (
        "ConfigMap",
        str(made.store.version),
    )
    await batches.aclose()
    assert not made.store.collection("configmaps").watchers


async def test_a_watch_ends_on_time_with_a_last_bookmark() -> None:
    clock = VirtualClock()
    made = registry(clock=clock)
    await ready(made)
    batches = made.open_watcher(CONFIG_MAP, Query()).batches(clock, timeout=30, bookmarks=True)
    collecting = asyncio.ensure_future(_all(batches))
    await drained()
    clock.advance(30.5)
    assert [piece.type for piece in await collecting] == [EventType.BOOKMARK]
    assert not made.store.collection("configmaps").watchers


async def _all(batches: object) -> list[EncodedEvent]:
    return [piece async for pieces in batches for piece in pieces]  # type: ignore[attr-defined]


async def test_a_watcher_that_is_too_slow_is_told_so() -> None:
    made = registry(Store(history=10))
    client = await ready(made)
    feed = made.open_watcher(CONFIG_MAP, Query())
    await client.create(CONFIG_MAP, config_map())
    for number in range(200):
        await client.patch(CONFIG_MAP, Key("default", "settings"), {"data": {"x": str(number)}})
    with pytest.raises(Gone, match="too old resource version"):
        feed.take()


@pytest.mark.parametrize(
    ("query", "error"),
    [
        pytest.param(Query(resource_version="1"), Gone, id="a version that history no longer reaches"),
        pytest.param(Query(resource_version="999999"), Gone, id="a version of another life of the server"),
        pytest.param(Query(resource_version="blue"), Invalid, id="no version at all"),
        pytest.param(Query(labels="a in ("), BadRequest, id="a broken label selector"),
        pytest.param(Query(fields="spec.colour=blue"), BadRequest, id="an unknown field"),
        pytest.param(Query(send_initial_events=True), Invalid, id="a streamed list without a match rule"),
    ],
)
async def test_a_watch_that_cannot_begin_is_refused_at_once(query: Query, error: type[Exception]) -> None:
    made = registry(Store(history=10))
    client = await ready(made)
    await client.create(CONFIG_MAP, config_map())
    for number in range(200):
        await client.patch(CONFIG_MAP, Key("default", "settings"), {"data": {"x": str(number)}})
    with pytest.raises(error):
        made.open_watcher(CONFIG_MAP, query)
    assert not made.store.collection("configmaps").watchers


def test_a_kind_that_is_not_served_cannot_be_watched() -> None:
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        registry().open_watcher(Kind("example.com", "v1", "Widget", "widgets"))


async def test_a_long_past_is_told_in_handfuls() -> None:
    made = registry()
    client = await ready(made)
    for number in range(1200):
        await client.create(CONFIG_MAP, config_map(f"c{number:04}"))
    batches = made.open_watcher(CONFIG_MAP, Query()).batches(made.clock)
    sizes = [len(await anext(batches)) for _ in range(3)]
    await batches.aclose()
    assert sizes == [500, 500, 200]


async def test_the_object_of_a_lost_selection_is_the_last_that_was_selected() -> None:
    made = registry()
    client = await ready(made)
    feed: Watcher = made.open_watcher(CONFIG_MAP, Query(labels="tier=front"))
    first = config_map("x")
    first["metadata"]["labels"] = {"tier": "front"}
    await client.create(CONFIG_MAP, first)
    moved = await client.patch(CONFIG_MAP, Key("default", "x"), {"metadata": {"labels": {"tier": "back"}}})
    added, gone = feed.take()
    assert (added.type, gone.type) == (EventType.ADDED, EventType.DELETED)
    last = orjson.loads(gone.data)["metadata"]
    assert last["labels"] == {"tier": "front"}
    assert last["resourceVersion"] == moved["metadata"]["resourceVersion"]
