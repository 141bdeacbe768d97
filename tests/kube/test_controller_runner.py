"""A runner delivers events to a controller and does its writes, also when one of them fails."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.clock import Instant, VirtualClock
from volcano.kube.client import Event
from volcano.kube.controller import (
    Controller,
    Plan,
    Reconciler,
    SteppedWhenDue,
    Watch,
    WorkItem,
    WorkResult,
)
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.errors import Conflict
from volcano.kube.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.kube.operations import Patch


class Doubler(Reconciler[Key]):
    """Keeps `data.twice` of every config map at twice its `data.n`."""

    name = "doubler"
    watches = (Watch(CONFIG_MAP),)

    def __init__(self) -> None:
        super().__init__()
        self.reconciled: list[str] = []

    def keys(self, event: Event) -> Iterable[Key]:
        return (key_of(event.object),)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        self.reconciled.append(key.name)
        found = self.indexer.get(CONFIG_MAP, key)
        if found is None or "n" not in found.get("data", {}):
            return Plan()
        wanted = str(2 * int(found["data"]["n"]))
        if found["data"].get("twice") == wanted:
            return Plan()
        return Plan([Patch(CONFIG_MAP, key, {"data": {"twice": wanted}})])


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.client = DirectClient(registry(clock=self.clock))

    @asynccontextmanager
    async def running(
        self, controller: Controller, client: Any = None, **options: Any
    ) -> AsyncIterator[None]:
        task = asyncio.create_task(
            ControllerRunner(controller, client or self.client, self.clock, **options).run()
        )
        async with asyncio.timeout(5):
            await self.settle()
            yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def settle(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)
        for _ in range(60):
            await asyncio.sleep(0)

    async def put(self, name: str, **data: str) -> Manifest:
        return await self.client.create(CONFIG_MAP, config_map(name, **data))

    async def data(self, name: str) -> Any:
        return (await self.client.get(CONFIG_MAP, Key("default", name)))["data"]


@pytest.fixture
async def world() -> World:
    made = World()
    await made.client.create(NAMESPACE, namespace("default"))
    return made


async def test_what_is_asked_for_comes_to_be(world: World) -> None:
    await world.put("a", n="1")
    ready: list[int] = []
    async with world.running(Doubler(), on_ready=lambda: ready.append(1)):
        assert ready == [1]
        await world.put("b", n="2")
        await world.client.patch(CONFIG_MAP, Key("default", "a"), {"data": {"n": "5"}})
        await world.settle()
        assert await world.data("a") == {"n": "5", "twice": "10"}
        assert await world.data("b") == {"n": "2", "twice": "4"}


class Forgetful(Doubler):
    """Fails to map objects to keys for a while."""

    broken = True

    def keys(self, event: Event) -> Iterable[Key]:
        if self.broken:
            raise KeyError("spec")
        return super().keys(event)


async def test_an_object_whose_event_failed_is_reconciled_once_that_is_possible(world: World) -> None:
    controller = Forgetful()
    async with world.running(controller):
        await world.put("a", n="1")
        await world.settle(1)
        assert await world.data("a") == {"n": "1"}
        controller.broken = False
        await world.settle(60)
        assert await world.data("a") == {"n": "1", "twice": "2"}


class Rejecting:
    """A client whose first writes are rejected."""

    def __init__(self, client: DirectClient, times: int) -> None:
        self._client, self.left = client, times
        self.under_way = self.most = 0
        self.block: asyncio.Event | None = None

    async def patch(self, *arguments: Any, **options: Any) -> Manifest:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if self.block is not None:
                await self.block.wait()
            if self.left:
                self.left -= 1
                raise Conflict("try again")
            return await self._client.patch(*arguments, **options)
        finally:
            self.under_way -= 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def test_a_refused_write_is_tried_requeue_after_a_while(world: World) -> None:
    await world.put("a", n="1")
    client = Rejecting(world.client, 2)
    async with world.running(Doubler(), client):
        assert "twice" not in await world.data("a")
        await world.settle(0.05)
        await world.settle(0.1)
        assert (await world.data("a"))["twice"] == "2"
        assert client.left == 0


async def test_keys_are_worked_on_side_by_side_up_to_a_limit_and_one_key_at_a_time(world: World) -> None:
    for number in range(6):
        await world.put(f"c{number}", n="1")
    client = Rejecting(world.client, 0)
    client.block = asyncio.Event()
    controller = Doubler()
    async with world.running(controller, client, concurrency=4):
        assert client.under_way == 4
        await world.client.patch(CONFIG_MAP, Key("default", "c0"), {"data": {"n": "9"}})
        await world.settle()
        assert controller.reconciled.count("c0") == 1  # its write is still in flight
        client.block.set()
        await world.settle()
        assert client.most == 4
        assert (await world.data("c0"))["twice"] == "18"
        assert (await world.data("c5"))["twice"] == "2"


class Clumsy(Doubler):
    """A controller with bugs in every method."""

    def on_event(self, event: Event) -> None:
        if event.object["metadata"]["name"] == "poison":
            raise KeyError("spec")
        super().on_event(event)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        super().on_result(done, now)
        if done.work.key == Key("default", "b"):
            raise ValueError("settle")


async def test_a_brains_bug_is_logged_and_the_rest_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.put("poison", n="1")
    await world.put("b", n="1")
    async with world.running(Clumsy()):
        await world.put("c", n="3")
        await world.settle()
        assert (await world.data("c"))["twice"] == "6"
        assert (await world.data("b"))["twice"] == "2"
    messages = [record.message for record in caplog.records]
    assert any(message.startswith("event handler failed controller=doubler") for message in messages)
    assert any(message.startswith("result handler failed controller=doubler") for message in messages)


class Broken:
    """A controller that always has work due and never succeeds."""

    name = "broken"
    watches = ()

    def __init__(self) -> None:
        self.steps = 0

    def on_event(self, event: Event) -> None: ...

    def step(self, now: Instant) -> list[WorkItem]:
        self.steps += 1
        raise RuntimeError("bug")

    def on_result(self, done: WorkResult, now: Instant) -> None: ...

    def next_due(self) -> float | None:
        return float("-inf")


async def test_a_brain_that_always_breaks_is_asked_only_now_and_then(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Broken()
    async with world.running(controller):
        assert controller.steps == 1
        await world.settle(1)
        assert controller.steps == 2
    assert caplog.text.count("step failed controller=broken") == 2


class Timed:
    """A controller that acts at a due time, without any event."""

    name = "alarm"
    watches: tuple[Watch, ...] = ()

    def __init__(self, due: float) -> None:
        self.due: float | None = due
        self.acted_at: list[float] = []

    def on_event(self, event: Event) -> None: ...

    def step(self, now: Instant) -> list[WorkItem]:
        if self.due is not None and now.monotonic >= self.due:
            self.due = None
            self.acted_at.append(now.monotonic)
        return []

    def on_result(self, done: WorkResult, now: Instant) -> None: ...

    def next_due(self) -> float | None:
        return self.due


async def test_a_moment_that_is_due_wakes_the_brain(world: World) -> None:
    controller = Timed(due=10.0)
    async with world.running(controller):
        await world.settle(9)
        assert controller.acted_at == []
        await world.settle(1)
        assert controller.acted_at == [10.0]


async def test_a_reconciler_is_not_woken_by_what_does_not_concern_it(world: World) -> None:
    class Counting(Doubler):
        steps = 0

        def accepts(self, event: Event) -> bool:
            return not event.object["metadata"]["name"].startswith("foreign")

        def step(self, now: Instant) -> list[WorkItem]:
            self.steps += 1
            return super().step(now)

    controller = Counting()
    async with world.running(controller):
        before = controller.steps
        await world.put("foreign", number="1")
        await world.settle()
        assert controller.steps == before
        await world.put("own", number="2")
        await world.settle()
        assert controller.steps > before


class Collecting(SteppedWhenDue):
    """Looks at what it received once in ten seconds."""

    name = "collecting"
    watches = (Watch(CONFIG_MAP),)

    def __init__(self) -> None:
        self.received = 0
        self.looked_at: list[int] = []
        self.calls = 0
        self._next = 0.0

    def on_event(self, event: Event) -> None:
        self.received += 1

    def step(self, now: Instant) -> list[WorkItem]:
        self.calls += 1
        if self.received and now.monotonic >= self._next:
            self.looked_at.append(self.received)
            self.received, self._next = 0, now.monotonic + 10
        return []

    def on_result(self, done: WorkResult, now: Instant) -> None: ...

    def next_due(self) -> float | None:
        return self._next if self.received else None


async def test_a_controller_that_is_stepped_when_due_collects_events_until_then(world: World) -> None:
    collecting = Collecting()
    async with world.running(collecting):
        for number in range(20):
            await world.put(f"c{number}")
            await world.settle()
        assert collecting.looked_at == [1]
        assert collecting.calls < 6
        await world.settle(10)
        assert collecting.looked_at == [1, 19]


async def test_a_moment_that_comes_to_be_earlier_is_not_slept_through(world: World) -> None:
    class Hurried(Timed):
        watches = (Watch(CONFIG_MAP),)

        def on_event(self, event: Event) -> None:
            self.due = {"sooner": 5.0, "later": 20.0}[event.object["metadata"]["name"]]

    controller = Hurried(due=10.0)
    async with world.running(controller):
        await world.put("sooner")
        await world.settle(5)
        assert controller.acted_at == [5.0]
        await world.put("later")
        await world.settle(14)
        assert controller.acted_at == [5.0]  # the old timer, if it fired, had no effect
        await world.settle(1)
        assert controller.acted_at == [5.0, 20.0]


async def test_ending_a_runner_ends_its_writes(world: World) -> None:
    await world.put("a", n="1")
    client = Rejecting(world.client, 0)
    client.block = asyncio.Event()
    async with world.running(Doubler(), client):
        assert client.under_way == 1
    assert client.under_way == 0


class InBatches(Doubler):
    """Receives batches of events, and fails once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def on_events(self, batch: Sequence[Event]) -> None:
        self.sizes.append(len(batch))
        for event in batch:
            self.on_event(event)
        if len(self.sizes) == 1:
            raise ValueError("a bug")


async def test_a_controller_that_handles_batches_is_called_once_for_each(world: World) -> None:
    for number in range(3):
        await world.put(f"c{number}", n=str(number))
    controller = InBatches()
    async with world.running(controller):
        assert controller.sizes[0] == 3
        assert await world.data("c2") == {"n": "2", "twice": "4"}, "an error does not end it"
        await world.put("later", n="4")
        await world.settle()
        assert await world.data("later") == {"n": "4", "twice": "8"}
