"""Nodes, their groups, and how scattered free devices are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.data.builders import hyper_node, node, objects, pod
from volcano.dashboard.data.nodes import (
    UNGROUPED,
    Cell,
    device_resource,
    find_node,
    fragmentation,
    groupings,
    heat_map,
    node_devices,
    node_facts,
    node_resources,
    taints,
)
from volcano.dashboard.objects import Objects
from volcano.kube.api.kinds import HYPER_NODE, NODE, POD
from volcano.views.topology import topology_usage

GPU = "nvidia.com/gpu"
SIZE = {"cpu": "8", "memory": "32Gi", GPU: "4"}


def cluster() -> Objects:
    """Two racks of two nodes and one outside: 12 GPUs are used."""
    return objects(
        NODE=[
            node("gpu-10", SIZE),
            node("gpu-2", SIZE, cordoned=True),
            node("gpu-1", SIZE, ready=False),
            node("gpu-3", SIZE),
            node("cpu-1", {"cpu": "8", "memory": "32Gi"}, labels={"eks.amazonaws.com/nodegroup": "spot"}),
            node("control-0", SIZE, labels={"node-role.kubernetes.io/control-plane": ""}),
        ],
        HYPER_NODE=[hyper_node("rack-0", 1, "gpu-1", "gpu-2"), hyper_node("rack-1", 1, "gpu-3", "gpu-10")],
        POD=[
            pod("a", "gpu-10", {"cpu": "8", GPU: "3"}, job="train"),
            pod("b", "gpu-3", {GPU: "2"}, job="train"),
            pod("done", "gpu-3", {GPU: "2"}, job="old", phase="Succeeded"),
            pod("waits", "", {GPU: "2"}, phase="Pending"),
        ],
    )


def test_nodes_are_in_the_order_of_their_numbers_with_their_state() -> None:
    found = node_facts(cluster())
    assert [(each.name, each.state) for each in found] == [
        ("control-0", "Ready"), ("cpu-1", "Ready"), ("gpu-1", "NotReady"), ("gpu-2", "Cordoned"),
        ("gpu-3", "Ready"), ("gpu-10", "Ready"),
    ]  # fmt: skip


def test_used_is_what_pods_that_have_not_ended_request() -> None:
    used = {each.name: each.usage(GPU) for each in node_facts(cluster())}
    assert (used["gpu-3"], used["gpu-10"], used["cpu-1"]) == ("2/4", "3/4", "0/0")


def test_nodes_can_be_grouped_by_tiers_of_hypernodes_and_pools() -> None:
    given_objects = cluster()
    assert groupings(given_objects) == {
        "tier-1": "HyperNode, tier 1", "pool": "Pool", "none": "No groups",
    }  # fmt: skip
    nodes = node_facts(given_objects)
    racks = heat_map(nodes, "tier-1", GPU)
    assert [(group.name, group.summary) for group in racks] == [
        ("rack-0", "2 nodes, 0/8 gpu"), ("rack-1", "2 nodes, 5/8 gpu"), (UNGROUPED, "1 node, no gpu"),
    ]  # fmt: skip
    assert racks[1].cells == (Cell("gpu-3", 50, "Ready"), Cell("gpu-10", 75, "Ready"))
    assert racks[2].cells == (Cell("cpu-1", -1, "Ready"),)
    assert [group.name for group in heat_map(nodes, "pool", GPU)] == ["gpu", "spot"]
    assert [len(group.cells) for group in heat_map(nodes, "none", "dominant")] == [5]


def test_groups_agree_with_the_topology_that_the_command_line_prints() -> None:
    given_objects = cluster()
    tree = topology_usage(given_objects.of(HYPER_NODE), given_objects.of(NODE), given_objects.of(POD), ())
    printed = {child.name: [each.name for each in child.nodes] for child in tree.root.children}
    shown = {
        group.name: [cell.name for cell in group.cells]
        for group in heat_map(node_facts(given_objects), "tier-1", GPU)
    }
    assert shown["rack-0"] == printed["rack-0"]
    assert shown["rack-1"] == printed["rack-1"]


def test_fragmentation_counts_pods_that_fit_on_single_nodes() -> None:
    found = fragmentation(node_facts(cluster()), GPU)
    assert found.free == 3
    assert [(each.size, each.fits, each.together) for each in found.sizes] == [
        (1, 3, 3),
        (2, 1, 1),
        (4, 0, 0),
    ]
    assert found.by_free == ((1, 1), (2, 1))


def test_fragmentation_tells_devices_that_no_pod_can_use() -> None:
    found = fragmentation(node_facts(cluster()), GPU)
    assert found.without_cpu_or_memory == 1, "gpu-10 has no CPU left"
    assert found.on_unusable_nodes == 8, "gpu-1 is not ready, gpu-2 cordoned"


@given(st.lists(st.integers(0, 8), max_size=12))
def test_scattered_devices_are_no_more_useful_than_those_on_one_node(used: list[int]) -> None:
    nodes = [node(f"n{index}", {GPU: "8"}) for index in range(len(used))]
    pods = [pod(f"p{index}", f"n{index}", {GPU: str(each)}) for index, each in enumerate(used)]
    found = fragmentation(node_facts(objects(NODE=nodes, POD=pods)), GPU)
    assert found.free == sum(8 - each for each in used)
    assert all(each.fits <= each.together for each in found.sizes)
    assert 0.0 <= found.part <= 1.0


@pytest.mark.parametrize(
    ("allocatable", "expected"),
    [
        pytest.param({"cpu": "1", GPU: "1", "amd.com/gpu": "1"}, GPU, id="nvidia first"),
        pytest.param({"cpu": "1", "amd.com/gpu": "1"}, "amd.com/gpu", id="another device"),
        pytest.param(
            {"volcano.sh/vgpu-memory": "9", "volcano.sh/vgpu-number": "9"},
            "volcano.sh/vgpu-number",
            id="shared cards",
        ),
        pytest.param({"cpu": "1", "hugepages-2Mi": "0"}, "", id="none"),
    ],
)
def test_fragmentation_is_of_the_devices_of_the_cluster(allocatable: dict[str, str], expected: str) -> None:
    assert device_resource(node_facts(objects(NODE=[node("n", allocatable)]))) == expected


def test_resources_are_those_of_any_node() -> None:
    assert node_resources(cluster()) == ["cpu", "memory", GPU]


def test_a_node_has_devices_with_owners() -> None:
    devices = node_devices(cluster(), "gpu-10")
    assert [device.sentence() for device in devices] == [
        "gpu slot 0: team/a", "gpu slot 1: team/a", "gpu slot 2: team/a", "gpu slot 3: free",
    ]  # fmt: skip
    assert node_devices(cluster(), "missing") == ()


def test_taints_are_written_as_kubectl_writes_them() -> None:
    tainted = node("n", {})
    tainted["spec"]["taints"] = [
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "effect": "NoExecute"},
    ]
    assert taints(tainted) == ["a=b:NoSchedule", "c:NoExecute"]
    assert find_node(cluster(), "gpu-1") is not None
