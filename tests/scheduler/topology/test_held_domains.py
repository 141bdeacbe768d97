"""Jobs that hold a domain: replacements, a restarted scheduler, a changed tree, and the stored annotations."""

from collections.abc import Mapping

import orjson

from tests.builders import START, job, node
from tests.scenario import Result, cluster_of, config, event
from tests.scheduler.topology.clusters import (
    PLUGINS,
    gang,
    hypernode,
    leaves,
    nodes,
    partitioned,
    place,
    topology,
    tree,
    used,
)
from volcano.kube.api.names import ALLOCATED_HYPERNODE, SUB_GROUP_HYPERNODES
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import SetPodGroup
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.writeback.operations import pod_group_patch

HARD_1, HARD_2, SOFT = topology(tier=1), topology(tier=2), topology("soft")


def written(result: Result, name: str = "j") -> Mapping[str, str]:
    """Annotations set on a PodGroup."""
    found = [d.annotations for d in result.decisions if isinstance(d, SetPodGroup) and d.name == name]
    return next((annotations for annotations in found if annotations), {})


def test_a_replacement_goes_to_the_domain_that_the_job_holds() -> None:
    running = gang("j", 2, 2, HARD_1, on=("n2",), phase="Running")
    result = place(running, used_cpu={"n0": 4})
    assert leaves(result) == {"s1"}


def test_a_replacement_waits_while_its_domain_is_full_and_says_what_would_help() -> None:
    running = gang("j", 2, 8, HARD_1, on=("n2",), phase="Running")
    result = place(running, used_cpu={"n3": 8})
    assert not result.bound()
    said = result.condition("j")
    assert "job holds s1; s1 has room for 0 of 1 pods; cpu short by 8" in said
    assert "RestartJob would move it" in said
    restarted = gang("j", 2, 8, HARD_1)
    assert leaves(place(restarted, used_cpu={"n3": 8})) != {"s1"}


def test_a_replacement_of_a_preference_widens_to_the_parent_and_the_stored_domain_grows() -> None:
    running = gang(
        "j", 2, 8, SOFT, on=("n0",), phase="Running", group={"annotations": {ALLOCATED_HYPERNODE: "s0"}}
    )
    result = place(running, used_cpu={"n1": 8})
    assert leaves(result) == {"s1"}
    assert written(result) == {ALLOCATED_HYPERNODE: "s4"}


def test_a_replacement_within_the_limit_goes_to_its_own_leaf_before_siblings() -> None:
    running = gang("j", 2, 4, HARD_2, on=("n0",), phase="Running")
    result = place(running, used_cpu={"n2": 3, "n3": 3})
    assert leaves(result) == {"s0"}
    result = place(running, used_cpu={"n0": 4, "n1": 8})
    assert leaves(result) == {"s1"}


def test_a_deleted_hypernode_leaves_the_job_above_its_limit() -> None:
    running = gang(
        "j",
        3,
        2,
        HARD_1,
        on=("n2", "n3"),
        phase="Running",
        group={"annotations": {ALLOCATED_HYPERNODE: "s1"}},
    )
    without = [found for found in tree() if found["metadata"]["name"] != "s1"]
    without = [
        hypernode("s4", 2, ("s0",), "HyperNode") if found["metadata"]["name"] == "s4" else found
        for found in without
    ]
    result = place(running, hypernodes=[*without, hypernode("other", 2, ("n2", "n3"))])
    assert not result.bound()
    assert "job holds other of tier 2, above the highest tier 1" in result.condition("j")


def test_the_domain_is_stored_when_it_is_first_known_and_not_again() -> None:
    result = place(gang("j", 2, 8, HARD_1))
    assert written(result) == {ALLOCATED_HYPERNODE: "s0"}
    known = {"annotations": {ALLOCATED_HYPERNODE: "s0"}}
    running = gang("j", 2, 8, HARD_1, on=("n0", "n1"), phase="Running", group=known)
    assert not written(place(running))


def test_the_stored_domain_is_kept_while_it_contains_the_pods() -> None:
    known = {"annotations": {ALLOCATED_HYPERNODE: "s4"}}
    running = gang("j", 2, 8, HARD_2, on=("n0",), phase="Running", group=known)
    assert not written(place(running))


