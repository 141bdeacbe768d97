"""Buckets of tasks by affinity and anti-affinity."""

from collections import Counter

import numpy as np
import pytest

from volcano.scheduler.plugins.task_topology.buckets import (
    BucketTask,
    TopologyRules,
    construct_buckets,
    parse_rules,
)

ROLES = {"ps", "worker", "chief"}


def rules(affinity: str = "", anti: str = "", order: str = "") -> TopologyRules:
    parsed = parse_rules(affinity, anti, order, ROLES)
    assert parsed is not None
    return parsed


def tasks_named(*names: str, on: dict[str, str] | None = None) -> list[BucketTask]:
    return [
        BucketTask(name, name, name.split("-")[0], (on or {}).get(name, ""), np.ones(3)) for name in names
    ]


def test_each_parameter_server_gets_its_share_of_workers() -> None:
    tasks = tasks_named("ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")
    buckets = construct_buckets(tasks, rules("ps,worker", "ps"), width=3)
    assert [bucket.roles for bucket in buckets] == [Counter(ps=1, worker=2), Counter(ps=1, worker=2)]


def test_placed_tasks_make_a_bucket_per_node() -> None:
    tasks = tasks_named("ps-0", "ps-1", "worker-0", on={"ps-0": "n1", "ps-1": "n2"})
    buckets = construct_buckets(tasks, rules("ps,worker", "ps"), width=3)
    assert [bucket.placed for bucket in buckets] == [Counter(n1=1), Counter(n2=1)]
    assert [len(bucket.pending) for bucket in buckets] == [1, 0]


def test_roles_without_wishes_are_left_alone() -> None:
    buckets = construct_buckets(tasks_named("chief-0", "ps-0", "worker-0"), rules("ps,worker"), width=3)
    assert [sorted(bucket.tasks) for bucket in buckets] == [["ps-0", "worker-0"]]


def test_self_affinity_keeps_a_role_together() -> None:
    assert (
        len(construct_buckets(tasks_named("worker-0", "worker-1", "worker-2"), rules("worker"), width=3)) == 1
    )


@pytest.mark.parametrize(
    ("affinity", "anti", "order"),
    [
        pytest.param("", "", "ps", id="nothing wished"),
        pytest.param("ps,driver", "", "", id="unknown role"),
        pytest.param("ps,ps", "", "", id="repeated role"),
        pytest.param("ps,worker", "", "worker,worker", id="repeated role in the order"),
    ],
)
def test_broken_annotations_mean_no_wishes(affinity: str, anti: str, order: str) -> None:
    assert parse_rules(affinity, anti, order, ROLES) is None


@pytest.mark.parametrize(
    ("role", "kind"),
    [("ps", 4), ("worker", 3), ("chief", 1)],
    ids=["apart from itself", "with others", "apart"],
)
def test_kinds_of_wishes(role: str, kind: int) -> None:
    assert rules("ps,worker", "ps;chief,worker").topology_type(role) == kind


def test_the_users_order_goes_before_the_kind() -> None:
    ordered = rules("ps,worker", "ps", "worker,ps")
    assert sorted(["ps", "worker"], key=ordered.rank) == ["worker", "ps"]


def test_a_growing_request_adds_one_waiting_member_at_a_time() -> None:
    bucket = construct_buckets(tasks_named("worker-0", "worker-1", "worker-2"), rules("worker"), width=3)[0]
    bucket.bind("worker-0", "n1")
    assert bucket.growing_request("worker-2").tolist() == [[1, 1, 1], [2, 2, 2]]
    bucket.unbind("worker-0", "n1")
    assert len(bucket.growing_request("worker-2")) == 3
    assert bucket.size == 3
