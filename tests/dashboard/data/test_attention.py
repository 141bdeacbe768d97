"""What needs attention, and what does not."""

from dataclasses import replace
from typing import Any

import pytest

from tests.dashboard.objects import objects_of
from tests.views.pictures import NOW, job, node, picture, pod, queue
from volcano.base.clock import timestamp
from volcano.dashboard.data.attention import MOST_SUBJECTS, Item, Severity, Topic, attention
from volcano.dashboard.rights import Scopes
from volcano.kube.api.kinds import JOB
from volcano.kube.devices import vgpu
from volcano.views.board import Picture

EMPTY = Picture([], [], [], [], [], NOW)


def test_nothing_needs_attention_in_a_healthy_cluster() -> None:
    healthy = replace(picture(), jobs=[job("train", "vision")], groups=[])
    assert attention(objects_of(healthy)) == ()


# waiting jobs


def test_a_job_that_waits_long_is_shown_with_its_reason() -> None:
    found = only(waiting("big", "InsufficientResources", since=3600, message="0/2 nodes are available"))
    assert (found.topic, found.severity) == (Topic.WAITING, Severity.WARNING)
    assert found.title == "1 job waits: InsufficientResources"
    assert found.text.startswith("The nodes that could be used")
    assert [(each.name, each.address) for each in found.subjects] == [("team/big", "/jobs/team/big")]
    assert found.subjects[0].since == NOW - 3600
    assert found.subjects[0].text == "0/2 nodes are available"
    assert found.address == "/jobs?reason=InsufficientResources"


@pytest.mark.parametrize(
    ("code", "since", "expected"),
    [
        ("InsufficientResources", 60, []),
        ("InsufficientResources", 601, [Severity.WARNING]),
        ("NodeTooSmall", 60, [Severity.ERROR]),
        ("NodeTooSmall", 5, []),
        ("QueueClosed", 60, [Severity.ERROR]),
        ("SomethingElse", 60, []),
        ("SomethingElse", 601, [Severity.WARNING]),
    ],
)
def test_a_job_that_cannot_start_without_a_change_needs_attention_sooner(
    code: str, since: float, expected: list[Severity]
) -> None:
    assert [item.severity for item in attention(waiting("big", code, since=since))] == expected


def test_a_job_that_runs_again_is_not_shown() -> None:
    assert attention(waiting("big", "NodeTooSmall", since=60, phase="Running")) == ()


def test_jobs_with_the_same_reason_are_one_item_with_the_oldest_first() -> None:
    names = [f"j{index}" for index in range(9)]
    shown = replace(
        EMPTY,
        jobs=[job(name, phase="Pending") for name in names],
        groups=[group(name, "QueueShare", since=1000 + place) for place, name in enumerate(names)],
    )
    found = only(objects_of(shown))
    assert (found.count, len(found.subjects)) == (9, MOST_SUBJECTS)
    assert found.subjects[0].name == "team/j8"
    assert found.title == "9 jobs wait: QueueShare"


# failing jobs


def test_jobs_that_failed_in_the_last_hour_are_shown() -> None:
    jobs = [ended("new", "Failed", ago=60, message="pod failed"), ended("old", "Failed", ago=7200)]
    found = only(objects_of(replace(EMPTY, jobs=[*jobs, ended("good", "Completed", ago=60)])))
    assert (found.title, found.severity) == ("1 job failed in the last hour", Severity.ERROR)
    assert [(each.name, each.text) for each in found.subjects] == [("team/new", "pod failed")]


def test_pods_whose_containers_do_not_start_are_shown_by_reason() -> None:
    pods = [broken_pod("train", index, "ImagePullBackOff") for index in range(3)]
    found = only(objects_of(replace(EMPTY, jobs=[job("train")], pods=[*pods, pod("train", 4)])))
    assert found.title == "3 pods do not start: ImagePullBackOff"
    assert [(each.name, each.address) for each in found.subjects] == [("team/train", "/jobs/team/train")]


def test_a_container_that_is_created_is_no_problem() -> None:
    assert attention(objects_of(replace(EMPTY, pods=[broken_pod("train", 0, "ContainerCreating")]))) == ()


def test_jobs_that_were_restarted_are_shown() -> None:
    again = job("train")
    again["status"]["retryCount"] = 2
    found = only(objects_of(replace(EMPTY, jobs=[again])))
    assert (found.title, found.subjects[0].text) == ("1 job was restarted", "restarted 2 times")


# nodes


def test_nodes_that_are_not_ready_are_errors_and_cordoned_ones_notes() -> None:
    cordoned = node("n3")
    cordoned["spec"]["unschedulable"] = True
    found = attention(objects_of(replace(EMPTY, nodes=[node("n1", ready="Unknown"), node("n2"), cordoned])))
    assert [(item.severity, item.title, item.subjects[0].name) for item in found] == [
        (Severity.ERROR, "1 node is not ready", "n1"),
        (Severity.NOTE, "1 node is cordoned", "n3"),
    ]


