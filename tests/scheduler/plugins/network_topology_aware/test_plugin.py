"""Gangs go to full domains and near their pods; other pods keep whole domains free."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import job, node, pod, podgroup
from tests.scenario import session
from tests.scheduler.topology.clusters import gang, leaves, nodes, place, spines, topology, tree, used
from volcano.model.task import Task
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.network_topology_aware import NetworkTopologyAware

NAME = "network-topology-aware"
HARD_1, HARD_2, SOFT = topology(tier=1), topology(tier=2), topology("soft")


def plugins(**arguments: Any) -> list[Any]:
    given = {"weight": 10, **{key.replace("_", "."): value for key, value in arguments.items()}}
    return ["priority", "gang", "predicates", {"name": NAME, "arguments": given}]


def opened(
    *pods: Any, used_cpu: dict[str, int] | None = None, arguments: Any = None, **options: Any
) -> Session:
    options.setdefault("nodes", nodes())
    return session(
        pods=[*pods, *used(used_cpu or {})],
        podgroups=options.pop("podgroups", [podgroup("g")]),
        others=options.pop("others", tree()),
        plugins=[{"name": NAME, "arguments": arguments or {}}],
        **options,
    )


def plugin_of(made: Session) -> NetworkTopologyAware:
    found = made.policy.plugins[0]
    assert isinstance(found, NetworkTopologyAware)
    return found


def task_of(made: Session, name: str) -> Task:
    return next(t for found in made.snapshot.jobs.values() for t in found.tasks.values() if t.name == name)


def scores(made: Session, task: str) -> dict[str, float]:
    found = plugin_of(made).score_nodes_together(task_of(made, task), made.nodes)
    assert found is not None
    return dict(zip(made.nodes.names, np.round(found, 6).tolist(), strict=True))


def test_a_gang_goes_to_the_fullest_leaf_that_takes_it() -> None:
    result = place(gang("j", 2, 2, HARD_1), used_cpu={"n2": 1, "n3": 1}, plugins=plugins())
    assert leaves(result) == {"s1"}
    result = place(gang("j", 2, 4, HARD_1), used_cpu={"n2": 4, "n3": 4, "n4": 1}, plugins=plugins())
    assert leaves(result) == {"s1"}
    result = place(gang("j", 2, 4, HARD_1), used_cpu={"n2": 6, "n3": 6, "n4": 1}, plugins=plugins())
    assert leaves(result) == {"s2"}


def test_in_a_wider_domain_the_fullest_one_is_chosen() -> None:
    occupied = {"n0": 8, "n2": 8, "n4": 8, "n6": 8, "n5": 1}
    result = place(gang("j", 2, 6, HARD_2), used_cpu=occupied, plugins=plugins())
    assert set(result.bound().values()) == {"n5", "n7"}


def test_a_gang_beyond_a_leaf_fills_leaves_one_after_the_other() -> None:
    result = place(gang("j", 3, 8, SOFT), plugins=plugins())
    assert len(spines(result)) == 1
    bound = sorted(result.bound().values())
    assert bound in (["n0", "n1", "n2"], ["n0", "n1", "n3"])


def test_other_pods_go_to_full_domains() -> None:
    result = place(job("plain", 2, cpu=8), used_cpu={"n0": 8, "n2": 8, "n4": 8}, plugins=plugins())
    assert set(result.bound().values()) == {"n1", "n3"}


def test_pods_of_one_cycle_pack_into_an_empty_cluster() -> None:
    spreading = [*plugins(), {"name": "nodeorder"}]
    result = place(job("plain", 4, cpu=3), plugins=spreading)
    assert len(leaves(result)) == 1


def test_without_packing_other_pods_are_not_scored() -> None:
    made = opened(pod("new", cpu=8, group="g"), arguments={"hypernode.binpack.normal-pod.enable": False})
    assert plugin_of(made).score_nodes_together(task_of(made, "new"), made.nodes) is None


def test_the_score_of_a_node_is_the_mean_over_its_domains() -> None:
    made = opened(pod("new", cpu=8, group="g"), used_cpu={"n0": 8, "n2": 8, "n4": 8})
    found = scores(made, "new")
    weights = [1, 0.8, 0.64, 0.512]  # of s0, s4, s6 and the root
    full = [1.0, 24 / 32, 32 / 64, 32 / 64]
    assert found["n1"] == found["n3"] == pytest.approx(100 * np.average(full, weights=weights), abs=1e-5)
    assert found["n1"] > found["n5"] > found["n6"]


def test_with_fading_zero_only_the_lowest_tier_counts() -> None:
    arguments = {"hypernode.binpack.normal-pod.fading": 0}
    made = opened(pod("new", cpu=8, group="g"), used_cpu={"n0": 8, "n2": 8, "n4": 8}, arguments=arguments)
    found = scores(made, "new")
    assert found["n1"] == found["n3"] == found["n5"] == 100.0
    assert found["n6"] == found["n7"] == 50.0


def test_a_node_in_no_hypernode_scores_one_in_each_real_tier() -> None:
    many = [*nodes(), node("n8", cpu=8, memory="64Gi")]
    made = opened(pod("new", cpu=8, group="g"), nodes=many)
    root = 8 / 72
    assert scores(made, "new")["n8"] == pytest.approx(
        100 * np.average([1, 1, 1, root], weights=[1, 0.8, 0.64, 0.512]), abs=1e-5
    )


def running(made_on: str, *others: str) -> dict[str, Any]:
    """A soft job with a pod on a node, and a new one."""
    spec = podgroup("g", networkTopology=SOFT, min_member=1)
    placed = [pod(f"old-{i}", cpu=1, group="g", node=name) for i, name in enumerate((made_on, *others))]
    return {"pods": [*placed, pod("new", cpu=1, group="g")], "podgroups": [spec]}


def test_nodes_near_the_pods_of_a_gang_score_higher() -> None:
    given = running("n0")
    found = scores(opened(*given["pods"], podgroups=given["podgroups"]), "new")
    assert found["n0"] == found["n1"] == pytest.approx(150.0)  # the leaf, and one of two tasks is there
    assert found["n2"] == pytest.approx(100 * 2 / 3, abs=1e-4)  # the spine in common
    assert found["n4"] == pytest.approx(100 / 3, abs=1e-4)  # the top in common


def test_in_the_same_distance_the_leaf_with_most_pods_is_preferred() -> None:
    given = running("n0", "n1", "n2")
    found = scores(opened(*given["pods"], podgroups=given["podgroups"]), "new")
    assert found["n0"] == pytest.approx(100 * (2 / 3 + 2 / 4), abs=1e-4)
    assert found["n3"] == pytest.approx(100 * (2 / 3 + 1 / 4), abs=1e-4)


@pytest.mark.parametrize("arguments", [{"weight": 0}])
def test_a_weight_of_zero_scores_nothing(arguments: dict[str, Any]) -> None:
    made = opened(pod("new", cpu=8, group="g"), arguments=arguments)
    assert made.policy.score_nodes_together(task_of(made, "new"), made.nodes) is None


def test_negative_arguments_are_the_defaults() -> None:
    wrong = {"weight": -3, "hypernode.binpack.cpu": -1, "hypernode.binpack.normal-pod.fading": -0.5}
    occupied = {"n0": 8, "n2": 4}
    default = scores(opened(pod("new", cpu=8, group="g"), used_cpu=occupied), "new")
    found = scores(opened(pod("new", cpu=8, group="g"), used_cpu=occupied, arguments=wrong), "new")
    assert found == default


def test_listed_resources_count_with_their_weight() -> None:
    gpus = [node(f"n{i}", cpu=8, memory="64Gi", gpu=8) for i in range(8)]
    arguments = {
        "hypernode.binpack.cpu": 0,
        "hypernode.binpack.memory": 0,
        "hypernode.binpack.resources": "nvidia.com/gpu",
        "hypernode.binpack.resources.nvidia.com/gpu": 2,
        "hypernode.binpack.normal-pod.fading": 0,
    }
    holder = pod("old", cpu=1, gpu=8, node="n0", scheduler="other")
    made = opened(pod("new", cpu=4, gpu=4, group="g"), holder, nodes=gpus, arguments=arguments)
    found = scores(made, "new")
    assert found["n1"] == 75.0
    assert found["n3"] == 25.0


def test_without_hypernodes_nothing_is_scored() -> None:
    made = opened(pod("new", cpu=8, group="g"), others=[])
    assert made.policy.score_nodes_together(task_of(made, "new"), made.nodes) is None


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 7)), min_size=1, max_size=6, unique_by=lambda p: p[0]
    )
)
def test_an_undo_restores_the_scores(placements: list[tuple[int, int]]) -> None:
    spec = podgroup("g", networkTopology=SOFT, min_member=1)
    members = [pod(f"p{i}", cpu=1, group="g") for i in range(5)]
    made = opened(*members, pod("plain", cpu=1, group="h"), podgroups=[spec, podgroup("h")])
    before = (scores(made, "p4"), scores(made, "plain"))
    with made.ledger.statement():
        for index, row in placements:
            made.ledger.allocate(task_of(made, f"p{index}"), row)
        assert scores(made, "plain") != before[1]
        changed = scores(made, "p4")
        assert changed != before[0]
    assert (scores(made, "p4"), scores(made, "plain")) == before
