"""GPU types and shares of pods."""

import pytest

from tests.accounting.recorder.pods import added, pod
from volcano.accounting.recorder.gpus import GpuInventory, Gpus
from volcano.kube.api.kinds import NODE
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_requests import requests_of

REGISTER = "GPU-1,10,40960,NVIDIA-A100,true,hami-core:GPU-2,10,40960,NVIDIA-A100,true,hami-core:"


def gpus_of(manifest: Manifest, **node: Manifest) -> Gpus:
    inventory = GpuInventory()
    metadata = {
        "name": "n1",
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100"},
        "annotations": {"volcano.sh/node-vgpu-register": REGISTER},
    }
    capacity = {"volcano.sh/gpu-memory": "32000", "volcano.sh/gpu-number": "2"}
    inventory.on_event(added({"metadata": metadata, "status": {"capacity": capacity}, **node}, NODE))
    return inventory.of(manifest, requests_of(manifest["spec"]))


def requesting(**resources: str) -> Manifest:
    return pod(
        resources={"limits": {name.replace("__", "/").replace("_", "-"): v for name, v in resources.items()}}
    )


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(requesting(cpu="1"), Gpus(), id="none"),
        pytest.param(
            pod(resources={"limits": {"nvidia.com/gpu": "4"}}), Gpus("NVIDIA-H100", 4.0), id="whole GPUs"
        ),
        pytest.param(
            pod(resources={"limits": {"nvidia.com/mig-3g.40gb": "2"}}),
            Gpus("NVIDIA-H100 3g.40gb", 6 / 7),
            id="MIG instances",
        ),
        pytest.param(
            pod(resources={"limits": {"volcano.sh/gpu-memory": "4000"}}),
            Gpus("NVIDIA-H100", 0.25),
            id="a quarter by memory",
        ),
        pytest.param(
            pod(
                resources={"limits": {"volcano.sh/vgpu-number": "2"}},
                annotations={"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,10240,10:GPU-2,NVIDIA,4096,50:"},
            ),
            Gpus("A100", 0.75),
            id="shares of two cards, by memory and by cores",
        ),
        pytest.param(
            pod(resources={"limits": {"huawei.com/Ascend910A": "8", "huawei.com/Ascend910A-memory": "64"}}),
            Gpus("Ascend910A", 8.0),
            id="NPUs",
        ),
        pytest.param(
            pod(annotations={"volcano.sh/vgpu-ids-new": "not an assignment"}),
            Gpus(),
            id="a malformed assignment",
        ),
    ],
)
def test_gpus_of_a_pod(manifest: Manifest, expected: Gpus) -> None:
    found = gpus_of(manifest)
    assert found.type == expected.type
    assert found.number == pytest.approx(expected.number)


def test_a_node_without_a_label_gives_the_name_of_the_resource() -> None:
    manifest = pod(resources={"limits": {"amd.com/gpu": "1"}})
    assert GpuInventory().of(manifest, requests_of(manifest["spec"])) == Gpus("amd.com/gpu", 1.0)
