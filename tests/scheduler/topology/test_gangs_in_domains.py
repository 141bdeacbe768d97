"""Gangs that ask for one domain: placed inside one HyperNode of an allowed tier, or not at all."""

import pytest

from tests.builders import job, node, pod, queue, resources
from tests.scenario import schedule
from tests.scheduler.topology.clusters import (
    LEAF_OF,
    filler,
    gang,
    hypernode,
    leaves,
    nodes,
    place,
    spines,
    topology,
    tree,
)

ALL = [f"n{i}" for i in range(8)]
EVERY_SECOND = {"n0": 8, "n2": 8, "n4": 8, "n6": 8}
HARD_1, HARD_2, SOFT = topology(tier=1), topology(tier=2), topology("soft")


def test_a_gang_goes_to_the_fullest_leaf_that_takes_it() -> None:
    result = place(gang("j", 2, 2, HARD_1), used_cpu={"n2": 1, "n3": 1})
    assert leaves(result) == {"s1"}
    assert len(result.bound()) == 2
    assert leaves(place(gang("j", 2, 4, HARD_1), used_cpu={"n2": 4, "n3": 4, "n4": 1})) == {"s1"}


def test_a_leaf_without_room_is_left_out() -> None:
    result = place(gang("j", 2, 4, HARD_1), used_cpu={"n2": 6, "n3": 6, "n4": 1})
    assert leaves(result) == {"s2"}


def test_without_a_leaf_that_takes_it_a_gang_waits_until_one_does() -> None:
    full = dict.fromkeys(ALL, 6)
    result = place(gang("j", 2, 4, HARD_1), used_cpu=full)
    assert not result.bound()
    result = place(gang("j", 2, 4, HARD_1), used_cpu={**full, "n4": 0, "n5": 0})
    assert len(result.bound()) == 2
    assert leaves(result) == {"s2"}


def test_a_gang_climbs_to_the_lowest_tier_that_takes_it_and_never_crosses_two_domains() -> None:
    result = place(gang("j", 2, 8, HARD_2), used_cpu=EVERY_SECOND)
    assert set(result.bound().values()) in ({"n1", "n3"}, {"n5", "n7"})
    result = place(gang("j", 2, 6, HARD_2), used_cpu={**EVERY_SECOND, "n5": 1})
    assert set(result.bound().values()) == {"n5", "n7"}


def test_a_gang_never_climbs_above_its_limit() -> None:
    result = place(gang("j", 2, 8, HARD_1), used_cpu=EVERY_SECOND)
    assert not result.bound()


def test_a_preference_means_the_lowest_tier_that_takes_the_gang() -> None:
    assert len(spines(place(gang("j", 2, 8, SOFT), used_cpu=EVERY_SECOND))) == 1
    result = place(gang("j", 2, 8, SOFT), used_cpu={name: 8 for name in ALL if name not in ("n1", "n7")})
    assert set(result.bound().values()) == {"n1", "n7"}


def test_a_limit_above_all_tiers_allows_the_whole_cluster() -> None:
    apart = [*nodes(), node("n8", cpu=8)]
    result = place(
        gang("j", 2, 8, topology(tier=4)), used_cpu={name: 8 for name in ALL if name != "n1"}, nodes=apart
    )
    assert set(result.bound().values()) == {"n1", "n8"}


def test_hard_without_a_limit_is_a_preference_and_a_warning() -> None:
    result = place(gang("j", 2, 8, topology()), used_cpu=EVERY_SECOND)
    assert len(spines(result)) == 1
    running = place(gang("j", 2, 8, topology(), on=("n1", "n3"), phase="Running"), used_cpu=EVERY_SECOND)
    assert any("without highestTierAllowed or highestTierName" in text for text in running.events("j"))


