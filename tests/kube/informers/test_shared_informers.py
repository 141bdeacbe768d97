"""Event handlers of the same objects share one watch."""

import asyncio
from collections.abc import Sequence

import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import VirtualClock
from volcano.kube.api.kinds import BATCH_JOB, CONFIG_MAP, JOB, NAMESPACE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EVERYTHING, Decode, Event, Listing, Options, Query, Watch
from volcano.kube.informers.shared_informers import SharedDecodeCache, SharedInformerFactory

WATCH = Watch(CONFIG_MAP)


class Counting(DirectClient):
    """Counts its lists."""

    lists = 0

    async def list(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Listing:
        self.lists += 1
        return await super().list(kind, query, decode=decode)


@pytest.fixture
async def client() -> Counting:
    made = Counting(registry())
    await made.create(NAMESPACE, namespace("default"))
    await made.create(CONFIG_MAP, config_map("before"))
    return made


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def said(events: list[Event]) -> list[str]:
    return [f"{event.type} {event.object['metadata']['name']}" for event in events]


async def test_handlers_share_objects_and_the_server_is_listed_once(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    one: list[Event] = []
    two: list[Event] = []
    with (
        informers.add_event_handler(WATCH, one.append),
        informers.add_event_handler(WATCH, two.append),
    ):
        await settle()
        await client.create(CONFIG_MAP, config_map("after"))
        await settle()
        assert said(one) == said(two) == ["ADDED before", "ADDED after"]
        assert all(here.object is there.object for here, there in zip(one, two, strict=True))
        assert client.lists == 1


async def test_a_late_handler_first_receives_the_present_objects(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    early: list[Event] = []
    late: list[Event] = []
    with informers.add_event_handler(WATCH, early.append):
        await settle()
        with informers.add_event_handler(WATCH, late.append) as handler:
            assert handler.synced.is_set()
            assert said(late) == ["ADDED before"]
        await client.create(CONFIG_MAP, config_map("after"))
        await settle()
        assert said(early) == ["ADDED before", "ADDED after"]
        assert said(late) == ["ADDED before"]  # removed


async def test_an_informer_without_handlers_stops_and_the_next_starts_afresh(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    for lists in (1, 2):
        events: list[Event] = []
        with informers.add_event_handler(WATCH, events.append):
            await settle()
        assert said(events) == ["ADDED before"]
        assert client.lists == lists
    await settle()
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("informer")] == []


async def test_other_watches_have_informers_of_their_own(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    everything: list[Event] = []
    elsewhere: list[Event] = []
    with (
        informers.add_event_handler(WATCH, everything.append),
        informers.add_event_handler(Watch(CONFIG_MAP, namespace="other"), elsewhere.append),
    ):
        await settle()
        assert said(everything) == ["ADDED before"]
        assert elsewhere == []


async def test_an_object_seen_through_several_watches_is_still_one(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    everything: list[Event] = []
    here: list[Event] = []
    with (
        informers.add_event_handler(WATCH, everything.append),
        informers.add_event_handler(Watch(CONFIG_MAP, namespace="default"), here.append),
    ):
        await settle()
        await client.create(CONFIG_MAP, config_map("after"))
        await settle()
        assert said(everything) == said(here) == ["ADDED before", "ADDED after"]
        assert all(one.object is other.object for one, other in zip(everything, here, strict=True))
        assert "managedFields" not in here[1].object["metadata"]


async def test_an_update_without_managed_fields_keeps_them(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    events: list[Event] = []
    await client.create(CONFIG_MAP, config_map("owned", a="1"), options=Options(field_manager="a"))
    with informers.add_event_handler(Watch(CONFIG_MAP, fields="metadata.name=owned"), events.append):
        await settle()
    changed = {**events[0].object, "data": {"a": "1", "b": "1"}}
    after = await client.update(CONFIG_MAP, changed, options=Options(field_manager="b"))
    assert [entry["manager"] for entry in after["metadata"]["managedFields"]] == ["a", "b"]
    changed = {**events[0].object, "metadata": {"namespace": "default", "name": "owned"}}
    after = await client.update(CONFIG_MAP, changed)
    assert "a" in [entry["manager"] for entry in after["metadata"]["managedFields"]]


def test_only_so_many_manifests_are_remembered() -> None:
    decode = SharedDecodeCache(size=2)
    data = [orjson.dumps({"metadata": {"name": str(n)}}) for n in range(3)]
    first = decode(data[0])
    decode(data[1])
    assert decode(data[0]) is first
    decode(data[2])
    assert decode(data[0]) is not first
    assert decode(data[0]) == first


async def test_a_failing_handler_is_told_and_the_others_miss_nothing(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())

    def broken(event: Event) -> None:
        raise RuntimeError("cannot take it")

    events: list[Event] = []
    with (
        informers.add_event_handler(WATCH, broken) as failing,
        informers.add_event_handler(WATCH, events.append) as healthy,
    ):
        with pytest.raises(RuntimeError, match="cannot take it"):
            await failing.wait_stopped()
        waiting = asyncio.create_task(healthy.wait_stopped())
        await client.create(CONFIG_MAP, config_map("after"))
        await settle()
        assert said(events) == ["ADDED before", "ADDED after"]
        assert not waiting.done()
        assert client.lists == 1  # the informer goes on
        waiting.cancel()


async def test_a_handler_that_fails_unnoticed_is_removed_quietly(client: Counting) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise RuntimeError("cannot take it")

    with informers.add_event_handler(WATCH, broken):
        await settle()
        await client.create(CONFIG_MAP, config_map("after"))
        await settle()
    assert said(calls) == ["ADDED before"]  # it has missed events: it gets no more
    with informers.add_event_handler(WATCH, calls.append):
        await settle()
        assert said(calls) == ["ADDED before", "ADDED after", "ADDED before"]


def owned(name: str, *owner: str) -> Manifest:
    """A config map with a controller of some apiVersion and kind, if one is given."""
    manifest = config_map(name)
    if owner:
        api_version, kind = owner
        reference = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o-1", "controller": True}
        manifest["metadata"]["ownerReferences"] = [reference]
    return manifest


@pytest.mark.parametrize(
    ("owner_kinds", "expected"),
    [
        pytest.param(None, ["before", "job", "vcjob", "free"], id="all"),
        pytest.param((BATCH_JOB,), ["job"], id="a kind of one group"),
        pytest.param((JOB, None), ["before", "vcjob", "free"], id="a kind, and none"),
        pytest.param((), [], id="none"),
    ],
)
async def test_owner_kinds_filter_the_events_of_a_handler(
    client: Counting, owner_kinds: Sequence[Kind | None] | None, expected: list[str]
) -> None:
    informers = SharedInformerFactory(client, VirtualClock())
    early: list[Event] = []
    late: list[Event] = []
    with informers.add_batch_handler(WATCH, early.extend, owner_kinds):
        await settle()
        for manifest in (
            owned("job", "batch/v1", "Job"),
            owned("vcjob", JOB.api_version, "Job"),
            owned("free"),
        ):
            await client.create(CONFIG_MAP, manifest)
        await settle()
        with informers.add_batch_handler(WATCH, late.extend, owner_kinds):
            pass
    assert [event.object["metadata"]["name"] for event in early] == expected
    assert [event.object["metadata"]["name"] for event in late] == expected


def test_large_objects_share_equal_items_of_long_lists() -> None:
    def decoded(name: str) -> Manifest:
        env = [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(1000)]
        env.append({"name": "OWN", "value": name})
        manifest = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "env": env}]}}
        return decode(orjson.dumps(manifest))

    decode = SharedDecodeCache()
    first, second = (decoded(name)["spec"]["containers"][0]["env"] for name in ("first", "second"))
    assert all(one is other for one, other in zip(first[:-1], second[:-1], strict=True))
    assert [env[-1]["value"] for env in (first, second)] == ["first", "second"]