def test_other_conditions_of_nodes_are_warnings() -> None:
    full = node("n1")
    full["status"]["conditions"] += [
        {"type": "DiskPressure", "status": "True", "message": "disk is full"},
        {"type": "MemoryPressure", "status": "False"},
    ]
    found = only(objects_of(replace(EMPTY, nodes=[full])))
    assert (found.title, found.severity) == ("1 node has the condition DiskPressure", Severity.WARNING)
    assert found.subjects[0].text == "disk is full"


def test_devices_that_a_node_has_and_does_not_offer_are_unhealthy() -> None:
    broken = node("n1")
    broken["status"]["allocatable"] = {"cpu": "7900m", "memory": "15Gi", "nvidia.com/gpu": "6"}
    broken["status"]["capacity"] = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "8", "pods": "110"}
    found = only(objects_of(replace(EMPTY, nodes=[broken])))
    assert (found.title, found.severity, found.subjects[0].text) == (
        "2 devices are unhealthy",
        Severity.ERROR,
        "2 gpu",
    )


def test_shared_cards_that_are_registered_as_unhealthy_are_shown() -> None:
    shared = node("n1")
    cards = [vgpu.Card("a", 4, 1000, "NVIDIA-A", healthy=False), vgpu.Card("b", 4, 1000, "NVIDIA-A")]
    shared["metadata"]["annotations"] = {vgpu.REGISTER: vgpu.format_register(cards)}
    assert only(objects_of(replace(EMPTY, nodes=[shared]))).subjects[0].text == "1 shared gpu"
    shared["metadata"]["annotations"] = {
        vgpu.REGISTER: "not a registration",
        "volcano.sh/gpu-unhealthy-ids": "0,3",
    }
    assert only(objects_of(replace(EMPTY, nodes=[shared]))).subjects[0].text == "2 shared gpu"


# queues


def test_a_queue_far_below_its_share_is_shown_with_those_far_above() -> None:
    found = {item.title: item for item in attention(queues_apart()) if item.topic is Topic.QUEUES}
    below = found["1 queue holds less than half of what it deserves"]
    assert below.subjects[0].name == "poor"
    assert below.subjects[0].text == "holds 12% of what it deserves; 1 job waits"
    assert below.subjects[0].address == "/queues/poor"
    assert [each.name for each in found["1 queue holds much more than deserved meanwhile"].subjects] == [
        "rich"
    ]


@pytest.mark.parametrize(("code", "since"), [("NodeTooSmall", 100), ("QueueShare", 5)])
def test_a_queue_is_not_blamed_for_a_job_that_cannot_run_or_just_came(code: str, since: float) -> None:
    assert not [item for item in attention(queues_apart(code, since)) if item.topic is Topic.QUEUES]


# what viewers see


def test_a_viewer_without_rights_sees_no_item() -> None:
    bare = objects_of(EMPTY, scopes=Scopes({}))
    assert attention(bare) == ()


# builders


def only(objects: Any) -> Item:
    (found,) = attention(objects)
    return found


def group(
    name: str, code: str, *, since: float, message: str = "", queue_name: str = "default"
) -> dict[str, Any]:
    owner = {"uid": name, "name": name, "controller": True, "apiVersion": JOB.api_version, "kind": "Job"}
    condition = {
        "type": "Unschedulable", "status": "True", "reason": code, "message": message,
        "lastTransitionTime": timestamp(NOW - since),
    }  # fmt: skip
    return {
        "metadata": {"name": f"{name}-group", "namespace": "team", "ownerReferences": [owner]},
        "spec": {"queue": queue_name},
        "status": {"conditions": [condition]},
    }


def waiting(name: str, code: str, *, since: float, message: str = "", phase: str = "Pending") -> Any:
    return objects_of(
        replace(
            EMPTY, jobs=[job(name, phase=phase)], groups=[group(name, code, since=since, message=message)]
        )
    )


def ended(name: str, phase: str, *, ago: float, message: str = "") -> dict[str, Any]:
    found = job(name, phase=phase)
    found["status"]["state"] |= {"lastTransitionTime": timestamp(NOW - ago), "message": message}
    return found


def broken_pod(of: str, index: int, reason: str) -> dict[str, Any]:
    found = pod(of, index, phase="Pending")
    found["status"]["containerStatuses"] = [{"name": "c", "state": {"waiting": {"reason": reason}}}]
    return found


def queues_apart(code: str = "QueueShare", since: float = 100) -> Any:
    return objects_of(
        replace(
            EMPTY,
            queues=[
                queue("root"),
                queue("poor", allocated={"cpu": "1"}),
                queue("rich", allocated={"cpu": "15"}),
            ],
            nodes=[node("n1", cpu="16")],
            jobs=[job("big", "poor", "Pending"), job("wide", "rich")],
            groups=[group("big", code, since=since, queue_name="poor")],
            pods=[pod("big", 0, cpu="8", node_name="", phase="Pending"), pod("wide", 0, cpu="15")],
        )
    )
