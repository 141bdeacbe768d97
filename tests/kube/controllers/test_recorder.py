"""Events are counted, aggregated and dropped rather than repeated."""

from typing import Any

from tests.apiserver.registries import namespace, pod, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import Instant
from volcano.kube.api.errors import NotFound
from volcano.kube.api.events import NORMAL, WARNING
from volcano.kube.api.kinds import EVENT, NAMESPACE
from volcano.kube.api.kinds import POD as POD_KIND
from volcano.kube.api.manifest import key_of
from volcano.kube.client.operations import Create, Delete, Operation, Patch, perform
from volcano.kube.controllers.recorder import EventRecorder

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web", "uid": "u1"}}


def at(seconds: float) -> Instant:
    return Instant(1_800_000_000.0 + seconds, seconds)


def say(recorder: EventRecorder, message: str, now: float = 0, about: Any = POD) -> Operation | None:
    return recorder.record(about, WARNING, "FailedScheduling", message, at(now))


def test_something_new_is_a_new_event() -> None:
    operation = say(EventRecorder("vc-scheduler", "host-1"), "no room")
    assert isinstance(operation, Create)
    event = operation.manifest
    assert event["metadata"]["namespace"] == "shop"
    assert event["metadata"]["name"].startswith("web.")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web",
        "uid": "u1",
    }
    assert (event["reason"], event["message"], event["type"]) == ("FailedScheduling", "no room", "Warning")
    assert event["source"] == {"component": "vc-scheduler", "host": "host-1"}
    assert (event["count"], event["firstTimestamp"]) == (1, "2027-01-15T08:00:00Z")


def test_the_same_again_raises_the_count() -> None:
    recorder = EventRecorder("s")
    first = say(recorder, "no room")
    assert isinstance(first, Create)
    again = say(recorder, "no room", 60)
    assert isinstance(again, Patch)
    assert again.key == first.key
    assert again.patch == {"count": 2, "lastTimestamp": "2027-01-15T08:01:00Z", "message": "no room"}


def test_other_objects_reasons_and_types_are_other_events() -> None:
    recorder = EventRecorder("s")
    other = {**POD, "metadata": {**POD["metadata"], "uid": "u2"}}  # type: ignore[dict-item]
    operations = [
        say(recorder, "no room"),
        say(recorder, "no room", about=other),
        recorder.record(POD, NORMAL, "FailedScheduling", "no room", at(0)),
        recorder.record(POD, WARNING, "Evicted", "no room", at(0)),
    ]
    assert all(isinstance(operation, Create) for operation in operations)
    assert len({operation.key for operation in operations if operation}) == 4  # all in one moment


def test_many_that_differ_in_words_only_are_summed_up() -> None:
    recorder = EventRecorder("s")
    operations = [say(recorder, f"{n} nodes are full", n) for n in range(12)]
    assert all(isinstance(operation, Create) for operation in operations[:10])
    summary, more = operations[9], operations[10]
    assert isinstance(summary, Create)
    assert summary.manifest["message"] == "(combined from similar events): 9 nodes are full"
    assert isinstance(more, Patch)
    assert more.key == summary.key
    assert more.patch["message"] == "(combined from similar events): 10 nodes are full"
    assert isinstance(say(recorder, "99 nodes are full", 10_000), Create)  # the flood is over


def test_a_flood_about_one_object_is_held_back_and_others_are_not() -> None:
    recorder = EventRecorder("s")
    operations = [say(recorder, "no room", n) for n in range(100)]
    assert sum(operation is not None for operation in operations) == 25
    assert say(recorder, "no room", 400) is not None
    assert say(recorder, "no room", 401) is None
    assert say(recorder, "no room", 401, {"kind": "Node", "name": "n1"}) is not None


def test_events_about_the_cluster_live_in_default() -> None:
    operation = say(EventRecorder("s"), "full", about={"kind": "Node", "name": "n1", "uid": "n1"})
    assert isinstance(operation, Create)
    assert operation.manifest["metadata"]["namespace"] == "default"


def test_a_message_is_kept_short() -> None:
    operation = say(EventRecorder("s"), "x" * 5000)
    assert isinstance(operation, Create)
    assert len(operation.manifest["message"]) == 1024
    assert operation.manifest["message"].endswith(" ...")


def test_what_was_said_long_ago_is_forgotten() -> None:
    recorder = EventRecorder("s", cache_size=10)
    for number in range(20):
        say(recorder, "no room", about={"kind": "Pod", "name": f"p{number}"})
    assert isinstance(say(recorder, "no room", about={"kind": "Pod", "name": "p0"}), Create)
    assert isinstance(say(recorder, "no room", about={"kind": "Pod", "name": "p19"}), Patch)


async def test_a_server_takes_them_and_an_expired_one_is_made_again() -> None:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("shop"))
    recorder = EventRecorder("s")
    about = await client.create(POD_KIND, pod(namespace="shop"))
    for seconds in range(3):
        operation = say(recorder, "no room", seconds, about)
        assert operation is not None
        await perform(client, operation)
    events = (await client.list(EVENT)).items
    assert [event["count"] for event in events] == [3]
    await perform(client, Delete(EVENT, key_of(events[0])))
    late = say(recorder, "no room", 5, about)
    assert isinstance(late, Patch)
    try:
        await perform(client, late)
    except NotFound:
        fresh = recorder.replacement(late)
        assert fresh is not None
        await perform(client, fresh)
    events = (await client.list(EVENT)).items
    assert [(event["count"], event["message"]) for event in events] == [(4, "no room")]
