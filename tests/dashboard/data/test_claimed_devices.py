"""Devices of ResourceSlices with the pods that hold them."""

from typing import Any

from tests.dashboard.data.builders import pod
from volcano.dashboard.data.claimed_devices import claimed_devices
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.dra.slices import device, node_slices

DRIVER = "gpu.nvidia.com"
CARDS = [
    device("gpu-0", {"type": "gpu", "productName": "A100", "uuid": "GPU-a"}, {"memory": "40Gi"}),
    device("gpu-1-mig-1-0", {"type": "mig", "productName": "A100", "profile": "1g.5gb"}, {"memory": "5Gi"}),
]


def claim(name: str, device_name: str, *pods: str) -> Manifest:
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": device_name}
    reserved: list[dict[str, Any]] = [{"resource": "pods", "name": each, "uid": each} for each in pods]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
    }


def test_devices_have_the_pods_of_their_claims() -> None:
    found = claimed_devices(
        node_slices("n", DRIVER, CARDS), [claim("c", "gpu-0", "a", "b")], [pod("a", "n", {}, job="train")]
    )
    assert [each.sentence() for each in found] == [
        "gpu.nvidia.com gpu-0 (A100, 40Gi): team/a (claim c), team/b (claim c)",
        "gpu.nvidia.com 1g.5gb gpu-1-mig-1-0 (A100, 5Gi): free",
    ]
    assert [owner.job for owner in found[0].owners] == ["team/train", ""]
    assert found[0].used == 1.0


def test_an_allocated_claim_without_a_pod_holds_its_device() -> None:
    found = claimed_devices(node_slices("n", DRIVER, CARDS), [claim("c", "gpu-0")], [])
    assert found[0].sentence() == "gpu.nvidia.com gpu-0 (A100, 40Gi): team/c (allocated, used by no pod)"


def test_slices_of_an_older_generation_do_not_count() -> None:
    old, new = (
        node_slices("n", DRIVER, CARDS, generation=1),
        node_slices("n", DRIVER, CARDS[:1], generation=2),
    )
    assert [each.name for each in claimed_devices([*old, *new], [], [])] == ["gpu-0"]


def test_a_device_with_a_taint_that_evicts_is_unhealthy() -> None:
    tainted = device("gpu-0", {}, taints=[{"key": "broken", "effect": "NoExecute"}])
    found = claimed_devices(node_slices("n", DRIVER, [tainted]), [], [])
    assert [each.healthy for each in found] == [False]
