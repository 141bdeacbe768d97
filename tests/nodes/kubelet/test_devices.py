"""Devices of containers: assigned once, reused after init containers, never while they fail."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.kubelet.pods.bench import MACHINE
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices import vgpu
from volcano.nodes.kubelet.devices import Allocation, DeviceManager, device_environment
from volcano.nodes.kubelet.gpus.inventory import GPU, Gpu, MigInstance
from volcano.nodes.kubelet.node import LocalNode, local_nodes, node_annotations
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.shim.specs import Failure

CARDS = tuple(Gpu(f"GPU-{name}", number, "NVIDIA A100", 16000, "") for number, name in enumerate("ab"))
PARTS = (MigInstance("MIG-1", "1g.5gb", 4864, 1, 0), MigInstance("MIG-2", "1g.5gb", 4864, 2, 0))
PARTITIONED = Gpu("GPU-m", 2, "NVIDIA A100", 40960, "", partitioned=True, instances=PARTS)


def node_with(*cards: Gpu, split: int = 0, unhealthy: dict[str, str] | None = None) -> LocalNode:
    whole = tuple(card.uuid for card in cards if not card.partitioned)
    machine = replace(MACHINE, gpus=whole, cards=cards)
    (node,) = local_nodes(machine, KubeletOptions(Path("/d"), names=("n",), share_gpus=split)).values()
    return replace(node, unhealthy=unhealthy or {})


def container(name: str = "main", count: int = 1, resource: str = GPU, **fields: Any) -> Manifest:
    return {"name": name, "resources": {"limits": {resource: str(count)}}, **fields}


def pod(uid: str, *containers: Manifest, init: tuple[Manifest, ...] = ()) -> Manifest:
    spec = {"nodeName": "n", "containers": list(containers), "initContainers": list(init)}
    return {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}


def test_gpus_stay_with_their_container_until_the_pod_is_removed() -> None:
    devices = DeviceManager({"n": node_with(*CARDS)})
    wants = container()
    assert devices.allocate("n", pod("u", wants), wants).uuids == ("GPU-a",)
    assert devices.allocate("n", pod("u", wants), wants).uuids == ("GPU-a",)
    assert devices.allocate("n", pod("v", wants), wants).uuids == ("GPU-b",)
    with pytest.raises(Failure, match=r"asks for 1 nvidia.com/gpu, of which 0 are free on n"):
        devices.allocate("n", pod("w", wants), wants)
    devices.release("n", "u")
    assert devices.allocate("n", pod("w", wants), wants).uuids == ("GPU-a",)


def test_a_container_reuses_the_gpus_of_init_containers_which_have_ended() -> None:
    devices = DeviceManager({"n": node_with(CARDS[0])})
    first, main = container("first"), container("main")
    both = pod("u", main, init=(first,))
    assert devices.allocate("n", both, first).uuids == ("GPU-a",)
    assert devices.allocate("n", both, main).uuids == ("GPU-a",)
    sidecar = container("side", restartPolicy="Always")
    with pytest.raises(Failure):
        devices.allocate("n", pod("v", main, init=(sidecar,)), sidecar)


def test_mig_instances_are_assigned_by_their_profile() -> None:
    devices = DeviceManager({"n": node_with(CARDS[0], PARTITIONED)})
    part = container(resource="nvidia.com/mig-1g.5gb")
    assert devices.allocate("n", pod("u", part), part).uuids == ("MIG-1",)
    assert devices.allocate("n", pod("v", part), part).uuids == ("MIG-2",)
    whole = container()
    assert devices.allocate("n", pod("w", whole), whole).uuids == ("GPU-a",)


def test_a_failed_card_is_counted_but_not_allocatable_and_not_assigned() -> None:
    node = node_with(*CARDS, unhealthy={"GPU-a": "lost"})
    assert (node.capacity()[GPU], node.allocatable()[GPU]) == ("2", "1")
    wants = container()
    assert DeviceManager({"n": node}).allocate("n", pod("u", wants), wants).uuids == ("GPU-b",)
    everything = node_with(CARDS[0], unhealthy={"GPU-a": "lost"})
    assert everything.allocatable()[GPU] == "0"


def test_shared_cards_are_registered_and_not_allocated_as_a_whole() -> None:
    node = node_with(*CARDS, PARTITIONED, split=10, unhealthy={"GPU-b": "lost"})
    resources = node.allocatable()
    assert GPU not in resources
    assert resources["nvidia.com/mig-1g.5gb"] == "2"
    assert (resources[vgpu.NUMBER], resources[vgpu.MEMORY], resources[vgpu.CORES]) == ("10", "16000", "100")
    assert node.capacity()[vgpu.NUMBER] == "20"
    cards = vgpu.parse_register(node_annotations(node)[vgpu.REGISTER])
    assert [(card.uuid, card.healthy) for card in cards] == [("GPU-a", True), ("GPU-b", False)]
    assert node_annotations(node_with(*CARDS)) == {}


def test_a_shared_card_is_named_to_its_container_with_the_share() -> None:
    node = node_with(*CARDS, split=4)
    wants = {"name": "main", "resources": {"limits": {vgpu.NUMBER: "1", vgpu.MEMORY: "4000"}}}
    sharing = pod("u", wants)
    sharing["metadata"]["annotations"] = {vgpu.ASSIGNED: "GPU-b,NVIDIA,4000,0:"}
    allocation = DeviceManager({"n": node}).allocate("n", sharing, wants)
    variables = device_environment(allocation, node, hide=True)
    assert variables["CUDA_VISIBLE_DEVICES"] == variables["NVIDIA_VISIBLE_DEVICES"] == "GPU-b"
    assert variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4000m"


def test_a_container_without_a_gpu_is_told_to_use_none_on_a_host_with_some() -> None:
    node = node_with(*CARDS)
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    assert device_environment(Allocation(), node, hide=True) == hidden
    assert device_environment(Allocation(), node, hide=False) == {}


def test_pods_that_use_a_device_are_known() -> None:
    devices = DeviceManager({"n": node_with(*CARDS)})
    wants = container()
    user, other = pod("u", wants), pod("v", {"name": "main"})
    devices.allocate("n", user, wants)
    assert devices.uses("n", user, "GPU-a")
    assert not devices.uses("n", user, "GPU-b")
    assert not devices.uses("n", other, "GPU-a")
    sharer = pod("w", {"name": "main", "resources": {"limits": {vgpu.NUMBER: "1"}}})
    sharer["metadata"]["annotations"] = {vgpu.ASSIGNED: "GPU-b,NVIDIA,4000,0:"}
    assert devices.uses("n", sharer, "GPU-b")


steps = st.lists(st.tuples(st.sampled_from("uvwx"), st.integers(0, 3), st.booleans()), max_size=30)


@given(steps)
def test_no_device_is_ever_assigned_to_two_pods(calls: list[tuple[str, int, bool]]) -> None:
    cards = tuple(Gpu(f"GPU-{number}", number, "A100", 1, "") for number in range(4))
    devices = DeviceManager({"n": node_with(*cards)})
    for uid, count, remove in calls:
        if remove:
            devices.release("n", uid)
        else:
            wants = container(f"c{count}", count)
            with contextlib.suppress(Failure):  # too few are free
                devices.allocate("n", pod(uid, wants), wants)
        held = [
            uuid for each in "uvwx" for uuids in devices.allocated_to("n", each).values() for uuid in uuids
        ]
        assert len(held) == len(set(held))
