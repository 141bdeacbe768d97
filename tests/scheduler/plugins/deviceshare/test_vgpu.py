"""vGPUs: which cards pods get, and why they get none."""

from typing import Any

import pytest

from tests.builders import START, node
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
from volcano.model.decisions import Bind


def placed(*jobs: Any, nodes: Any = None, **options: Any) -> dict[str, str]:
    return cards_of(Cards(nodes=nodes or [gpu_node()], jobs=jobs, **options).cycle())


def message(name: str, *jobs: Any, nodes: Any = None, **options: Any) -> str:
    return Cards(nodes=nodes or [gpu_node()], jobs=jobs, **options).cycle().said(name)


def test_a_binding_has_the_annotations_of_the_device_plugin() -> None:
    result = Cards(nodes=[gpu_node()], jobs=[pods("p", **ask(1, 4000))]).cycle()
    (bind,) = [d for d in result.decisions if isinstance(d, Bind)]
    assert bind.annotations == {
        "volcano.sh/vgpu-node": "g",
        "volcano.sh/vgpu-time": str(int(START)),
        "volcano.sh/bind-time": str(int(START)),
        "volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,0:",
        "volcano.sh/devices-to-allocate": "GPU-a,NVIDIA,4000,0:",
        "volcano.sh/bind-phase": "allocating",
    }


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("binpack", ["a", "a", "a", "a", "b"]),
        ("spread", ["a", "b", "a", "b", "a"]),
        ("", ["b", "b", "b", "b", "a"]),
    ],
)
def test_the_policy_orders_the_cards_of_a_node(policy: str, expected: list[str]) -> None:
    found = placed(pods("p", 5, **ask(1, 4000)), plugins=[sharing(policy)])
    assert [found[f"p-worker-{i}"] for i in range(5)] == [f"GPU-{each}" for each in expected]


def test_a_container_gets_different_cards() -> None:
    result = Cards(nodes=[gpu_node()], jobs=[pods("p", **ask(2, 8000))]).cycle()
    assert assigned(result) == {"p-worker-0": "GPU-a,NVIDIA,8000,0:GPU-b,NVIDIA,8000,0:"}


def test_more_cards_than_the_node_has_do_not_fit() -> None:
    assert message("p-worker-0", pods("p", **ask(3, 100))) == (
        "0/1 nodes are available: 1 fewer than 3 cards have 100 MiB free: 2 suitable."
    )


def test_memory_without_number_is_one_card_and_number_without_memory_a_whole_one() -> None:
    world = Cards(nodes=[gpu_node()], jobs=[pods("m", **ask(memory=4000)), pods("n", age=-1, **ask(1))])
    assert assigned(world.cycle()) == {
        "m-worker-0": "GPU-a,NVIDIA,4000,0:",
        "n-worker-0": "GPU-b,NVIDIA,16000,0:",
    }


def test_cores_alone_do_not_make_a_pod_share_cards() -> None:
    result = Cards(nodes=[gpu_node()], jobs=[pods("p", **ask(cores=50))]).cycle()
    assert result.bound() == {"p-worker-0": "g"}
    assert assigned(result) == {}


def test_cores_of_a_card_are_not_exceeded() -> None:
    world = Cards(nodes=[gpu_node()], jobs=[pods("p", 2, **ask(1, 100, 50))])
    assert cards_of(world.cycle()) == {"p-worker-0": "GPU-a", "p-worker-1": "GPU-a"}
    world.add(pods("q", **ask(1, 100, 10)), pods("r", **ask(1, 100)))
    # A card without free cores takes nothing more.
    assert cards_of(world.cycle()) == {"q-worker-0": "GPU-b", "r-worker-0": "GPU-b"}


def test_all_cores_need_an_unused_card() -> None:
    world = Cards(nodes=[gpu_node()], jobs=[pods("p", **ask(1, 100))])
    world.cycle()
    world.add(pods("q", 2, **ask(1, 100, 100)))
    result = world.cycle()
    assert cards_of(result) == {"q-worker-0": "GPU-b"}
    assert result.said("q-worker-1") == (
        "0/1 nodes are available: 1 no card with 100 MiB is unused: 2 in use."
    )


