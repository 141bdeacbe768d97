"""From manifests to facts."""

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import START, node, pod, podgroup, queue, resources
from volcano.model.parse import Parser, number_of
from volcano.model.status import Status
from volcano.model.task import Task


def task(name: str = "p", **options: Any) -> Task:
    return Parser().pod(orjson.dumps(pod(name, **options)))


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"phase": "Pending"}, Status.PENDING),
        ({"phase": "Pending", "node": "n"}, Status.BOUND),
        ({"phase": "Running", "node": "n"}, Status.RUNNING),
        ({"phase": "Running", "node": "n", "deleting": True}, Status.RELEASING),
        ({"phase": "Pending", "deleting": True}, Status.RELEASING),
        ({"phase": "Succeeded", "node": "n", "deleting": True}, Status.SUCCEEDED),
        ({"phase": "Failed", "node": "n"}, Status.FAILED),
        ({"phase": "Unknown", "node": "n"}, Status.UNKNOWN),
    ],
)
def test_the_status_of_a_pod(options: dict[str, Any], status: Status) -> None:
    assert task(**options).status is status


def test_priority_is_one_unless_said_and_an_annotation_overrules() -> None:
    assert task().priority == 1
    assert task(priority=7).priority == 7
    assert task(priority=7, annotations={"volcano.sh/task-priority": "9"}).priority == 9
    assert task(priority=7, annotations={"volcano.sh/task-priority": "high"}).priority == 7


def test_a_pod_is_preemptable_unless_it_says_otherwise() -> None:
    assert task().preemptable
    assert not task(preemptable=False).preemptable
    assert not task(annotations={"volcano.sh/preemptable": "perhaps"}).preemptable


@pytest.mark.parametrize(("name", "index"), [("job-worker-12", 12), ("worker-1", -1), ("a-b-c", -1)])
def test_the_number_at_the_end_of_a_name(name: str, index: int) -> None:
    assert task(name).index == index


@given(st.text("ab-01²٣", max_size=8))
def test_the_number_at_the_end_of_any_name_is_that_after_two_dashed_parts(name: str) -> None:
    found = re.fullmatch(r".+-.+-(\d+)", name)
    assert number_of(name) == (int(found.group(1)) if found else -1)


def test_a_malformed_pod_is_a_task_that_says_why() -> None:
    manifest = pod("p", group="g")
    manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "a lot"
    found = Parser().pod(orjson.dumps(manifest))
    assert found.job == "default/g"
    assert "'a lot' is not a quantity" in found.malformed


def test_a_podgroup() -> None:
    manifest = podgroup(
        "g",
        queue="q",
        min_member=3,
        min_task_member={"ps": 1},
        min_resources={**resources(cpu=2), "count/pods": "3"},
        annotations={"volcano.sh/sla-waiting-time": "1h30m"},
    )
    found = Parser().pod_group(orjson.dumps(manifest))
    assert (found.queue, found.min_member, found.min_task_member) == ("q", 3, {"ps": 1})
    assert found.min_resources == {"cpu": 2000}
    assert found.min_resources_text == {"cpu": "2", "count/pods": "3"}
    assert found.sla_waiting == 5400
    assert found.created == START


def test_a_queue_without_a_state_is_open_and_reclaimable() -> None:
    found = Parser().queue(orjson.dumps({**queue("q", guarantee=resources(cpu=1)), "status": {}}))
    assert found.open
    assert found.reclaimable
    assert found.guarantee == {"cpu": 1000}


def test_what_is_oversubscribed_is_added_to_a_node() -> None:
    manifest = node("n", cpu=2, annotations={"volcano.sh/oversubscription-cpu": "500"})
    assert Parser().node(orjson.dumps(manifest)).allocatable["cpu"] == 2500
