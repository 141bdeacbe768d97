"""Events of one batch are passed on together, and are the same as one by one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import VirtualClock
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, Kind
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EVERYTHING, Decode, Event, EventType, Listing, Query, Watch
from volcano.kube.client.watch_batches import watch_batches
from volcano.kube.informers.reflector import INITIAL_EVENTS_END, Reflector


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


class Collector:
    """Collects the events of a client's watch, by batch."""

    def __init__(self, client: Any) -> None:
        self.batches: list[list[str]] = []
        self._task = asyncio.create_task(self._run(client))

    async def _run(self, client: Any) -> None:
        async for batch in watch_batches(
            client, CONFIG_MAP, Query(resource_version="1"), decode=orjson.loads
        ):
            self.batches.append([event.object["metadata"]["name"] for event in batch])

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def filled(client: DirectClient) -> DirectClient:
    await client.create(NAMESPACE, namespace("default"))
    for name in ("a", "b", "c"):
        await client.create(CONFIG_MAP, config_map(name))
    return client


async def test_what_a_client_has_at_once_comes_as_one_group() -> None:
    client = await filled(DirectClient(registry()))
    collector = Collector(client)
    await settle()
    assert collector.batches == [["a", "b", "c"]]
    await client.delete(CONFIG_MAP, Key("default", "b"))
    await settle()
    assert collector.batches[1:] == [["b"]]
    await collector.end()


class WatchOnly(DirectClient):
    """Changes the events of `watch` only."""

    async def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        async for event in super().watch(kind, query, decode=decode):
            if event.object["metadata"]["name"] != "b":
                yield event


async def test_a_client_that_overrides_watch_is_watched_event_by_event() -> None:
    collector = Collector(await filled(WatchOnly(registry())))
    await settle()
    assert collector.batches == [["a"], ["c"]]
    await collector.end()


class Scripted:
    """A client whose only watch returns the given events, split into batches."""

    def __init__(self, events: Sequence[Event], cuts: Sequence[int]) -> None:
        borders = sorted({0, len(events), *(cut % (len(events) + 1) for cut in cuts)})
        self._batches = [events[start:stop] for start, stop in pairwise(borders)]
        self.asked: list[Query] = []

    async def list(self, kind: Kind, query: Query, *, decode: Decode) -> Listing:
        return Listing([], "1")

    def watch(self, kind: Kind, query: Query, *, decode: Decode) -> AsyncIterator[Event]:
        raise AssertionError("this client has groups")

    async def watch_batches(
        self, kind: Kind, query: Query, *, decode: Decode
    ) -> AsyncGenerator[Sequence[Event], None]:
        self.asked.append(query)
        if len(self.asked) > 1:
            await asyncio.Event().wait()
        for batch in self._batches:
            yield batch


def result_of(events: Sequence[Event], cuts: Sequence[int], *, streaming: bool) -> tuple[Any, ...]:
    """The events of a reflector, the objects it knows in the end, and the version it would resume from."""

    async def follow() -> tuple[Any, ...]:
        client, clock, watch = Scripted(events, cuts), VirtualClock(), Watch(CONFIG_MAP)
        received: list[Event] = []
        reflector = Reflector(client, watch, received.extend, clock, streaming=streaming)  # type: ignore[arg-type]
        task = asyncio.create_task(reflector.run())
        await settle()
        clock.advance(1)
        await settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return (
            [(event.type, event.object) for event in received],
            reflector.objects(),
            client.asked[-1].resource_version,
        )

    return asyncio.run(follow())


def script(steps: Sequence[tuple[EventType, str]]) -> list[Event]:
    return [
        Event(type_, CONFIG_MAP, {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}})
        for version, (type_, name) in enumerate(steps, start=2)
    ]


STEPS = st.lists(st.tuples(st.sampled_from(EventType), st.sampled_from("abc")), max_size=12)


@given(STEPS, st.lists(st.integers(0, 20), max_size=6))
def test_the_batches_of_a_watch_do_not_change_the_events_of_a_reflector(
    steps: list[tuple[EventType, str]], cuts: list[int]
) -> None:
    events = script(steps)
    each_event = result_of(events, range(len(events)), streaming=False)
    assert result_of(events, cuts, streaming=False) == each_event
    assert [type_ for type_, _ in each_event[0]] == [
        type_ for type_, _ in steps if type_ is not EventType.BOOKMARK
    ]


@given(STEPS, st.integers(0, 3), st.lists(st.integers(0, 20), max_size=6))
def test_the_batches_of_a_streaming_list_do_not_change_the_events_of_a_reflector(
    steps: list[tuple[EventType, str]], present: int, cuts: list[int]
) -> None:
    events = script(
        [(EventType.ADDED, name) for name in "abc"[:present]] + [(EventType.BOOKMARK, "")] + steps
    )
    events[present].object["metadata"]["annotations"] = {INITIAL_EVENTS_END: "true"}
    assert result_of(events, cuts, streaming=True) == result_of(events, range(len(events)), streaming=True)