def test_a_card_is_shared_as_often_as_it_is_split() -> None:
    found = placed(pods("p", 20, **ask(1, 100)))
    assert [found[f"p-worker-{i}"] for i in range(20)] == ["GPU-a"] * 10 + ["GPU-b"] * 10
    text = message("p-worker-20", pods("p", 21, **ask(1, 100)))
    assert text == "0/1 nodes are available: 1 no card has 100 MiB free: 2 shared as often as allowed."


def test_a_percentage_of_memory_is_known_without_configuration() -> None:
    result = Cards(nodes=[gpu_node()], jobs=[pods("p", 2, **ask(1, percent=50))]).cycle()
    assert assigned(result) == {f"p-worker-{i}": "GPU-a,NVIDIA,8000,0:" for i in range(2)}


def test_a_percentage_replaces_the_memory() -> None:
    result = Cards(nodes=[gpu_node()], jobs=[pods("p", **ask(1, 1000, percent=50))]).cycle()
    assert assigned(result) == {"p-worker-0": "GPU-a,NVIDIA,8000,0:"}


def test_every_device_of_a_pod_counts() -> None:
    two = pods("p", spec=containers(ask(1, 4000), ask(1, 4000)))
    world = Cards(nodes=[gpu_node(cards=[card("GPU-a")])], jobs=[two])
    assert assigned(world.cycle()) == {"p-worker-0": "GPU-a,NVIDIA,4000,0:;GPU-a,NVIDIA,4000,0:"}
    world.add(pods("q", **ask(1, 9000)), pods("r", **ask(1, 8000)))
    result = world.cycle()
    assert cards_of(result) == {"r-worker-0": "GPU-a"}
    assert (
        result.said("q-worker-0")
        == "0/1 nodes are available: 1 no card has 9000 MiB free: 1 too little memory."
    )


def test_containers_without_devices_have_no_entry() -> None:
    spec = containers({"cpu": 1}, ask(1, 4000), {"cpu": 1})
    assert assigned(Cards(nodes=[gpu_node()], jobs=[pods("p", spec=spec)]).cycle()) == {
        "p-worker-0": "GPU-a,NVIDIA,4000,0:"
    }


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({vgpu.USE_TYPE: "V100"}, "", id="another type"),
        pytest.param({vgpu.USE_TYPE: "v100, a100"}, "GPU-a", id="one of several types"),
        pytest.param({vgpu.AVOID_TYPE: "a100"}, "", id="type to avoid"),
        pytest.param({vgpu.USE_TYPE: "a100", vgpu.AVOID_TYPE: "a100"}, "GPU-a", id="wanted types win"),
        pytest.param({vgpu.USE_UUID: "GPU-b"}, "GPU-b", id="uuid"),
        pytest.param({vgpu.AVOID_UUID: " GPU-a "}, "GPU-b", id="uuid to avoid"),
        pytest.param({vgpu.USE_UUID: "GPU-b", vgpu.AVOID_UUID: "GPU-b"}, "", id="uuids to avoid win"),
        pytest.param({vgpu.MODE: "hami-core"}, "GPU-a", id="mode"),
        pytest.param({vgpu.MODE: "mig"}, "", id="another mode"),
    ],
)
def test_pods_choose_cards_by_annotations(annotations: dict[str, str], expected: str) -> None:
    found = placed(pods("p", annotations=annotations, **ask(1, 4000)))
    assert found == ({"p-worker-0": expected} if expected else {})


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({vgpu.USE_TYPE: "V100"}, "no card has 4000 MiB free: 2 of another type"),
        ({vgpu.USE_UUID: "GPU-x"}, "no GPU matches UUID constraints: 2 excluded by UUID"),
        (
            {vgpu.MODE: "mig"},
            "pod required sharing mode mig is not the same as the node mode hami-core: 2 in mode hami-core",
        ),
    ],
)
def test_unsuitable_cards_are_explained(annotations: dict[str, str], expected: str) -> None:
    text = message("p-worker-0", pods("p", annotations=annotations, **ask(1, 4000)))
    assert text == f"0/1 nodes are available: 1 {expected}."


def test_reasons_add_up_cards_over_nodes() -> None:
    nodes = [
        gpu_node("g1", [card("a1", 8000), card("a2", 8000), card("a3", healthy=False)]),
        gpu_node("g2", [card("b1", 8000), card("b2", 8000), card("b3", 8000)]),
        node("plain"),
    ]
    text = message("p-worker-0", pods("p", **ask(1, 12000)), nodes=nodes)
    assert text == (
        "0/3 nodes are available: 1 Insufficient volcano.sh/vgpu-memory, "
        "2 no card has 12000 MiB free: 5 too little memory, 1 unhealthy."
    )


