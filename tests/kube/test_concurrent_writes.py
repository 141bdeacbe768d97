"""Writes with conditions, and concurrent writes."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import orjson
import pytest

from volcano.clock import Instant, SystemClock
from volcano.kube.client import DEFAULTS, EVERYTHING, Decode, Event, EventType, Listing, Options, Query
from volcano.kube.controller import Plan, Reconciler, Watch, WorkResult
from volcano.kube.controller_runner import (
    MAX_CONCURRENT_WRITES,
    MAX_REJECTIONS,
    ControllerRunner,
    PrioritySemaphore,
)
from volcano.kube.errors import AlreadyExists, Forbidden, NotFound
from volcano.kube.kinds import CONFIG_MAP, Kind
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.kube.operations import Concurrent, Create, Delete, Patch, is_rejected, perform


def config_map(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "ns", "name": name, "uid": name},
    }


class FakeClient:
    """A client of a few objects that rejects the given names and counts writes in flight."""

    def __init__(self, *refuse: str) -> None:
        self.objects: dict[Key, Manifest] = {}
        self.refuse = refuse
        self.under_way = 0
        self.most = 0

    async def get(self, kind: Kind, key: Key, *, subresource: str = "") -> Manifest:
        return self.objects[key]

    async def list(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Listing:
        return Listing(list(self.objects.values()), "1")

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if key_of(manifest).name in self.refuse:
            raise Forbidden("not this one")
        if key_of(manifest) in self.objects:
            raise AlreadyExists("there is one")
        self.objects[key_of(manifest)] = manifest
        return manifest

    async def update(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        return manifest

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        if key not in self.objects:
            raise NotFound("gone")
        return self.objects[key]

    async def delete(self, kind: Kind, key: Key, *, options: Options = DEFAULTS) -> Manifest:
        if key not in self.objects:
            raise NotFound("gone")
        return self.objects.pop(key)

    async def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield Event(EventType.BOOKMARK, kind, {})


class Wanting(Reconciler[str]):
    """Creates some config maps concurrently, then one more."""

    name = "wanting"
    watches: Sequence[Watch] = (Watch(CONFIG_MAP),)

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.done: list[WorkResult] = []

    def keys(self, event: Event) -> Iterable[str]:
        return ("all",)

    def reconcile(self, key: str, now: Instant) -> Plan:
        missing = [name for name in self.names if self.indexer.get(CONFIG_MAP, Key("ns", name)) is None]
        if not missing or self.done:
            return Plan()
        return Plan(
            [
                Concurrent(tuple(Create(CONFIG_MAP, config_map(name)) for name in missing)),
                Create(CONFIG_MAP, config_map("last")),
            ]
        )

    def on_result(self, done: WorkResult, now: Instant) -> None:
        super().on_result(done, now)
        self.done.append(done)


async def run_once(controller: Wanting, client: FakeClient) -> WorkResult:
    controller.enqueue("all")
    task = asyncio.create_task(ControllerRunner(controller, client, SystemClock()).run())
    while not controller.done:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return controller.done[0]


async def test_a_group_is_done_side_by_side_and_before_what_follows() -> None:
    client = FakeClient()
    done = await run_once(Wanting("a", "b", "c"), client)
    assert (done.error, client.most) == (None, 3)
    assert [result["metadata"]["name"] for result in done.results] == ["a", "b", "c", "last"]


async def test_a_refusal_in_a_group_spares_its_neighbours_and_ends_the_work() -> None:
    client, controller = FakeClient("b"), Wanting("a", "b", "c")
    done = await run_once(controller, client)
    assert isinstance(done.error, Forbidden)
    assert [is_rejected(result) for result in done.results] == [False, True, False]
    assert Key("ns", "last") not in client.objects
    assert controller.indexer.get(CONFIG_MAP, Key("ns", "c")) is not None
    assert controller.indexer.get(CONFIG_MAP, Key("ns", "b")) is None


async def test_creating_what_may_be_there_answers_with_what_is_there() -> None:
    client = FakeClient()
    client.objects[Key("ns", "a")] = config_map("a") | {"data": {"mine": "yes"}}
    answer = await perform(client, Create(CONFIG_MAP, config_map("a"), if_absent=True))
    assert answer["data"] == {"mine": "yes"}


async def test_an_optional_write_that_is_refused_answers_with_the_refusal() -> None:
    answer = await perform(FakeClient("a"), Create(CONFIG_MAP, config_map("a"), optional=True))
    assert is_rejected(answer)
    assert answer["reason"] == "Forbidden"


@pytest.mark.parametrize(
    "operation", [Delete(CONFIG_MAP, Key("ns", "a")), Patch(CONFIG_MAP, Key("ns", "a"), {})]
)
async def test_what_is_gone_is_refused_unless_the_write_allows_for_it(operation: Patch | Delete) -> None:
    with pytest.raises(NotFound):
        await perform(FakeClient(), operation)
    allowing = type(operation)(
        **{name: getattr(operation, name) for name in operation.__slots__} | {"if_present": True}
    )
    assert await perform(FakeClient(), allowing) == {}


def test_a_key_whose_reconciling_fails_is_tried_again_and_costs_the_others_nothing() -> None:
    class Broken(Wanting):
        def reconcile(self, key: str, now: Instant) -> Plan:
            if key == "broken":
                raise ValueError("no")
            return Plan([Create(CONFIG_MAP, config_map("a"))])

    controller = Broken()
    controller.enqueue("broken")
    controller.enqueue("fine")
    assert [work.key for work in controller.step(Instant(0, 0))] == ["fine"]
    assert controller.next_due() == pytest.approx(0.05)


async def test_who_belongs_to_earlier_work_goes_first() -> None:
    semaphore, order = PrioritySemaphore(1), list[str]()
    await semaphore.acquire(0)

    async def go(name: str, place: int) -> None:
        await semaphore.acquire(place)
        order.append(name)
        semaphore.release()

    waiting = [asyncio.create_task(go(*who)) for who in (("late", 3), ("first", 1), ("second", 2))]
    await asyncio.sleep(0)
    semaphore.release()
    await asyncio.gather(*waiting)
    assert order == ["first", "second", "late"]


async def test_who_gives_up_waiting_leaves_room_for_the_others() -> None:
    semaphore = PrioritySemaphore(1)
    await semaphore.acquire(0)
    waiting = [asyncio.create_task(semaphore.acquire(place)) for place in (1, 2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    semaphore.release()
    await asyncio.wait_for(waiting[1], 1.0)
    semaphore.release()
    await asyncio.wait_for(semaphore.acquire(3), 1.0)


async def test_after_many_rejections_the_other_writes_are_left_for_the_next_try() -> None:
    names = [f"c{number}" for number in range(MAX_REJECTIONS * 10)]
    client = FakeClient(*names)
    attempted = 0
    create = client.create

    async def counting(kind: Kind, manifest: Manifest, **more: Any) -> Manifest:
        nonlocal attempted
        attempted += 1
        return await create(kind, manifest, **more)

    client.create = counting  # type: ignore[method-assign]
    runner = ControllerRunner(Wanting(), client, SystemClock())
    answers = await runner._write_all([Create(CONFIG_MAP, config_map(name)) for name in names])
    assert len(answers) == len(names)
    assert all(isinstance(answer, Forbidden) for answer in answers)
    assert attempted <= MAX_REJECTIONS + MAX_CONCURRENT_WRITES
