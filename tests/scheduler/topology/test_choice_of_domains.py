"""Domains are chosen so that whole ones stay free, and wide gangs fill few parts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import node, pod
from tests.scheduler.topology.clusters import LEAF_OF, gang, hypernode, leaves, place, topology

HARD_1, SOFT = topology(tier=1), topology("soft")


def test_a_rack_with_parts_of_nodes_free_is_used_before_whole_nodes() -> None:
    # s0 has as much in use as s1, but on one node only.
    result = place(gang("j", 2, 4, HARD_1), used_cpu={"n0": 8, "n2": 4, "n3": 4})
    assert leaves(result) == {"s1"}


def test_whole_nodes_are_taken_where_fewest_are_left() -> None:
    racks = [
        hypernode("a", 1, ["n0", "n1", "n2", "n3"]),
        hypernode("b", 1, ["n4", "n5", "n6", "n7"]),
    ]
    # More of a is in use, but b has fewer whole nodes.
    occupied = {"n0": 7, "n1": 7, "n4": 4, "n5": 2, "n6": 1}
    result = place(gang("j", 1, 8, HARD_1), used_cpu=occupied, hypernodes=racks)
    assert result.bound() == {"j-worker-0": "n7"}


def test_devices_decide_whether_a_node_is_in_use() -> None:
    machines = [node(f"n{i}", cpu=8, memory="64Gi", gpu=8) for i in range(8)]
    daemons = [pod(f"d{i}", cpu=1, node=f"n{i}", scheduler="other") for i in range(8)]
    holder = pod("holder", cpu=1, gpu=4, node="n5", scheduler="other")
    result = place(gang("j", 1, 1, HARD_1, gpu=4), nodes=machines, pods=[*daemons, holder])
    assert result.bound() == {"j-worker-0": "n5"}


def test_a_gang_wider_than_a_leaf_fills_few_leaves() -> None:
    result = place(gang("j", 4, 4, SOFT))
    assert len(leaves(result)) == 1
    result = place(gang("j", 6, 4, SOFT), used_cpu={"n0": 4, "n2": 4, "n4": 4, "n6": 4})
    assert len(leaves(result)) == 2


def test_the_part_that_takes_the_rest_and_suits_best_is_filled_last() -> None:
    # Of six pods, four fill the free leaf s0; the other two fit in s1, which is in use.
    result = place(
        gang("j", 6, 4, SOFT), used_cpu={"n2": 4, "n3": 4, **dict.fromkeys(["n4", "n5", "n6", "n7"], 6)}
    )
    assert sorted(LEAF_OF[name] for name in result.bound().values()) == ["s0"] * 4 + ["s1"] * 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=8, max_size=8),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_a_soft_gang_starts_whenever_its_pods_fit(occupied: list[int], pods: int, cpu: int) -> None:
    amounts = {f"n{i}": amount for i, amount in enumerate(occupied)}
    result = place(gang("j", pods, cpu, SOFT), used_cpu=amounts)
    room = sum((8 - amount) // cpu for amount in occupied)
    assert len(result.bound()) == (pods if pods <= room else 0)
    counts = np.bincount([int(name[1:]) for name in result.bound().values()], minlength=8)
    assert all(occupied[i] + cpu * counts[i] <= 8 for i in range(8))
