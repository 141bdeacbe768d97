"""Cards divided into MIG instances."""

from typing import Any

import pytest

from tests.scenario import Result
from tests.scheduler.plugins.deviceshare.cards import (
    Cards,
    ask,
    assigned,
    card,
    cards_of,
    containers,
    device_config,
    gpu_node,
    pods,
    sharing,
)
from volcano.kube.devices import vgpu
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse
from volcano.scheduler.plugins.deviceshare.mig import NEVER, Geometry, Group, Instance, MigStates
from volcano.scheduler.snapshot_file import load, save

GEOMETRIES = device_config(
    """
nvidia:
  knownMigGeometries:
  - models: [A100-PCIE-40GB]
    allowedGeometries:
    - {group: group1, geometries: [{name: 1g.5gb, memory: 5120, count: 7}]}
    - {group: group2, geometries: [{name: 2g.10gb, memory: 10240, count: 3}, {name: 1g.5gb, memory: 5120, count: 1}]}
    - {group: group3, geometries: [{name: 3g.20gb, memory: 20480, count: 2}]}
    - {group: group4, geometries: [{name: 7g.40gb, memory: 40960, count: 1}]}
"""
)
MIG_TYPE = "NVIDIA-NVIDIA A100-PCIE-40GB"


def mig_card(uuid: str = "GPU-a") -> vgpu.Card:
    return card(uuid, 40960, split=7, type=MIG_TYPE, mode="mig")


def world(*cards: vgpu.Card, **options: Any) -> Cards:
    return Cards(nodes=[gpu_node(cards=cards or (mig_card(),))], others=[GEOMETRIES], **options)


def test_requests_get_the_smallest_sufficient_instance_of_the_group_in_use() -> None:
    cluster = world()
    found: list[str] = []
    for i, memory in enumerate((8000, 8000, 4000, 15000)):
        cluster.add(pods(f"p{i}", **ask(1, memory)))
        found += cards_of(cluster.cycle()).values()
    assert found == ["GPU-a[group2-0]", "GPU-a[group2-1]", "GPU-a[group2-3]"]
    assert assigned(cluster.cycle()) == {}


def test_the_whole_memory_of_an_instance_counts() -> None:
    cluster = world(jobs=[pods("p", **ask(1, 8000))])
    assert assigned(cluster.cycle()) == {"p-worker-0": "GPU-a[group2-0],NVIDIA,10240,0:"}


def test_pods_of_one_cycle_get_different_positions() -> None:
    cluster = world(jobs=[pods("p", 7, min_available=7, **ask(1, 4000))])
    assert sorted(cards_of(cluster.cycle()).values()) == [f"GPU-a[group1-{i}]" for i in range(7)]


def test_a_position_stays_taken_until_the_binding_is_confirmed() -> None:
    cluster = world(jobs=[pods("p", **ask(1, 8000))])
    cluster.decide()
    cluster.add(pods("q", **ask(1, 8000)))
    assert cards_of(cluster.decide()) == {"q-worker-0": "GPU-a[group2-1]"}


def test_an_unused_card_can_be_divided_anew() -> None:
    cluster = world(jobs=[pods("p", **ask(1, 8000))])
    cluster.cycle()
    cluster.add(pods("q", **ask(1, 20000)))
    first = cluster.cycle()
    assert cards_of(first) == {}
    assert first.said("q-worker-0") == (
        "0/1 nodes are available: 1 no card has 20000 MiB free: 1 without a free MIG instance of that size."
    )
    cluster.delete("p-worker-0")
    assert cards_of(cluster.cycle()) == {"q-worker-0": "GPU-a[group3-0]"}


def test_containers_of_a_pod_get_instances_of_their_own() -> None:
    cluster = world(jobs=[pods("p", spec=containers(ask(1, 8000), ask(1, 8000)))])
    assert cards_of(cluster.cycle()) == {"p-worker-0": "GPU-a[group2-0]+GPU-a[group2-1]"}
    cluster.add(pods("q", **ask(1, 8000)))
    assert cards_of(cluster.cycle()) == {"q-worker-0": "GPU-a[group2-2]"}


def test_each_card_of_a_node_has_its_own_mode() -> None:
    mixed = (card("GPU-h", 40960), mig_card("GPU-m"))
    for mode, expected in (("mig", "GPU-m[group2-0]"), ("hami-core", "GPU-h")):
        cluster = world(*mixed, jobs=[pods("p", annotations={vgpu.MODE: mode}, **ask(1, 8000))])
        assert cards_of(cluster.cycle()) == {"p-worker-0": expected}


def test_a_model_without_known_geometry_is_shared_as_a_whole() -> None:
    cluster = Cards(nodes=[gpu_node(cards=[mig_card()])], jobs=[pods("p", **ask(1, 8000))])
    assert cards_of(cluster.cycle()) == {"p-worker-0": "GPU-a"}


def test_a_new_geometry_takes_effect_in_the_next_cycle() -> None:
    cluster = Cards(nodes=[gpu_node(cards=[mig_card()])], jobs=[])
    cluster.decide()
    cluster.apply(GEOMETRIES)
    cluster.add(pods("p", **ask(1, 8000)))
    assert cards_of(cluster.cycle()) == {"p-worker-0": "GPU-a[group2-0]"}


def test_instances_of_unknown_groups_keep_others_away() -> None:
    running = pods("p", on="g", **ask(1, 8000))
    running.pods[0]["metadata"]["annotations"][vgpu.ASSIGNED] = "GPU-a[other-0],NVIDIA,10240,0:"
    cluster = world(jobs=[running, pods("q", **ask(1, 4000))])
    assert cards_of(cluster.cycle()) == {}


def test_exclusive_rules_do_not_apply_to_instances() -> None:
    labels = {"workloadType": "training"}
    cluster = world(
        jobs=[pods("p", 2, labels=labels, **ask(1, 8000))], plugins=[sharing(GPUExclusiveRules=[labels])]
    )
    assert sorted(cards_of(cluster.cycle()).values()) == ["GPU-a[group2-0]", "GPU-a[group2-1]"]


def test_memory_is_counted_in_units_of_the_factor() -> None:
    states = MigStates((Geometry(("A100",), (Group("g", (Instance("x", 10240, 2),)),)),), factor=10)
    empty = states.empty(states.geometry_of("NVIDIA A100"))
    assert states.choice(1000, empty)[:3] == (1024, "g", 0)
    assert states.choice(1025, empty).memory == NEVER


@pytest.mark.parametrize("share", ["GPU-a", "GPU-a[g]", "GPU-a[g-x]"])
def test_malformed_instances_leave_the_card_to_its_pod(share: str) -> None:
    states = MigStates((Geometry(("A100",), (Group("g", (Instance("x", 10240, 2),)),)),), factor=1)
    taken = states.taken(states.empty(1), share)
    assert states.choice(1, taken).memory == NEVER
    assert states.freed(taken, share) == states.empty(1)


def test_a_saved_snapshot_is_replayed_with_the_same_cards() -> None:
    cluster = world(
        mig_card("GPU-m"),
        card("GPU-h"),
        jobs=[pods("p", 3, annotations={vgpu.AVOID_UUID: "x"}, **ask(1, 8000))],
    )
    cluster.cycle()
    cluster.add(pods("q", 2, **ask(1, 4000)))
    snapshot = cluster.cluster.snapshot(cluster.now, 9)
    again, text = load(save(snapshot, cluster.config.text))
    found = assigned(Result(schedule(snapshot, cluster.config), snapshot))
    assert found
    assert assigned(Result(schedule(again, parse(text)), again)) == found
