"""Devices of simulated nodes: what pools register, and the device plugins' part in handing out shares."""

import pytest

from tests.cluster import SmallCluster
from volcano.kube.api.kinds import NODE, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.devices import ascend, vgpu
from volcano.nodes.pools import PoolError, node_manifest, nodes_of, parse_pool, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes

SHARED = "nvidia.com/gpu=8,vgpu=10,gpu-memory=80Gi,gpu-type=A100"
NOW = "2026-01-01T00:00:00Z"


def manifest_of(text: str) -> Manifest:
    return node_manifest(nodes_of([parse_pool(text)])[0], NOW)


def test_shared_cards_are_registered_as_the_device_plugin_does() -> None:
    node = manifest_of(SHARED)
    cards = vgpu.parse_register(node["metadata"]["annotations"][vgpu.REGISTER])
    assert len({card.uuid for card in cards}) == 8
    assert {(card.split, card.memory, card.type, card.healthy, card.mode) for card in cards} == {
        (10, 81920, "NVIDIA-NVIDIA A100", True, "hami-core")
    }
    resources = node["status"]["allocatable"]
    assert resources[vgpu.NUMBER] == "80"
    assert resources[vgpu.MEMORY] == str(8 * 81920)
    assert resources[vgpu.CORES] == "800"
    assert "nvidia.com/gpu" not in resources
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "A100"


def test_nodes_of_a_pool_have_cards_of_their_own() -> None:
    first, second = (node_manifest(node, NOW) for node in nodes_of([parse_pool(SHARED, count=2)]))
    registers = [
        vgpu.parse_register(node["metadata"]["annotations"][vgpu.REGISTER]) for node in (first, second)
    ]
    assert not {card.uuid for card in registers[0]} & {card.uuid for card in registers[1]}


def test_mig_instances_are_resources_by_profile() -> None:
    resources = manifest_of("nvidia.com/gpu=2,mig=3g.20gb:1+1g.5gb:4")["status"]["allocatable"]
    assert resources["nvidia.com/mig-3g.20gb"] == "2"
    assert resources["nvidia.com/mig-1g.5gb"] == "8"
    assert "nvidia.com/gpu" not in resources


def test_shared_mig_cards_are_registered_in_that_mode() -> None:
    node = manifest_of("nvidia.com/gpu=1,mig=shared,gpu-type=A100-PCIE-40GB")
    (card,) = vgpu.parse_register(node["metadata"]["annotations"][vgpu.REGISTER])
    assert (card.mode, card.split, card.memory) == ("mig", 7, 40960)


def test_npus_are_registered_as_their_device_plugin_does() -> None:
    node = manifest_of("ascend=Ascend310P:2+Ascend910B3:1")
    npus = ascend.parse_register(node["metadata"]["annotations"]["hami.io/node-register-Ascend310P"])
    assert [(npu.index, npu.count, npu.memory, npu.cores, npu.healthy) for npu in npus] == [
        (0, 7, 21527, 8, True),
        (1, 7, 21527, 8, True),
    ]
    assert node["status"]["allocatable"]["huawei.com/Ascend310P"] == "14"
    assert "hami.io/node-register-Ascend910B3" in node["metadata"]["annotations"]


def test_a_pool_without_shared_devices_registers_nothing() -> None:
    node = manifest_of("nvidia.com/gpu=8,gpu-type=H100")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert "annotations" not in node["metadata"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "vgpu=10", "vgpu: the nodes have no cards; write how many, as in nvidia.com/gpu=8", id="no cards"
        ),
        pytest.param("nvidia.com/gpu=8,vgpu=0", "vgpu='0' is not a number of containers", id="split of 0"),
        pytest.param(
            "nvidia.com/gpu=8,vgpu=x", "vgpu='x' is not a number of containers", id="split no number"
        ),
        pytest.param("nvidia.com/gpu=8,gpu-memory=big", "gpu-memory='big' is not the memory", id="memory"),
        pytest.param("nvidia.com/gpu=8,gpu-type=A:1", "gpu-type='A:1' is not a type of card", id="type"),
        pytest.param("nvidia.com/gpu=8,mig=1g.5gb", "such as 1g.5gb:7", id="profile without number"),
        pytest.param("nvidia.com/gpu=8,vgpu=4,mig=1g.5gb:7", "exclude each other", id="both kinds of parts"),
        pytest.param("ascend=Ascend1:8", "'Ascend1' is unknown; choose from Ascend310P", id="unknown chip"),
        pytest.param("ascend=Ascend310P", "such as Ascend310P:8", id="chip without number"),
    ],
)
def test_a_bad_description_of_devices_is_explained(text: str, message: str) -> None:
    with pytest.raises(PoolError, match=message):
        parse_pool(text)


def simulated() -> SimulatedNodes:
    return SimulatedNodes(nodes_of(parse_pools([1], [SHARED])))


async def bound(cluster: SmallCluster, assigned: str) -> None:
    """A pod as the scheduler binds it."""
    resources = {"limits": {vgpu.NUMBER: "1", vgpu.MEMORY: "4000"}}
    container = {"name": "c", "image": "i", "command": ["sleep", "100"], "resources": resources}
    annotations = {
        vgpu.NODE: "node-0",
        vgpu.TIME: "1",
        vgpu.ASSIGNED: assigned,
        vgpu.TO_ALLOCATE: assigned,
        vgpu.BIND_PHASE: "allocating",
    }
    spec = {"nodeName": "node-0", "restartPolicy": "Never", "containers": [container]}
    await cluster.create(POD, "p", metadata={"annotations": annotations}, spec=spec)
    await cluster.pass_time(2)


async def test_a_simulated_node_hands_out_shares_and_unlocks_itself() -> None:
    async with SmallCluster(simulated()) as cluster:
        node = await cluster.get(NODE, "node-0")
        lock = {"metadata": {"annotations": {vgpu.LOCK: NOW}}}
        await cluster.client.patch(NODE, Key("", "node-0"), lock)
        card = vgpu.parse_register(node["metadata"]["annotations"][vgpu.REGISTER])[3].uuid
        await bound(cluster, f"{card},NVIDIA,4000,0:")
        pod = await cluster.get(POD, "p")
        annotations = pod["metadata"]["annotations"]
        assert pod["status"]["phase"] == "Running"
        assert annotations[vgpu.BIND_PHASE] == "success"
        assert annotations[vgpu.TO_ALLOCATE] == ""
        assert annotations[vgpu.TIME] == vgpu.HANDED_OUT
        assert annotations[vgpu.ASSIGNED] == f"{card},NVIDIA,4000,0:"
        assert vgpu.LOCK not in (await cluster.get(NODE, "node-0"))["metadata"]["annotations"]


async def test_a_simulated_node_rejects_shares_of_cards_that_it_does_not_have() -> None:
    async with SmallCluster(simulated()) as cluster:
        await bound(cluster, "GPU-other,NVIDIA,4000,0:")
        pod = await cluster.get(POD, "p")
        assert pod["metadata"]["annotations"][vgpu.BIND_PHASE] == "failed"
        assert pod["status"]["phase"] == "Failed"
        assert pod["status"]["reason"] == "UnexpectedAdmissionError"
        assert "card GPU-other, which node node-0 does not have" in pod["status"]["message"]
