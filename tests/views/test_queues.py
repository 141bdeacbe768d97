"""Who is due what of a cluster, and how amounts are told."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.pictures import node, picture, queue
from volcano.kube.api.manifest import Manifest
from volcano.views.amounts import Amounts, amounts, resource_names, shown
from volcano.views.nodes import cluster_total
from volcano.views.queues import queue_shares

# shares


def deserved(queues: Sequence[Manifest], total: Amounts) -> dict[str, Amounts]:
    """What queues deserve that request everything."""
    return {share.name: share.deserved for share in queue_shares(queues, total)}


def test_only_nodes_that_serve_are_shared() -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    nodes = [node("a", cpu="4"), node("b", ready="False", cpu="4"), node("c", taints=[taint], cpu="4")]
    assert cluster_total(nodes) == {"cpu": 4.0}


def test_what_is_not_given_is_due_by_weight() -> None:
    due = deserved([queue("a", weight=1), queue("b", weight=3)], {"cpu": 16.0})
    assert due == {"a": {"cpu": 4.0}, "b": {"cpu": 12.0}}


def test_what_is_given_stands_and_the_others_share_the_rest() -> None:
    due = deserved(
        [queue("a", weight=9, deserved={"cpu": "10"}), queue("b"), queue("c", weight=2)], {"cpu": 16.0}
    )
    assert due == {"a": {"cpu": 10.0}, "b": {"cpu": 2.0}, "c": {"cpu": 4.0}}


def test_nobody_is_due_more_than_the_capability_or_less_than_the_guarantee() -> None:
    capped, held = (
        queue("capped", capability={"cpu": "2"}),
        queue("held", guarantee={"resource": {"cpu": "9"}}),
    )
    due = deserved([capped, held, queue("other")], {"cpu": 15.0})
    assert due == {"capped": {"cpu": 2.0}, "held": {"cpu": 9.0}, "other": {"cpu": 4.0}}


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(1, 40)), min_size=1, max_size=6))
def test_shares_stay_within_their_bounds_and_use_up_the_pool(rows: list[tuple[int, int, int]]) -> None:
    queues = [
        queue(str(i), weight=weight, capability={"cpu": str(floor + more)}, guarantee={"resource": {"cpu": str(floor)}})
        for i, (weight, floor, more) in enumerate(rows)
    ]  # fmt: skip
    pool = 60.0
    due = [entry["cpu"] for entry in deserved(queues, {"cpu": pool}).values()]
    floors, ceilings = [floor for _, floor, _ in rows], [floor + more for _, floor, more in rows]
    assert all(
        low - 1e-6 <= part <= high + 1e-6 for low, part, high in zip(floors, due, ceilings, strict=True)
    )
    assert sum(due) == pytest.approx(min(max(pool, sum(floors)), sum(ceilings)))


def test_a_childs_due_comes_out_of_its_parents() -> None:
    shares = {share.name: share for share in queue_shares(picture().queues, {"cpu": 16.0})}
    assert shares["research"].deserved == {"cpu": 12.0}
    assert shares["vision"].deserved == {"cpu": 12.0}
    assert shares["vision"].path == ("root", "research", "vision")
    assert shares["default"].deserved == {"cpu": 4.0}


def test_a_circle_is_cut_and_orphans_stand_at_the_top() -> None:
    shares = queue_shares([queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="gone")], {})
    assert [(share.name, share.depth) for share in shares] == [("a", 0), ("b", 1), ("c", 0)]


def test_what_is_no_quantity_is_left_out() -> None:
    assert amounts({"cpu": "2", "memory": "lots"}) == {"cpu": 2.0}
    assert amounts(None) == {}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 2.5, "2.5"), ("cpu", 42.6667, "42.7"), ("cpu", 128.0, "128"), ("cpu", 25_000.0, "25k"),
        ("memory", 80 * 2.0**30, "80Gi"), ("memory", 512 * 2.0**20, "512Mi"), ("memory", 0.0, "0"),
        ("nvidia.com/gpu", 5.0, "5"),
    ],
)  # fmt: skip
def test_amounts_are_short(resource: str, amount: float, text: str) -> None:
    assert shown(resource, amount) == text


def test_devices_come_after_processors_and_memory() -> None:
    assert resource_names({"x.com/b": 1, "a.com/a": 2, "c.com/none": 0}) == [
        "cpu",
        "memory",
        "a.com/a",
        "x.com/b",
    ]