def test_nothing_is_stored_for_a_job_that_waits_or_asks_for_nothing() -> None:
    result = place(gang("j", 2, 9, HARD_1), job("k", 2, cpu=1))
    assert not written(result)
    assert not written(result, "k")


def test_the_domains_of_sub_groups_are_stored_in_one_annotation() -> None:
    result = place(partitioned("j", 2, 2, 8, own=HARD_2, part=HARD_1))
    found = written(result)
    assert found[ALLOCATED_HYPERNODE] == "s4"
    assert orjson.loads(found[SUB_GROUP_HYPERNODES]) == {"worker-0": "s0", "worker-1": "s1"}
    running = partitioned(
        "j", 2, 2, 8, own=HARD_2, part=HARD_1, phase="Running", annotations=found,
        on={0: "n0", 1: "n1", 2: "n2", 3: "n3"},
    )  # fmt: skip
    assert not written(place(running))


def test_annotations_and_status_are_one_patch() -> None:
    patch = pod_group_patch(SetPodGroup("d/j", "d", "j", phase="Running", annotations={"a": "b"}))
    assert patch == {"status": {"phase": "Running"}, "metadata": {"annotations": {"a": "b"}}}
    assert pod_group_patch(SetPodGroup("d/j", "d", "j", annotations={"a": "b"})) == {
        "metadata": {"annotations": {"a": "b"}}
    }


def test_after_a_restart_of_the_scheduler_the_domain_is_recovered_from_the_nodes() -> None:
    """A new scheduler has seen nothing but the objects: the same as a first cycle."""
    running = gang("j", 2, 8, HARD_1, on=("n2",), phase="Running")
    assert leaves(place(running)) == {"s1"}


def test_after_a_restart_the_stored_domain_is_used_where_the_node_of_a_pod_is_gone() -> None:
    known = {"annotations": {ALLOCATED_HYPERNODE: "s1"}}
    running = gang("j", 2, 8, HARD_1, on=("n3",), phase="Running", group=known)
    left = [node(f"n{i}", cpu=8) for i in range(8) if i != 3]
    assert leaves(place(running, nodes=left)) == {"s1"}


def test_a_domain_of_assumed_bindings_is_held_in_the_next_cycle() -> None:
    cluster = cluster_of(nodes=nodes(), others=tree(), jobs=[gang("j", 3, 8, HARD_2, min_available=2)])
    settings = config(PLUGINS)
    first = run_cycle(cluster.snapshot(START, 1), settings)
    cluster.assume(first.decisions)
    second = run_cycle(cluster.snapshot(START, 2), settings)
    snapshot = cluster.snapshot(START, 3)
    held = snapshot.jobs["default/j"].group.annotations[ALLOCATED_HYPERNODE]
    assert held in ("s4", "s5")
    assert not [d for d in second.decisions if isinstance(d, SetPodGroup) and d.annotations]


def test_a_cycle_in_the_tree_stops_only_the_jobs_that_need_the_missing_part() -> None:
    found = tree()
    for hyper in found:
        if hyper["metadata"]["name"] == "s4":
            extra = {"type": "HyperNode", "selector": {"exactMatch": {"name": "s6"}}}
            hyper["spec"]["members"].append(extra)
    assert len(leaves(place(gang("j", 2, 8, HARD_1), hypernodes=found))) == 1
    waits = place(gang("j", 2, 9, HARD_1), hypernodes=found)
    assert "HyperNodes that are not ready: s4 (Cycle)" in waits.condition("j")


def test_hypernode_events_change_where_a_waiting_gang_may_go() -> None:
    """Relabelling, adding and deleting take effect with the next cycle."""
    busy = used({"n0": 8, "n3": 8, "n4": 8, "n6": 8})
    cluster = cluster_of(nodes=nodes(), others=tree(), jobs=[gang("j", 2, 8, HARD_1)], pods=busy)
    settings = config(PLUGINS)
    assert not Result(run_cycle(cluster.snapshot(START, 1), settings), cluster.snapshot(START, 1)).bound()
    moved = hypernode("s0", 1, ("n1", "n2"))
    moved["metadata"]["resourceVersion"] = "2"
    cluster.apply(event(moved, cluster, EventType.MODIFIED))
    snapshot = cluster.snapshot(START, 2)
    assert set(Result(run_cycle(snapshot, settings), snapshot).bound().values()) == {"n1", "n2"}