def test_unhealthy_cards_are_not_used() -> None:
    cards = [card("GPU-a", healthy=False), card("GPU-b")]
    assert placed(pods("p", **ask(1, 4000)), nodes=[gpu_node(cards=cards)]) == {"p-worker-0": "GPU-b"}
    text = message(
        "p-worker-0", pods("p", **ask(1, 12000)), nodes=[gpu_node(cards=[card("GPU-a", healthy=False)])]
    )
    assert text == "0/1 nodes are available: 1 no card has 12000 MiB free: 1 unhealthy."


def test_pods_of_a_pod_group_that_spreads_do_not_share_a_card() -> None:
    spread = {vgpu.POD_GROUP_POLICY: "spread"}
    world = Cards(nodes=[gpu_node()], jobs=[pods("p", 3, annotations=spread, **ask(1, 100))])
    first = world.cycle()
    assert cards_of(first) == {"p-worker-0": "GPU-a", "p-worker-1": "GPU-b"}
    assert first.said("p-worker-2") == (
        "0/1 nodes are available: 1 no card has 100 MiB free: 2 used by the same PodGroup."
    )
    world.add(pods("q", annotations=spread, **ask(1, 100)))
    assert cards_of(world.cycle()) == {"q-worker-0": "GPU-a"}
    world.delete("p-worker-0")
    assert cards_of(world.cycle()) == {"p-worker-2": "GPU-a"}


def test_an_exclusive_rule_closes_cards_to_pods_of_the_same_rule() -> None:
    rules = [{"workloadType": "training"}, {"workloadType": "batch", "priority": "high"}]
    training = {"workloadType": "training"}
    world = Cards(
        nodes=[gpu_node()],
        plugins=[sharing(GPUExclusiveRules=rules)],
        jobs=[pods("p", 3, labels=training, **ask(1, 100))],
    )
    first = world.cycle()
    assert cards_of(first) == {"p-worker-0": "GPU-a", "p-worker-1": "GPU-b"}
    assert "2 closed by an exclusive rule" in first.said("p-worker-2")
    world.add(
        pods("q", **ask(1, 100)),
        pods("r", labels={"workloadType": "batch", "priority": "high"}, **ask(1, 100)),
    )
    assert cards_of(world.cycle()) == {"q-worker-0": "GPU-a", "r-worker-0": "GPU-a"}


def test_a_node_without_a_register_is_left_to_the_count_of_resources() -> None:
    assert message("p-worker-0", pods("p", **ask(1, 4000)), nodes=[node("n")]) == (
        "0/1 nodes are available: 1 Insufficient volcano.sh/vgpu-memory. "
        "The pod requests volcano.sh/vgpu-memory 4k, the largest node has 0."
    )
    amounts: dict[str, Any] = {vgpu.NUMBER: 10, vgpu.MEMORY: 16000, vgpu.CORES: 100}
    bare = node("n", **amounts)
    assert message("p-worker-0", pods("p", **ask(1, 4000)), nodes=[bare]) == (
        "0/1 nodes are available: 1 node(s) had no registered card."
    )


def test_a_malformed_register_offers_no_cards() -> None:
    broken = gpu_node(annotations={vgpu.REGISTER: "GPU-a,10,16000:"})
    assert placed(pods("p", **ask(1, 4000)), nodes=[broken]) == {}


def test_binpack_prefers_nodes_with_fuller_cards_and_spread_those_with_unused_ones() -> None:
    nodes = [gpu_node("g1", [card("a1"), card("a2")]), gpu_node("g2", [card("b1"), card("b2")])]
    for policy, expected in (("binpack", {"g1": 4}), ("spread", {"g1": 2, "g2": 2})):
        world = Cards(nodes=nodes, plugins=[sharing(policy)], jobs=[pods("p", **ask(1, 2000))])
        first = world.cycle().bound()["p-worker-0"]
        world.add(pods("q", 3, **ask(1, 2000)))
        second = world.cycle().bound_per_node()
        other = next(name for name in ("g1", "g2") if name != first)
        counts = {"g1": second.get(first, 0) + 1, "g2": second.get(other, 0)}
        assert {name: count for name, count in counts.items() if count} == expected, policy


