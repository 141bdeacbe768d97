"""Sub-groups of a job, each in its own domain inside that of the job; all or nothing per sub-group."""

from collections.abc import Mapping

import pytest

from tests.scenario import Result
from tests.scheduler.topology.clusters import (
    LEAF_OF,
    SPINE_OF,
    hypernode,
    leaves,
    partitioned,
    place,
    spines,
    topology,
)

ALL = [f"n{i}" for i in range(8)]
HARD_1, HARD_2, SOFT = topology(tier=1), topology(tier=2), topology("soft")


def parts(result: Result, name: str = "j", size: int = 2) -> dict[int, set[str]]:
    """Leaves by partition, of the pods that were bound."""
    found: dict[int, set[str]] = {}
    for pod_name, node in result.bound().items():
        found.setdefault(int(pod_name.removeprefix(f"{name}-")) // size, set()).add(LEAF_OF[node])
    return found


def test_partitions_have_a_leaf_each_inside_the_domain_of_the_job() -> None:
    busy = {"n0": 3, "n2": 3, "n4": 6, "n5": 6, "n6": 6, "n7": 6}
    result = place(partitioned("j", 2, 2, 3, own=HARD_2, part=HARD_1), used_cpu=busy)
    assert parts(result) == {0: {"s0"}, 1: {"s1"}} or parts(result) == {0: {"s1"}, 1: {"s0"}}
    assert len(result.bound()) == 4


def test_a_job_starts_with_all_its_partitions_or_not_at_all() -> None:
    half = dict.fromkeys(ALL, 4)
    result = place(partitioned("j", 2, 2, 4, own=HARD_2, part=HARD_1), used_cpu=half)
    assert len(result.bound()) == 4
    assert len(leaves(result)) == 2
    assert len(spines(result)) == 1
    result = place(
        partitioned("j", 2, 2, 4, own=HARD_2, part=HARD_1),
        used_cpu={"n0": 4, "n1": 4, **dict.fromkeys(ALL[2:], 6)},
    )
    assert not result.bound()


def test_the_sub_group_without_a_domain_is_named() -> None:
    result = place(partitioned("j", 2, 2, 8, part=HARD_1), used_cpu={"n0": 8, "n2": 8, "n4": 8, "n6": 8})
    assert not result.bound()
    expected = "sub-group worker-0: 0/4 hypernodes of tier ≤ 1 have room: s0 has room for 1 of 2 pods; cpu short by 8"
    assert expected in result.condition("j")


def test_a_preference_of_partitions_stays_inside_the_limit_of_the_job() -> None:
    busy = {"n0": 3, "n1": 3, "n2": 3, "n3": 5, "n4": 2, "n6": 2}
    result = place(partitioned("j", 2, 2, 4, own=HARD_2, part=SOFT), used_cpu=busy)
    assert len(result.bound()) == 4
    assert spines(result) == {"s5"}


def test_without_a_limit_of_the_job_partitions_may_be_under_different_spines() -> None:
    busy = {"n2": 8, "n3": 8, "n6": 8, "n7": 8}
    result = place(partitioned("j", 2, 2, 6, part=HARD_1), used_cpu=busy)
    assert sorted(leaf for found in parts(result).values() for leaf in found) == ["s0", "s2"]


def test_a_soft_job_with_hard_partitions_is_as_low_as_possible() -> None:
    result = place(partitioned("j", 2, 2, 8, own=SOFT, part=HARD_1), used_cpu={"n0": 8})
    assert all(len(found) == 1 for found in parts(result).values())
    assert spines(result) == {"s5"}


def test_soft_partitions_without_a_limit_of_the_job_are_a_preference() -> None:
    result = place(partitioned("j", 2, 2, 8, part=SOFT), used_cpu={"n0": 8, "n2": 8, "n4": 8, "n6": 8})
    assert len(result.bound()) == 4


def test_partitions_without_topology_of_their_own_share_the_domain_of_the_job() -> None:
    result = place(partitioned("j", 2, 2, 4, own=HARD_1))
    assert len(result.bound()) == 4
    assert len(leaves(result)) == 1


def only_free(*free: str) -> Mapping[str, int]:
    return {name: 8 for name in ALL if LEAF_OF[name] not in free}


def test_enough_partitions_start_the_job_and_further_ones_follow_as_a_whole() -> None:
    wanted = partitioned("j", 4, 2, 8, part=HARD_1, min_groups=2, min_available=4)
    result = place(wanted, used_cpu=only_free("s0", "s1"))
    assert len(result.bound()) == 4
    assert sorted(leaf for found in parts(result).values() for leaf in found) == ["s0", "s1"]
    placed = {int(name.removeprefix("j-")): node for name, node in result.bound().items()}
    running = partitioned(
        "j", 4, 2, 8, part=HARD_1, min_groups=2, min_available=4, on=placed, phase="Running"
    )
    result = place(running, used_cpu={"n6": 8, "n7": 8})
    assert len(result.bound()) == 2
    assert leaves(result) == {"s2"}


def test_half_a_partition_never_starts() -> None:
    wanted = partitioned("j", 4, 2, 8, part=HARD_1, min_groups=2, min_available=4)
    result = place(wanted, used_cpu={**only_free("s0", "s1", "s2"), "n4": 8})
    assert all(len([n for n in result.bound() if int(n[2:]) // 2 == part]) == 2 for part in parts(result))
    assert len(result.bound()) == 4


def test_too_few_partitions_start_nothing() -> None:
    wanted = partitioned("j", 4, 2, 8, part=HARD_1, min_groups=3, min_available=4)
    assert not place(wanted, used_cpu=only_free("s0", "s1")).bound()


def test_a_job_with_too_few_partitions_is_invalid() -> None:
    wanted = partitioned("j", 1, 2, 1, part=HARD_1, min_groups=2, min_available=2)
    result = place(wanted)
    assert not result.bound()
    assert "Not enough valid subGroups" in result.condition("j")


def test_a_restarted_partition_stays_in_the_domain_of_its_job() -> None:
    running = partitioned(
        "j", 2, 2, 8, own=HARD_2, part=HARD_1, on={0: "n0", 1: "n1"}, phase="Running", min_available=2
    )
    result = place(running)
    assert parts(result) == {1: {"s1"}}
    result = place(running, used_cpu={"n2": 8})
    assert not result.bound()


def test_a_replacement_in_a_partition_goes_to_its_leaf() -> None:
    running = partitioned(
        "j", 2, 2, 4, own=HARD_2, part=HARD_1, on={0: "n0", 2: "n2", 3: "n3"}, phase="Running"
    )
    result = place(running, used_cpu={"n0": 4})
    assert result.bound() == {"j-1": "n1"}
    result = place(running, used_cpu={"n0": 4, "n1": 6})
    assert not result.bound()
    assert "job holds s0" in result.condition("j")


def test_a_small_sub_group_does_not_take_the_only_domain_of_a_large_one() -> None:
    """Partition 0 fits in s0 and s1, partition 1 only in s1: whichever is tried first, both start."""
    wanted = partitioned("j", 2, 2, 2, part=HARD_1)
    for member in wanted.pods[2:]:
        member["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    busy = {"n0": 6, "n1": 6, "n2": 4, "n3": 4, **dict.fromkeys(ALL[4:], 8)}
    assert parts(place(wanted, used_cpu=busy)) == {0: {"s0"}, 1: {"s1"}}
    busy = {"n0": 5, "n1": 5, "n2": 4, "n3": 4, **dict.fromkeys(ALL[4:], 8)}
    reverse = ({"n0": 4, "n1": 4, "n2": 5, "n3": 5}, {"n0": 4, "n1": 4, "n2": 6, "n3": 6})
    for other in reverse:
        found = place(wanted, used_cpu={**busy, **other})
        assert parts(found) == {0: {"s1"}, 1: {"s0"}}


def test_a_domain_without_lower_ones_takes_no_sub_group_that_asks_for_one() -> None:
    """The rack has no room; the row has, but no racks inside."""
    found = [hypernode("rack", 1, ("n0", "n1")), hypernode("row", 2, ALL[2:])]
    wanted = partitioned("j", 2, 2, 8, own=HARD_2, part=HARD_1)
    result = place(wanted, hypernodes=found)
    assert not result.bound()
    assert not result.outcome.faults
    assert "there is no hypernode of tier ≤ 1 in the domain of the job" in result.condition("j")


@pytest.mark.parametrize(
    ("own", "part"), [(HARD_2, HARD_1), (SOFT, HARD_1), (None, HARD_1), (HARD_2, SOFT), (HARD_2, None), (SOFT, SOFT)]
)  # fmt: skip
def test_every_combination_starts_in_an_empty_cluster(
    own: dict[str, object], part: dict[str, object]
) -> None:
    result = place(partitioned("j", 2, 2, 8, own=own, part=part))
    assert len(result.bound()) == 4
    if own == HARD_2:
        assert len(spines(result)) == 1
    if part == HARD_1:
        assert all(len(found) == 1 for found in parts(result).values())
    assert {SPINE_OF[leaf] for leaf in leaves(result)} <= {"s4", "s5"}
