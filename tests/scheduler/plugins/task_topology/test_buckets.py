"""Buckets: who wants to be with whom."""

from collections import Counter

import numpy as np
import pytest

from volcano.scheduler.plugins.task_topology.buckets import Member, Wishes, fill, parse_wishes

ROLES = {"ps", "worker", "chief"}


def wishes(affinity: str = "", anti: str = "", order: str = "") -> Wishes:
    parsed = parse_wishes(affinity, anti, order, ROLES)
    assert parsed is not None
    return parsed


def members(*names: str, on: dict[str, str] | None = None) -> list[Member]:
    return [Member(name, name, name.split("-")[0], (on or {}).get(name, ""), np.ones(3)) for name in names]


def test_each_parameter_server_gets_its_share_of_workers() -> None:
    tasks = members("ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")
    buckets = fill(tasks, wishes("ps,worker", "ps"), width=3)
    assert [bucket.roles for bucket in buckets] == [Counter(ps=1, worker=2), Counter(ps=1, worker=2)]


def test_placed_tasks_make_a_bucket_per_node() -> None:
    tasks = members("ps-0", "ps-1", "worker-0", on={"ps-0": "n1", "ps-1": "n2"})
    buckets = fill(tasks, wishes("ps,worker", "ps"), width=3)
    assert [bucket.placed for bucket in buckets] == [Counter(n1=1), Counter(n2=1)]
    assert [len(bucket.waiting) for bucket in buckets] == [1, 0]


def test_roles_without_wishes_are_left_alone() -> None:
    buckets = fill(members("chief-0", "ps-0", "worker-0"), wishes("ps,worker"), width=3)
    assert [sorted(bucket.members) for bucket in buckets] == [["ps-0", "worker-0"]]


def test_self_affinity_keeps_a_role_together() -> None:
    assert len(fill(members("worker-0", "worker-1", "worker-2"), wishes("worker"), width=3)) == 1


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
    assert parse_wishes(affinity, anti, order, ROLES) is None


@pytest.mark.parametrize(
    ("role", "kind"),
    [("ps", 4), ("worker", 3), ("chief", 1)],
    ids=["apart from itself", "with others", "apart"],
)
def test_kinds_of_wishes(role: str, kind: int) -> None:
    assert wishes("ps,worker", "ps;chief,worker").kind(role) == kind


def test_the_users_order_goes_before_the_kind() -> None:
    ordered = wishes("ps,worker", "ps", "worker,ps")
    assert sorted(["ps", "worker"], key=ordered.rank) == ["worker", "ps"]


def test_a_growing_request_adds_one_waiting_member_at_a_time() -> None:
    bucket = fill(members("worker-0", "worker-1", "worker-2"), wishes("worker"), width=3)[0]
    bucket.settle("worker-0", "n1")
    assert bucket.growing_request("worker-2").tolist() == [[1, 1, 1], [2, 2, 2]]
    bucket.unsettle("worker-0", "n1")
    assert len(bucket.growing_request("worker-2")) == 3
    assert bucket.size == 3
