"""What holds of every controller: it comes to rest, finds nothing to mend then, and survives an end at any write."""

import asyncio
import random
import re
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cluster import SmallCluster
from tests.controllers.world import CutClient, World, take
from tests.controllers.worlds import WORLDS
from volcano.base.clock import Instant
from volcano.kube.api.kinds import EVENT, Kind
from volcano.kube.api.manifest import Key, key_of, uid_of
from volcano.kube.client.protocol import Event
from volcano.kube.controllers.controller import Controller

pytestmark = pytest.mark.slow

QUICK = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LASTING = 40.0  # seconds in the end, for what waits for a moment
happenings = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 11)), min_size=3, max_size=9)
worlds = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)


class Shift:
    """A world's controllers at work, replaced by fresh ones whenever their connection is cut."""

    def __init__(self, cluster: SmallCluster, world: World, cuts: Sequence[int]) -> None:
        self._cluster = cluster
        self._world = world
        self._cuts = list(cuts)
        self._tasks: list[asyncio.Task[None]] = []
        self._client = self._start()

    def _start(self) -> CutClient:
        client = CutClient(self._cluster.registry, self._cuts.pop(0) if self._cuts else None)
        self._tasks = [self._cluster.start(controller, client) for controller in self._world.controllers()]
        return client

    async def rest(self) -> None:
        await self._cluster.rest()
        while self._client.cut:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._client = self._start()
            await self._cluster.rest()


async def lived(
    world: World, steps: list[tuple[int, int]], cuts: Sequence[int] = ()
) -> tuple[Any, list[Any]]:
    """How a world ends, and what fresh controllers write that find it so."""
    async with SmallCluster(*world.beside()) as cluster:
        shift = Shift(cluster, world, cuts)
        await shift.rest()
        for step, number in (*world.first, *steps):
            await take(cluster, world, step, number)
            await shift.rest()
            if world.seconds:
                cluster.clock.advance(world.seconds)
                await shift.rest()
        for _ in range(8 if world.seconds else 1):
            cluster.clock.advance(LASTING if world.beside is not tuple else 0.5)
            await shift.rest()
        seen = await world.view(cluster)
        late = CutClient(cluster.registry)
        for controller in world.controllers():
            cluster.start(controller, late)
        await cluster.rest()
        return seen, [(kind.kind, key) for kind, key in late.written if kind != EVENT]


@worlds
@QUICK
@given(steps=happenings)
async def test_it_comes_to_rest_and_a_fresh_instance_finds_nothing_to_do(
    world: World, steps: list[tuple[int, int]]
) -> None:
    _, written = await lived(world, steps)
    assert written == []


@worlds
@QUICK
@given(steps=happenings, cuts=st.lists(st.integers(1, 5), min_size=1, max_size=6))
async def test_ended_after_any_write_and_started_again_it_comes_to_the_same(
    world: World, steps: list[tuple[int, int]], cuts: list[int]
) -> None:
    assert await lived(world, steps, cuts) == await lived(world, steps)


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(world, id=world.name, marks=[pytest.mark.slow] if world.beside is not tuple else [])
        for world in WORLDS
    ],
)
@pytest.mark.slow
async def test_ended_after_each_single_write_of_a_tale_it_comes_to_the_same(world: World) -> None:
    steps = list(world.tale)
    unbroken = await lived(world, steps)
    assert unbroken[1] == []
    writes = await writes_of(world, steps)
    assert writes >= len(steps)
    for cut in range(1, writes + 1):
        assert await lived(world, steps, [cut]) == unbroken, f"ended after write {cut} of {writes}"


async def writes_of(world: World, steps: list[tuple[int, int]]) -> int:
    """How many writes it takes to live through something."""
    async with SmallCluster(*world.beside()) as cluster:
        client = CutClient(cluster.registry)
        for controller in world.controllers():
            cluster.start(controller, client)
        await cluster.rest()
        for step, number in (*world.first, *steps):
            await take(cluster, world, step, number)
            cluster.clock.advance(world.seconds)
            await cluster.rest()
        return len(client.written)


async def history(world: World, steps: list[tuple[int, int]]) -> list[Event]:
    """Every change of every object that a world's controllers watch, in order, while they are at work."""
    async with SmallCluster(*world.beside(), *world.controllers()) as cluster:
        for step, number in (*world.first, *steps):
            await take(cluster, world, step, number)
        changes = [
            (change.version, Event(change.type, kind, orjson.loads(change.data)))
            for kind in {watch.kind for controller in world.controllers() for watch in controller.watches}
            for change in cluster.registry.store.collection(kind.resource).history.newest_first(0)
        ]
        return [event for _, event in sorted(changes, key=lambda change: change[0])]


def disorder(events: list[Event], chance: random.Random) -> list[Event]:
    """The same changes, each object's own in order, those of different objects in any, some of them told again."""
    by_object: dict[tuple[Kind, Key], list[Event]] = {}
    for event in events:
        by_object.setdefault((event.kind, key_of(event.object)), []).append(event)
    told: list[Event] = []
    waiting = list(by_object.values())
    position = [0] * len(waiting)
    while any(position[i] < len(waiting[i]) for i in range(len(waiting))):
        i = chance.choice([i for i in range(len(waiting)) if position[i] < len(waiting[i])])
        told.append(waiting[i][position[i]])
        position[i] += 1
        # An answer to a write and the watch may tell the same twice; never of an object that is no more.
        again = chance.choice(waiting[i][: position[i]])
        if chance.random() < 0.3 and uid_of(again.object) == uid_of(told[-1].object):
            told.append(again)
    return told


def decided(controller: Controller, events: list[Event], now: Instant) -> dict[Any, list[str]]:
    """What a controller would write that was told these changes; drawn names count as equal."""
    for event in events:
        if any(watch.kind == event.kind for watch in controller.watches):
            controller.on_event(event)
    return {
        work.key: sorted(re.sub(r"-\d{6}", "-N", repr(operation)) for operation in work.operations)
        for work in controller.step(now)
    }


@worlds
@QUICK
@given(steps=happenings, share=st.floats(0.2, 1.0), chance=st.randoms(use_true_random=False))
async def test_the_order_of_events_and_repetitions_do_not_matter(
    world: World, steps: list[tuple[int, int]], share: float, chance: random.Random
) -> None:
    events = await history(world, steps)
    events = events[: int(len(events) * share)]
    now = Instant(1_800_000_500.0, 500.0)
    for ordered, disordered in zip(world.controllers(), world.controllers(), strict=True):
        assert decided(ordered, events, now) == decided(disordered, disorder(events, chance), now)
