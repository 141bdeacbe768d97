"""A reflector passes on every change once, whatever happens to the connection or the server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import VirtualClock
from volcano.kube.api.errors import Forbidden, Gone, Invalid, Unavailable
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, Kind
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EVERYTHING, Client, Decode, Event, EventType, Listing, Query, Watch
from volcano.kube.informers.reflector import Reflector, each_event


class Unreliable:
    """A client whose watches end or fail on demand, and whose server can be exchanged for another."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.lists = 0
        self.watches: list[Query] = []
        self.errors: list[Exception] = []  # raised by the next watches, one each
        self._interrupt = asyncio.Event()
        self._with: Exception | None = None

    def interrupt(self, error: Exception | None = None) -> None:
        """Ends every watch: cleanly, or with an error."""
        self._with = error
        self._interrupt.set()
        self._interrupt = asyncio.Event()

    async def list(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Listing:
        self.lists += 1
        return await self.client.list(kind, query, decode=decode)

    async def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        self.watches.append(query)
        if self.errors:
            raise self.errors.pop(0)
        interrupt = self._interrupt
        feed = self.client.watch(kind, query, decode=decode)
        while True:
            waiting = asyncio.ensure_future(anext(feed))
            broken = asyncio.ensure_future(interrupt.wait())
            await asyncio.wait((waiting, broken), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                if self._with is not None:
                    raise self._with
                return
            broken.cancel()
            yield waiting.result()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class World:
    """A server, a reflector of its config maps, and the events it passed on."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = DirectClient(registry(clock=self.clock))
        self.client = Unreliable(self.server)
        self.events: list[str] = []

    def handler(self, event: Event) -> None:
        self.events.append(
            f"{event.type} {event.object['metadata']['name']} {event.object.get('data', {}).get('v', '')}"
        )

    @asynccontextmanager
    async def reflecting(self, **options: Any) -> AsyncIterator[Reflector]:
        handler: Callable[[Event], None] = options.pop("handler", self.handler)
        reflector = Reflector(self.client, Watch(CONFIG_MAP), each_event(handler), self.clock, **options)
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(5):
            await self.settle()
            yield reflector
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def settle(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)
        for _ in range(30):
            await asyncio.sleep(0)

    def new_events(self) -> list[str]:
        events, self.events = self.events, []
        return events

    async def put(self, name: str, v: str) -> None:
        await self.server.create(CONFIG_MAP, config_map(name, v=v))

    async def change(self, name: str, v: str) -> None:
        await self.server.patch(CONFIG_MAP, Key("default", name), {"data": {"v": v}})

    async def drop(self, name: str) -> None:
        await self.server.delete(CONFIG_MAP, Key("default", name))


@pytest.fixture
async def world() -> World:
    made = World()
    await made.server.create(NAMESPACE, namespace("default"))
    return made


@pytest.mark.parametrize("streaming", [False, True])
async def test_present_objects_and_changes_are_passed_on_in_order(world: World, streaming: bool) -> None:
    await world.put("a", "1")
    synced: list[int] = []
    async with world.reflecting(streaming=streaming, on_synced=lambda: synced.append(1)) as reflector:
        assert reflector.synced.is_set()
        assert synced == [1]
        assert world.new_events() == ["ADDED a 1"]
        await world.put("b", "1")
        await world.change("a", "2")
        await world.drop("b")
        await world.settle()
        assert world.new_events() == ["ADDED b 1", "MODIFIED a 2", "DELETED b 1"]
        assert world.client.lists == (0 if streaming else 1)


@pytest.mark.parametrize(
    "how", [pytest.param(None, id="closed"), pytest.param(Unavailable("reset by peer"), id="lost")]
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_watch_that_ends_is_resumed_where_it_was(
    world: World, how: Exception | None, streaming: bool
) -> None:
    await world.put("a", "1")
    async with world.reflecting(streaming=streaming):
        await world.change("a", "2")
        await world.settle()
        world.new_events()
        world.client.interrupt(how)
        await world.settle()
        await world.change("a", "3")
        await world.change("a", "4")
        await world.settle(1)
        assert world.new_events() == ["MODIFIED a 3", "MODIFIED a 4"]  # nothing twice, nothing missing
        assert world.client.lists == (0 if streaming else 1)
        assert [query.send_initial_events for query in world.client.watches] == [streaming, False]


async def test_after_a_gap_only_differences_are_passed_on(world: World) -> None:
    for name in ("same", "changed", "gone", "replaced"):
        await world.put(name, "1")
    async with world.reflecting():
        world.new_events()
        world.client.errors = [Gone("too old resource version")]
        world.client.interrupt()
        await world.settle()
        await world.change("changed", "2")
        await world.drop("gone")
        await world.drop("replaced")
        await world.put("replaced", "2")
        await world.put("new", "1")
        await world.settle(1)
        await world.settle(1)
        assert sorted(world.new_events()) == [
            "ADDED new 1",
            "ADDED replaced 2",
            "DELETED gone 1",
            "DELETED replaced 1",
            "MODIFIED changed 2",
        ]
        assert world.client.lists == 2
        await world.change("same", "2")
        await world.settle(1)
        assert world.new_events() == ["MODIFIED same 2"]


async def test_a_server_that_lost_its_memory_is_listed_again(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.put(name, "1")
    async with world.reflecting():
        world.new_events()
        fresh = DirectClient(registry(clock=world.clock, prefix="other"))
        world.server = world.client.client = fresh
        await fresh.create(NAMESPACE, namespace("default"))
        await world.put("b", "9")
        world.client.interrupt(Unavailable("server restarted"))
        for seconds in (0, 1, 1):
            await world.settle(seconds)
        assert sorted(world.new_events()) == ["ADDED b 9", "DELETED a 1", "DELETED b 1", "DELETED c 1"]


async def test_a_server_that_is_away_is_asked_less_and_less_often(world: World) -> None:
    async with world.reflecting():
        world.client.errors = [Unavailable("away")] * 10_000
        world.client.interrupt()
        for _ in range(600):
            await world.settle(0.1)
        assert 10 < len(world.client.watches) < 30
        world.client.errors = []
        await world.put("a", "1")
        await world.settle(6)
        assert world.new_events() == ["ADDED a 1"]


async def test_a_watch_that_is_always_refused_does_not_flood_the_server(world: World) -> None:
    world.client.errors = [Forbidden("no watching")] * 10_000
    async with world.reflecting():
        for _ in range(600):
            await world.settle(0.1)
        assert 10 < world.client.lists < 30
        assert world.events == []


async def test_history_that_is_always_gone_does_not_flood_the_server(world: World) -> None:
    world.client.errors = [Gone("too old")] * 10_000
    async with world.reflecting():
        for _ in range(600):
            await world.settle(0.1)
        assert 10 < world.client.lists < 30


async def test_a_server_without_streaming_lists_is_listed(world: World) -> None:
    await world.put("a", "1")
    world.client.errors = [Invalid("sendInitialEvents is forbidden for watch")]
    async with world.reflecting(streaming=True):
        assert world.new_events() == ["ADDED a 1"]
        assert world.client.lists == 1


class Metadata(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815


class Small(msgspec.Struct):
    metadata: Metadata

    @property
    def resource_version(self) -> str:
        return self.metadata.resourceVersion


@pytest.mark.parametrize("optional", [True, False])
async def test_an_optional_kind_that_the_server_does_not_serve_counts_as_listed(
    world: World, optional: bool
) -> None:
    unserved = Kind("example.com", "v1", "Widget", "widgets")
    reflector = Reflector(
        world.client, Watch(unserved), each_event(world.handler), world.clock, optional=optional
    )
    task = asyncio.create_task(reflector.run())
    await world.settle()
    assert reflector.synced.is_set() is optional
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_decoded_objects_are_reflected_too(world: World) -> None:
    await world.put("a", "1")
    events: list[tuple[EventType, str]] = []
    async with world.reflecting(
        decode=msgspec.json.Decoder(Small).decode,
        identify=lambda item: item.metadata.name,
        handler=lambda event: events.append((event.type, event.object.metadata.name)),
    ):
        world.client.interrupt()
        await world.settle(1)
        await world.put("b", "1")
        await world.settle(1)
        assert events == [(EventType.ADDED, "a"), (EventType.ADDED, "b")]
        assert world.client.lists == 1