def test_the_warning_is_not_repeated_once_the_podgroup_has_a_condition() -> None:
    known = [{"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}]
    waiting = gang("j", 2, 8, topology(), min_available=1, on=("n0",), group={"conditions": known})
    assert not place(waiting, used_cpu={"n0": 0}).events("j")


def test_a_tier_name_stands_for_its_tier() -> None:
    named = tree(leaf="rack", spine="row")
    assert len(leaves(place(gang("j", 2, 8, topology(name="rack")), hypernodes=named))) == 1
    waits = place(gang("j", 2, 8, topology(name="rack")), hypernodes=named, used_cpu=EVERY_SECOND)
    assert not waits.bound()
    assert (
        len(spines(place(gang("j", 2, 8, topology(name="row")), hypernodes=named, used_cpu=EVERY_SECOND)))
        == 1
    )


def test_an_unknown_tier_name_is_named_together_with_the_known_ones() -> None:
    result = place(gang("j", 2, 2, topology(name="zone")), hypernodes=tree(leaf="rack", spine="row"))
    assert not result.bound()
    assert '"zone"' in result.condition("j")
    assert "known tier names: rack, row" in result.condition("j")
    assert "known tier names: rack, row" in result.said("j-worker-0")


def test_without_any_hypernode_a_hard_gang_waits_and_says_why_and_a_soft_one_runs() -> None:
    result = place(gang("j", 2, 2, HARD_1), gang("k", 2, 2, SOFT), hypernodes=[])
    assert set(result.bound()) == {"k-worker-0", "k-worker-1"}
    assert "no HyperNode exists" in result.condition("j")
    assert "no HyperNode exists" in result.said("j-worker-0")


def test_a_limit_below_all_tiers_says_so() -> None:
    result = place(gang("j", 2, 2, topology(tier=0)))
    assert "the lowest tier of a HyperNode is 1" in result.condition("j")


def test_the_limit_holds_without_any_plugin_for_topology() -> None:
    result = place(gang("j", 2, 6, HARD_1), plugins=("gang",))
    assert len(leaves(result)) == 1


def test_of_equal_domains_the_first_by_name_is_used() -> None:
    for seed in range(5):
        assert leaves(place(gang("j", 2, 8, HARD_1), seed=seed)) == {"s0"}


def test_the_lowest_domain_of_some_nodes_may_be_of_a_higher_tier() -> None:
    found = [hypernode("s0", 1, ("n0", "n1")), hypernode("wide", 2, ("n2", "n3"))]
    result = place(gang("j", 2, 8, HARD_2), hypernodes=found, used_cpu={"n0": 8})
    assert set(result.bound().values()) == {"n2", "n3"}


def test_an_elastic_gang_starts_with_its_minimum_and_fills_its_domain() -> None:
    wide = [hypernode("a", 1, ALL[:4]), hypernode("b", 1, ALL[4:])]
    result = place(gang("j", 8, 8, HARD_1, min_available=4), hypernodes=wide)
    assert set(result.bound().values()) in (set(ALL[:4]), set(ALL[4:]))
    assert len(result.bound()) == 4
    waiting = [f"j-worker-{i}" for i in range(8) if f"j-worker-{i}" not in result.bound()]
    assert all("job holds" in result.said(name) for name in waiting)


def test_an_elastic_gang_prefers_the_domain_that_takes_all_of_it() -> None:
    wide = [hypernode("a", 1, ALL[:4]), hypernode("b", 1, ALL[4:])]
    result = place(gang("j", 4, 8, HARD_1, min_available=2), hypernodes=wide, used_cpu={"n0": 8})
    assert set(result.bound().values()) == set(ALL[4:])


def test_an_elastic_gang_beyond_its_minimum_does_not_take_more_than_its_turn() -> None:
    """While other jobs wait, one task is placed per turn, inside the held domain."""
    wide = [hypernode("a", 1, ALL[:4]), hypernode("b", 1, ALL[4:])]
    result = place(
        gang("j", 6, 8, HARD_1, min_available=2), gang("k", 6, 8, HARD_1, min_available=2), hypernodes=wide
    )
    for name in "jk":
        placed = {node for pod_name, node in result.bound().items() if pod_name.startswith(name)}
        assert len(placed) == 4
        assert placed in (set(ALL[:4]), set(ALL[4:]))


def test_an_elastic_preference_grows_beyond_its_first_domain() -> None:
    result = place(gang("j", 6, 8, SOFT, min_available=2))
    assert len(result.bound()) == 6


@pytest.mark.parametrize("mode", ["hard", "Hard", "soft"])
def test_plain_pods_ask_by_annotations_through_their_podgroup(mode: str) -> None:
    """The podgroup controller writes networkTopology from the annotations of plain pods."""
    result = place(gang("j", 2, 8, topology(mode, 1)))
    assert len(leaves(result)) == 1


def test_a_queue_limit_is_reported_as_such() -> None:
    small = queue("small", capability=resources(cpu=24))
    result = place(
        gang("j", 4, 8, HARD_2, queue="small"),
        queues=[queue("default"), small],
        plugins=("gang", "predicates", "proportion"),
    )
    assert not result.bound()
    assert "queue small" in result.condition("j")


def test_best_effort_pods_stay_in_the_domain_of_their_job() -> None:
    members = [pod(f"be-{i}", cpu=None, group="j") for i in range(3)]
    running = gang("j", 2, 4, HARD_1, on=("n2", "n3"), min_available=2)
    result = place(running, pods=members)
    assert len(result.bound()) == 3
    assert leaves(result) == {"s1"}


def test_a_gang_of_best_effort_pods_stays_in_one_domain() -> None:
    result = place(gang("j", 6, None, HARD_1))
    assert len(result.bound()) == 6
    assert len(leaves(result)) == 1


def test_a_gang_with_best_effort_members_starts_as_a_whole_in_one_domain() -> None:
    members = [pod(f"be-{i}", cpu=None, group="j") for i in range(2)]
    found = gang("j", 2, 8, HARD_1, min_available=4)
    result = place(found, pods=members, used_cpu={"n0": 1})
    assert len(result.bound()) == 4
    assert len(leaves(result)) == 1
    assert not place(found, pods=members, used_cpu=dict.fromkeys(ALL, 1)).bound()


def test_a_gang_may_wait_for_resources_being_released_inside_a_domain() -> None:
    leaving = [pod(f"old-{i}", cpu=8, node=name, deleting=True) for i, name in enumerate(("n2", "n3"))]
    busy = {name: 8 for name in ALL if name not in ("n2", "n3")}
    result = place(gang("j", 2, 8, HARD_1), pods=leaving, used_cpu=busy)
    assert not result.bound()
    assert "can possibly be assigned to" in result.said("j-worker-0")


def test_idle_resources_of_any_allowed_domain_go_before_those_being_released() -> None:
    leaving = [pod("old", cpu=8, node="n2", deleting=True)]
    busy = {name: 8 for name in ALL if name not in ("n2", "n3", "n5", "n7")}
    result = place(gang("j", 2, 8, HARD_2), pods=leaving, used_cpu=busy)
    assert set(result.bound().values()) == {"n5", "n7"}


def test_nominated_nodes_inside_the_domain_are_used_first() -> None:
    found = gang("j", 2, 8, HARD_1)
    for member, name in zip(found.pods, ("n6", "n7"), strict=True):
        member["status"]["nominatedNodeName"] = name
    assert leaves(place(found)) == {"s3"}


def test_jobs_without_topology_are_placed_as_before() -> None:
    plain = schedule(nodes=nodes(), jobs=[job("j", 3, cpu=8)], plugins=("gang", "predicates"))
    with_tree = place(job("j", 3, cpu=8), plugins=("gang", "predicates"))
    assert plain.bound() == with_tree.bound()


def test_roles_with_minimums_are_all_in_one_domain() -> None:
    master = [pod("j-master", cpu=4, group="j", role="master")]
    workers = [pod(f"j-worker-{i}", cpu=6, group="j", role="worker") for i in range(2)]
    found = gang("j", 0, 1, HARD_1, min_available=2, group={"min_task_member": {"master": 1, "worker": 1}})
    result = place(
        found, pods=[*master, *workers], used_cpu={"n0": 4, "n1": 3, "n2": 5, "n3": 1, "n4": 8, "n6": 8}
    )
    # Only s0 and s1 have two nodes with room, and only s1 takes a worker and the master.
    assert {LEAF_OF[name] for name in result.bound().values()} <= {"s0", "s1", "s2", "s3"}
    assert len(leaves(result)) <= 1


def test_a_filled_node_counts_for_every_domain_it_is_in() -> None:
    overlapping = [hypernode("a", 1, ("n0", "n1")), hypernode("b", 1, ("n1", "n2"))]
    result = place(gang("j", 2, 8, HARD_1), hypernodes=overlapping, pods=filler("n0", 8))
    assert set(result.bound().values()) == {"n1", "n2"}


def test_a_queue_limit_met_before_does_not_end_the_search_for_best_effort_pods() -> None:
    """allocate finds the queue full; backfill then tries two domains, since the port is in use in the first."""
    port = {
        "containers": [{"name": "main", "image": "busybox", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    }
    running = gang("j", 2, 8, SOFT, on=("n0",), queue="small", min_available=1, phase="Running")
    in_use = [pod(f"port-{i}", node=f"n{i}", spec=port, scheduler="other") for i in range(2)]
    result = place(
        running,
        pods=[*in_use, pod("be", group="j", spec=port)],
        queues=[queue("default"), queue("small", capability=resources(cpu=8))],
        plugins=("gang", "predicates", "proportion"),
    )
    assert leaves(result) == {"s1"}
    assert list(result.bound()) == ["be"]