def test_names_of_resources_come_from_the_device_config_map() -> None:
    text = "nvidia: {resourceCountName: nvidia.com/vgpu, resourceMemoryName: nvidia.com/vmem}"
    machine = gpu_node(more={"nvidia.com/vgpu": 20, "nvidia.com/vmem": 32000})
    world = Cards(
        nodes=[machine],
        others=[device_config(text)],
        jobs=[pods("p", **{"nvidia.com/vgpu": 1, "nvidia.com/vmem": 500})],
    )
    assert assigned(world.cycle()) == {"p-worker-0": "GPU-a,NVIDIA,500,0:"}


def test_a_changed_device_config_map_takes_effect_in_the_next_cycle() -> None:
    limits: dict[str, Any] = {"nvidia.com/vgpu": 1, vgpu.MEMORY: 500}
    machine = gpu_node(more={"nvidia.com/vgpu": 20})
    world = Cards(nodes=[machine], jobs=[pods("p", **limits)])
    assert assigned(world.cycle()) == {"p-worker-0": "GPU-a,NVIDIA,500,0:"}
    world.apply(
        device_config("nvidia: {resourceMemoryName: nvidia.com/vmem, resourceCountName: nvidia.com/vgpu}")
    )
    world.apply(gpu_node(more={"nvidia.com/vgpu": 20, "nvidia.com/vmem": 32000}))
    world.add(pods("q", **limits))
    assert assigned(world.cycle()) == {"q-worker-0": "GPU-b,NVIDIA,16000,0:"}


def test_a_deleted_pod_frees_its_cards() -> None:
    world = Cards(nodes=[gpu_node()], jobs=[pods("p", 2, **ask(1))])
    assert len(cards_of(world.cycle())) == 2
    world.add(pods("q", **ask(1)))
    assert cards_of(world.cycle()) == {}
    world.delete("p-worker-0")
    assert cards_of(world.cycle()) == {"q-worker-0": "GPU-a"}
    world.change("p-worker-1", **{vgpu.BIND_PHASE: "success"})
    world.manifests["p-worker-1"]["status"]["phase"] = "Succeeded"
    world.apply(world.manifests["p-worker-1"])
    world.add(pods("r", **ask(1)))
    assert cards_of(world.cycle()) == {"r-worker-0": "GPU-b"}


def test_the_cards_of_running_pods_are_known_after_a_restart() -> None:
    running = pods("p", 2, on="g", **ask(1, 12000))
    for pod, uuid in zip(running.pods, ("GPU-a", "GPU-b"), strict=True):
        pod["metadata"]["annotations"][vgpu.ASSIGNED] = f"{uuid},NVIDIA,12000,0:"
    world = Cards(nodes=[gpu_node()], jobs=[running, pods("q", 3, **ask(1, 4000))])
    result = world.cycle()
    assert cards_of(result) == {"q-worker-0": "GPU-a", "q-worker-1": "GPU-b"}


def test_a_decision_counts_until_the_pod_confirms_it_or_is_gone() -> None:
    world = Cards(nodes=[gpu_node(cards=[card("GPU-a")])], jobs=[pods("p", **ask(1, 12000))])
    result = world.decide()
    assert cards_of(result) == {"p-worker-0": "GPU-a"}
    world.add(pods("q", **ask(1, 12000)))
    assert cards_of(world.decide()) == {}
    (bind,) = [d for d in result.decisions if isinstance(d, Bind)]
    world.cluster.forget(bind)
    assert len(cards_of(world.decide())) == 1


def test_a_gang_that_does_not_fit_as_a_whole_gets_no_cards() -> None:
    world = Cards(nodes=[gpu_node()], jobs=[pods("p", 3, min_available=3, **ask(1, 12000))])
    result = world.cycle()
    assert result.bound() == {}
    world.add(pods("q", 2, **ask(1, 16000)))
    assert cards_of(world.cycle()) == {"q-worker-0": "GPU-a", "q-worker-1": "GPU-b"}


@pytest.mark.parametrize("name", [vgpu.NUMBER, vgpu.MEMORY, vgpu.CORES, vgpu.MEMORY_PERCENTAGE])
def test_enormous_requests_do_not_fit(name: str) -> None:
    limits: dict[str, Any] = {vgpu.NUMBER: 1, name: "9E"}
    result = Cards(nodes=[gpu_node()], jobs=[pods("p", **limits)]).cycle()
    assert result.bound() == {}
    assert "0/1 nodes are available" in result.said("p-worker-0")
