"""Devices of a node with their owners."""

from tests.dashboard.data.builders import node, pod
from volcano.dashboard.data.devices import devices_of
from volcano.kube.devices import ascend, gpushare, vgpu
from volcano.kube.devices.ascend import Npu
from volcano.kube.devices.vgpu import Card, DeviceShare

CARDS = [Card("GPU-a", 10, 40960, "NVIDIA-A100"), Card("GPU-b", 10, 40960, "NVIDIA-A100", False)]


def assigned(*shares: DeviceShare) -> dict[str, str]:
    return {vgpu.ASSIGNED: vgpu.format_assignment([list(shares)])}


def test_shared_cards_have_the_pods_that_share_them() -> None:
    found = devices_of(
        node(
            "n",
            {vgpu.NUMBER: "20", vgpu.MEMORY: "81920"},
            annotations={vgpu.REGISTER: vgpu.format_register(CARDS)},
        ),
        [
            pod("a", "n", {}, job="train", annotations=assigned(DeviceShare("GPU-a", "NVIDIA", 10240, 30))),
            pod("b", "n", {}, annotations=assigned(DeviceShare("GPU-a", "NVIDIA", 20480, 0))),
        ],
    )
    assert [device.sentence() for device in found] == [
        "shared gpu 0 (A100, 40Gi, at most 10 containers): team/a (10Gi, 30 % of the cores), team/b (20Gi)",
        "shared gpu 1 (A100, 40Gi, at most 10 containers): unhealthy",
    ]
    assert found[0].used == 0.75
    assert [owner.job for owner in found[0].owners] == ["team/train", ""]


def test_mig_instances_are_named() -> None:
    card = Card("GPU-a", 7, 40960, "NVIDIA-A100", True, vgpu.MIG)
    share = DeviceShare(vgpu.mig_id("GPU-a", "group1", 2), "NVIDIA", 5120, 0)
    found = devices_of(
        node("n", {vgpu.NUMBER: "7"}, annotations={vgpu.REGISTER: vgpu.format_register([card])}),
        [pod("a", "n", {}, annotations=assigned(share))],
    )
    assert (
        found[0].sentence()
        == "mig card 0 (A100, 40Gi, at most 7 containers): team/a (instance group1-2, 5Gi)"
    )


def test_mig_resources_have_slots_per_profile() -> None:
    found = devices_of(
        node("n", {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"}),
        [pod("a", "n", {"nvidia.com/mig-1g.5gb": "1"})],
    )
    assert [device.sentence() for device in found] == [
        "mig-1g.5gb slot 0: team/a", "mig-1g.5gb slot 1: free", "mig-3g.20gb slot 0: free",
    ]  # fmt: skip


def test_cards_of_the_first_device_plugin_are_held_by_index() -> None:
    found = devices_of(
        node(
            "n",
            {gpushare.NUMBER: "2", gpushare.MEMORY: "20480"},
            annotations={gpushare.UNHEALTHY: "1"},
        ),
        [pod("a", "n", {gpushare.MEMORY: "5120"}, annotations={gpushare.INDEX: "0"})],
    )
    assert [device.sentence() for device in found] == [
        "gpu card 0 (10Gi): team/a (5Gi)",
        "gpu card 1 (10Gi): unhealthy",
    ]
    assert found[0].used == 0.5


def test_npus_have_the_pods_that_share_them() -> None:
    npu = Npu("NPU-a", 0, 7, 21527, 8, "Ascend310P")
    share = ascend.format_assignment([[DeviceShare("NPU-a", "Ascend310P", 6144, 2)]])
    found = devices_of(
        node(
            "n",
            {"huawei.com/Ascend310P": "7"},
            annotations={ascend.register_name("Ascend310P"): ascend.format_register([npu])},
        ),
        [pod("a", "n", {}, annotations={ascend.allocated_name("Ascend310P"): share})],
    )
    assert [(device.kind, [owner.part for owner in device.owners]) for device in found] == [
        ("Ascend310P", ["6Gi, 2 % of the cores"])
    ]


def test_invalid_annotations_are_taken_as_absent() -> None:
    bad = node("n", {gpushare.NUMBER: "1"}, annotations={vgpu.REGISTER: "x", ascend.register_name("A"): "{"})
    found = devices_of(bad, [pod("a", "n", {}, annotations={gpushare.INDEX: "x", vgpu.ASSIGNED: "x"})])
    assert [device.owners for device in found] == [()]


def test_ordinary_resources_are_no_devices() -> None:
    given = {"cpu": "4", "memory": "1Gi", "pods": "110", "ephemeral-storage": "1Gi", "hugepages-2Mi": "0"}
    assert devices_of(node("n", given), []) == ()
