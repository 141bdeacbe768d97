"""Devices of one pod."""

from tests.dashboard.data.builders import node, pod
from tests.dashboard.data.test_claimed_devices import CARDS, DRIVER, claim
from tests.dashboard.data.test_devices import assigned
from volcano.dashboard.data.devices import devices_of
from volcano.dashboard.data.pod_devices import claimed_rows, held_rows
from volcano.kube.devices import vgpu
from volcano.kube.devices.dra.slices import node_slices
from volcano.kube.devices.vgpu import Card, DeviceShare


def test_whole_devices_are_counted_because_only_their_node_knows_them() -> None:
    mine, other = pod("a", "n", {"nvidia.com/gpu": "2"}), pod("b", "n", {"nvidia.com/gpu": "1"})
    devices = devices_of(node("n", {"nvidia.com/gpu": "8"}), [mine, other])
    assert held_rows(devices, mine) == [("2 of the node's", "gpu", "", "")]
    assert held_rows(devices, pod("c", "n", {})) == []


def test_a_share_of_a_card_is_named_by_index_and_part() -> None:
    cards = [Card("GPU-a", 10, 40960, "NVIDIA-A100"), Card("GPU-b", 10, 40960, "NVIDIA-A100")]
    mine = pod("a", "n", {}, annotations=assigned(DeviceShare("GPU-b", "NVIDIA", 10240, 30)))
    other = pod("b", "n", {}, annotations=assigned(DeviceShare("GPU-b", "NVIDIA", 20480, 0)))
    registered = node("n", {vgpu.NUMBER: "20"}, annotations={vgpu.REGISTER: vgpu.format_register(cards)})
    assert held_rows(devices_of(registered, [mine, other]), mine) == [
        ("1", "shared gpu", "10Gi, 30 % of the cores", "A100, 40Gi, at most 10 containers")
    ]


def test_a_mig_instance_is_named() -> None:
    card = Card("GPU-a", 7, 40960, "NVIDIA-A100", True, vgpu.MIG)
    mine = pod(
        "a",
        "n",
        {},
        annotations=assigned(DeviceShare(vgpu.mig_id("GPU-a", "group1", 2), "NVIDIA", 5120, 0)),
    )
    registered = node("n", {vgpu.NUMBER: "7"}, annotations={vgpu.REGISTER: vgpu.format_register([card])})
    ((name, kind, part, _),) = held_rows(devices_of(registered, [mine]), mine)
    assert (name, kind, part) == ("0", "mig card", "instance group1-2, 5Gi")


def test_devices_of_claims_have_their_claim_and_what_their_node_publishes() -> None:
    mine = pod("a", "n", {})
    slices = node_slices("n", DRIVER, CARDS)
    assert claimed_rows(slices, [claim("c", "gpu-1-mig-1-0", "a")], mine) == [
        ("gpu-1-mig-1-0", "gpu.nvidia.com 1g.5gb", "claim c", "A100, 5Gi")
    ]


def test_without_the_slices_of_the_node_devices_of_claims_have_their_names_only() -> None:
    assert claimed_rows([], [claim("c", "gpu-0", "a")], pod("a", "n", {})) == [
        ("gpu-0", DRIVER, "claim c", "")
    ]


def test_a_claim_that_waits_has_no_device_yet() -> None:
    waiting = {"metadata": {"name": "c", "namespace": "team"}, "status": {}}
    assert claimed_rows([], [waiting], pod("a", "n", {})) == [("none yet", "", "claim c", "")]
