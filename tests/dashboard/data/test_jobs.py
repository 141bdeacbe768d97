"""The list of jobs: rows, filters and groups."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.data.objects import group, job, objects, pod, queue
from volcano.dashboard.data.jobs import GROUPS, JobFilter, JobItem, choices, grouped, job_items, keys_for
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, QUEUE
from volcano.services.jobs import DELETE, RESUME, SUSPEND

WAITING = job("waits", queue="vision", phase="Pending", user="alice")
JOBS = [
    WAITING,
    job("runs", queue="speech", user="bob"),
    job("ended", namespace="team", queue="production", phase="Completed"),
    job("stopped", namespace="team", queue="production", phase="Aborted", user="bob"),
]
GROUPS_OF_JOBS = [
    group("waits-uid", owner=WAITING, code="QueueShare", message="queue vision is at its share"),
    group("notebook", code="NodeTooSmall", message="too big", user="carol"),
]
QUEUES = [queue("root"), queue("research", "root"), queue("vision", "research"), queue("speech", "research")]
CLUSTER = objects({JOB: JOBS, POD_GROUP: GROUPS_OF_JOBS, QUEUE: [*QUEUES, queue("production", "root")]})


def items() -> Sequence[JobItem]:
    return CLUSTER.get(job_items)


def names(**wanted: str) -> list[str]:
    return [item.key.name for item in JobFilter.of_query(wanted).chosen(items())]


def test_a_waiting_job_has_the_code_of_its_podgroup_and_the_user_of_its_annotation() -> None:
    found = {item.key.name: item for item in items()}
    assert (found["waits"].code, found["waits"].user) == ("QueueShare", "alice")
    assert (found["runs"].code, found["ended"].user) == ("", "")


def test_a_podgroup_without_a_job_is_listed() -> None:
    found = next(item for item in items() if item.key.name == "notebook")
    assert found.row.grouped_only
    assert (found.code, found.user) == ("NodeTooSmall", "carol")


def test_a_podgroup_with_the_name_of_a_job_has_another_identity() -> None:
    found = objects({JOB: [WAITING], POD_GROUP: [group("waits")]}).get(job_items)
    assert len({item.identity for item in found}) == 2


def test_a_podgroup_without_a_job_names_its_owner_and_counts_its_pods() -> None:
    web = group("podgroup-1")
    web["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "web-5d8f", "uid": "u", "controller": True}
    ]
    pods = [pod("web", "x", number, group="podgroup-1") for number in range(2)]
    (found,) = objects({POD_GROUP: [web], POD: pods}).get(job_items)
    assert found.owner == "ReplicaSet web-5d8f"
    assert (found.row.ready, found.row.wanted) == (2, 2)
    assert JobFilter(text="web-5d").chosen([found]) == [found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, {"waits", "runs", "ended", "stopped", "notebook"}, id="everything"),
        pytest.param({"queue": "vision"}, {"waits"}, id="queue"),
        pytest.param({"queue": "research"}, {"waits", "runs"}, id="queue-with-children"),
        pytest.param({"user": "bob"}, {"runs", "stopped"}, id="user"),
        pytest.param({"user": "(no user)"}, {"ended"}, id="no-user"),
        pytest.param({"namespace": "team"}, {"ended", "stopped"}, id="namespace"),
        pytest.param({"phase": "Pending"}, {"waits", "notebook"}, id="phase"),
        pytest.param({"reason": "QueueShare"}, {"waits"}, id="reason"),
        pytest.param({"text": "AT ITS share"}, {"waits"}, id="text-of-the-message"),
        pytest.param({"text": "spee"}, {"runs"}, id="text-of-the-queue"),
        pytest.param({"text": "s", "user": "bob", "phase": "Aborted"}, {"stopped"}, id="several"),
        pytest.param({"queue": "unknown"}, set(), id="nothing"),
    ],
)
def test_a_filter_shows_the_jobs_that_match_all_of_it(query: dict[str, str], expected: set[str]) -> None:
    assert set(names(**query)) == expected


@given(
    st.builds(
        JobFilter, *(st.text(st.characters(exclude_categories=("Z", "C")), max_size=8) for _ in range(6))
    )
)
def test_a_filter_survives_the_address(wanted: JobFilter) -> None:
    assert JobFilter.of_query(wanted.query()) == wanted


@pytest.mark.parametrize("by", GROUPS)
def test_groups_hold_every_job_once_and_the_filter_of_a_group_shows_its_jobs(by: str) -> None:
    groups = grouped(items(), by)
    assert sum(each.jobs for each in groups) == len(items())
    assert [each.jobs for each in groups] == sorted((each.jobs for each in groups), reverse=True)
    for each in groups:
        assert len(names(**{by: each.name})) == each.jobs
        assert sum(count for _, count in each.phases) == each.jobs


def test_filters_offer_what_jobs_have_and_all_queues() -> None:
    offered = choices(CLUSTER)
    assert offered["user"] == ("(no user)", "alice", "bob", "carol")
    assert offered["queue"] == ("default", "production", "research", "root", "speech", "vision")
    assert offered["reason"] == ("(no reason)", "NodeTooSmall", "QueueShare")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (SUSPEND, {"waits", "runs"}),
        (RESUME, {"stopped"}),
        (DELETE, {"waits", "runs", "ended", "stopped"}),
    ],
)
def test_an_action_is_offered_for_the_jobs_that_it_applies_to(action: str, expected: set[str]) -> None:
    everything = [item.identity for item in items()]
    assert {key.name for key in keys_for(action, items(), everything)} == expected
    assert keys_for(action, items(), []) == []
