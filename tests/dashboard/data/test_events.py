"""Events of a job."""

from tests.dashboard.data.objects import NOW
from volcano.base.clock import timestamp
from volcano.dashboard.data.events import event_items
from volcano.kube.api.manifest import Manifest


def event(name: str, about: str, age: float, **more: object) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": about},
        "type": "Normal",
        "reason": "Scheduled",
        "message": " assigned ",
        "lastTimestamp": timestamp(NOW - age),
        "firstTimestamp": timestamp(NOW - age),
        **more,
    }


def test_events_of_other_objects_are_left_out_and_the_latest_is_first() -> None:
    found = event_items(
        [event("a", "x-0", 60), event("b", "x-1", 5), event("c", "y-0", 1)], ["x-0", "x-1"], NOW
    )
    assert [(item.about, item.age, item.message) for item in found] == [
        ("Pod x-1", "5s", "assigned"),
        ("Pod x-0", "60s", "assigned"),
    ]


def test_an_event_that_was_repeated_says_how_often() -> None:
    (found,) = event_items([event("a", "x", 5, count=3, firstTimestamp=timestamp(NOW - 50))], ["x"], NOW)
    assert (found.age, found.count) == ("5s (x3 over 50s)", 3)


def test_an_event_of_the_new_api_has_its_time_and_source() -> None:
    modern = {
        "lastTimestamp": None,
        "firstTimestamp": None,
        "eventTime": timestamp(NOW - 9),
        "reportingComponent": "c",
    }
    (found,) = event_items([event("a", "x", 0, **modern)], ["x"], NOW)
    assert (found.last, found.source) == (NOW - 9, "c")
