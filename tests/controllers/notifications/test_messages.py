"""Which notifications a job needs, from its status and annotations."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.base.clock import parse_timestamp, timestamp
from volcano.controllers.notifications.messages import new_notifications, notified, pending_due
from volcano.model.annotations.notify import (
    ALL_TYPES,
    NotificationType,
    Subscription,
    problems,
    subscription,
    url_problem,
)

NOON = "2026-05-01T12:00:00Z"
NOW = parse_timestamp(NOON) + 60
WANTED = Subscription("https://example.com/", pending_after=600.0)


def job(phase: str = "Running", at: str = NOON, *, handled: Any = None, **conditions: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "train",
            "namespace": "team-a",
            "uid": "u1",
            "creationTimestamp": "2026-05-01T11:00:00Z",
            "annotations": {"volcano.sh/user": "alice", "volcano.sh/notified": json.dumps(handled or {})},
        },
        "spec": {"queue": "research", "minAvailable": 2},
        "status": {
            "state": {"phase": phase, "lastTransitionTime": at},
            "running": 2,
            "conditions": [
                {"status": name, "lastTransitionTime": when}
                for name, when in {**conditions, phase: at}.items()
            ],
        },
    }


def types(manifest: Any, wanted: Subscription = WANTED, now: float = NOW, **evictions: Any) -> list[str]:
    return [
        str(each.type) for each in new_notifications(manifest, evictions.get("evictions", {}), wanted, now)
    ]


def test_the_data_describes_the_job() -> None:
    found = new_notifications(job(), {}, WANTED, NOW)[0]
    assert found.id == f"u1.running.{NOON}"
    assert found.data["namespace"] == "team-a"
    assert found.data["user"] == "alice"
    assert found.data["queue"] == "research"
    assert found.data["pods"]["running"] == 2


def test_all_transitions_since_the_last_look_are_notified_of_in_order() -> None:
    later = "2026-05-01T12:00:30Z"
    assert types(job("Completed", later, Running=NOON)) == ["Running", "Completed"]


def test_transitions_that_were_handled_are_not_notified_of_again() -> None:
    assert types(job(handled={"Running": NOON})) == []
    assert types(job(handled={"Running": "2026-05-01T11:30:00Z"})) == ["Running"]  # it runs again


def test_old_transitions_are_not_notified_of() -> None:
    assert types(job(), now=NOW + 2 * 86400) == []


def test_a_job_that_waits_too_long_is_notified_of_once() -> None:
    waiting = job("Pending")
    assert types(waiting, now=NOW) == []
    assert pending_due(waiting, WANTED, NOW) == 540
    found = new_notifications(waiting, {}, WANTED, NOW + 540)
    assert [each.type for each in found] == [NotificationType.PENDING]
    assert types(job("Pending", handled={"Pending": found[0].transition}), now=NOW + 9999) == []
    assert pending_due(job(), WANTED, NOW) is None


def test_a_job_without_a_status_waits_since_its_creation() -> None:
    fresh = job()
    del fresh["status"]
    assert types(fresh, now=parse_timestamp("2026-05-01T11:10:00Z")) == ["Pending"]


def test_evictions_name_the_pods() -> None:
    found = new_notifications(job(handled={"Running": NOON}), {NOON: ("p0", "p1")}, WANTED, NOW)
    assert [each.type for each in found] == [NotificationType.EVICTED]
    assert found[0].data["evictedPods"] == ["p0", "p1"]
    assert found[0].data["evictedPodCount"] == 2


def test_only_wanted_types_are_notified_of() -> None:
    wanted = Subscription("https://example.com/", frozenset([NotificationType.FAILED]))
    assert types(job(), wanted) == []
    assert types(job("Failed"), wanted) == ["Failed"]


def test_a_malformed_record_counts_as_none() -> None:
    broken = job()
    broken["metadata"]["annotations"]["volcano.sh/notified"] = "{"
    assert notified(broken) == {}
    broken["metadata"]["annotations"]["volcano.sh/notified"] = "[1]"
    assert notified(broken) == {}


@given(st.sampled_from(["Running", "Completed", "Failed", "Pending", "Aborted"]), st.floats(0, 86000))
def test_nothing_is_left_after_everything_was_handled(phase: str, age: float) -> None:
    now = parse_timestamp(NOON) + age
    evictions = {timestamp(now - 1): ("p",)}
    found = new_notifications(job(phase), evictions, WANTED, now)
    handled = {str(each.type): each.transition for each in found}
    assert new_notifications(job(phase, handled=handled), evictions, WANTED, now) == []


# -- annotations ---------------------------------------------------------------------------------------


def test_annotations_are_read() -> None:
    annotations = {
        "volcano.sh/notify": "https://example.com/x",
        "volcano.sh/notify-on": "Completed, Failed",
        "volcano.sh/notify-secret": "hook",
        "volcano.sh/notify-pending-after": "5m",
    }
    assert subscription(annotations, "team-a") == Subscription(
        "https://example.com/x",
        frozenset([NotificationType.COMPLETED, NotificationType.FAILED]),
        ("team-a", "hook"),
        300.0,
    )
    assert subscription({}, "team-a") is None
    of_queue = {"volcano.sh/notify": "https://example.com", "volcano.sh/notify-secret": "ops/hook"}
    assert subscription(of_queue, "") == Subscription("https://example.com", ALL_TYPES, ("ops", "hook"))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("https://example.com/hook?x=1", "", id="https"),
        pytest.param("http://10.0.0.1:8080", "", id="http"),
        pytest.param("https://[2001:db8::1]/", "", id="IPv6"),
        pytest.param("example.com/hook", "is no https or http URL with a host", id="no scheme"),
        pytest.param("ftp://example.com", "is no https or http URL", id="another scheme"),
        pytest.param("https://", "with a host", id="no host"),
        pytest.param("https://example.com:99999/", "is no URL", id="port"),
        pytest.param("https://user:pw@example.com/", "contains a user or a password", id="credentials"),
        pytest.param("https://example.com/a b", "percent-encoded", id="space"),
        pytest.param("https://example.com/\r\nX: y", "percent-encoded", id="line break"),
        pytest.param("https://example.com/#top", "fragment", id="fragment"),
        pytest.param("https://example.com/" + "a" * 3000, "at most 2048", id="too long"),
    ],
)
def test_urls_are_checked(url: str, problem: str) -> None:
    found = url_problem(url)
    assert problem in found if problem else found == ""


@pytest.mark.parametrize(
    ("annotations", "of_queue", "problem"),
    [
        pytest.param({"notify-on": "Finished"}, False, "choose from Running, Completed", id="type"),
        pytest.param(
            {"notify-secret": "a/b"}, False, "the name of a Secret in the job", id="secret elsewhere"
        ),
        pytest.param({"notify-secret": "b"}, True, "<namespace>/<name>", id="secret without a namespace"),
        pytest.param({"notify-pending-after": "10"}, False, "write such as 30m", id="no unit"),
        pytest.param({"notify-pending-after": "0s"}, False, "longer than 0", id="zero"),
    ],
)
def test_invalid_annotations_are_explained(annotations: dict[str, str], of_queue: bool, problem: str) -> None:
    whole = {f"volcano.sh/{name}": value for name, value in annotations.items()}
    found = list(problems(whole, of_queue=of_queue))
    assert len(found) == 1
    assert found[0][0] in whole
    assert problem in found[0][1]
    assert subscription({"volcano.sh/notify": "https://e.com", **whole}, "" if of_queue else "n") is None
