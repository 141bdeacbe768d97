"""GPUs as devices of resource claims: published as slices, given to the pods that hold them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.nodes.kubelet.gpus.fake_nvml import FakeCard, FakeInstance, FakeNvml
from tests.nodes.kubelet.pods.bench import MACHINE, KubeletBench, bench
from volcano.kube.api.kinds import DEVICE_CLASS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Manifest, uid_of
from volcano.nodes.kubelet.device_claims import FAILED_CLAIMS, fetch_claims
from volcano.nodes.kubelet.gpus import slices
from volcano.nodes.kubelet.gpus.inventory import GPU
from volcano.nodes.kubelet.gpus.monitor import INTERVAL
from volcano.nodes.kubelet.gpus.nvml import NvmlReader
from volcano.nodes.shim.specs import Failure


def machine_with(*cards: FakeCard) -> dict[str, Any]:
    reader = NvmlReader(FakeNvml(*cards))
    found = reader.cards()
    whole = tuple(card.uuid for card in found if not card.partitioned)
    return {"machine": replace(MACHINE, gpus=whole, cards=found), "gpu_reader": reader}


def partitioned() -> FakeCard:
    return FakeCard("GPU-m", 1, mig=True, instances=[FakeInstance("MIG-1", "A MIG 1g.5gb", 4864, 7)])


async def published(kubelet: KubeletBench) -> dict[str, Manifest]:
    found = await kubelet.cluster.all(RESOURCE_SLICE)
    return {device["name"]: device for each in found for device in each["spec"].get("devices") or ()}


async def test_gpus_and_mig_instances_are_published_instead_of_counted() -> None:
    async with bench(**machine_with(FakeCard("GPU-a"), partitioned()), publish_devices=True) as kubelet:
        devices = await published(kubelet)
        assert sorted(devices) == ["gpu-0", "gpu-1-mig-7-0"]
        assert devices["gpu-0"]["attributes"]["uuid"] == {"string": "GPU-a"}
        assert devices["gpu-0"]["capacity"]["memory"]["value"] == "40Gi"
        assert devices["gpu-1-mig-7-0"]["attributes"]["profile"] == {"string": "1g.5gb"}
        (found,) = await kubelet.cluster.all(RESOURCE_SLICE)
        assert (found["spec"]["driver"], found["spec"]["nodeName"]) == ("gpu.nvidia.com", "local-0")
        node = await kubelet.cluster.get(NODE, "local-0")
        assert GPU not in node["status"]["allocatable"]
        assert found["metadata"]["ownerReferences"][0]["uid"] == uid_of(node)
        assert await kubelet.cluster.names(DEVICE_CLASS) == ["gpu.nvidia.com", "mig.nvidia.com"]


async def test_slices_are_republished_only_when_devices_change_and_removed_without_the_option() -> None:
    card = FakeCard("GPU-a")
    async with bench(**machine_with(card, FakeCard("GPU-b", 1)), publish_devices=True) as kubelet:
        (first,) = await kubelet.cluster.all(RESOURCE_SLICE)
        await kubelet.stop()
        await kubelet.begin()
        (again,) = await kubelet.cluster.all(RESOURCE_SLICE)
        assert uid_of(again) == uid_of(first)
        card.remapping_failed = 1
        await kubelet.pass_time(INTERVAL + 1)
        assert sorted(await published(kubelet)) == ["gpu-1"]
        (changed,) = await kubelet.cluster.all(RESOURCE_SLICE)
        assert changed["spec"]["pool"]["generation"] > first["spec"]["pool"]["generation"]
        await kubelet.stop()
        kubelet.options = replace(kubelet.options, publish_devices=False)
        await kubelet.begin()
        assert await kubelet.cluster.all(RESOURCE_SLICE) == []


def claiming(request: str = "") -> Manifest:
    wanted = {"name": "own", **({"request": request} if request else {})}
    return {"name": "c", "image": "i", "command": ["run"], "resources": {"claims": [wanted]}}


CLAIMS = [{"name": "own", "resourceClaimName": "one"}]


async def claim(kubelet: KubeletBench, *devices: tuple[str, str], pod: Manifest | None = None) -> None:
    """A claim that holds (request, device) pairs, reserved for a pod."""
    requests = [{"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com"}} for name, _ in devices]
    made = await kubelet.cluster.create(RESOURCE_CLAIM, "one", spec={"devices": {"requests": requests}})
    results = [
        {"request": name, "driver": slices.DRIVER, "pool": "local-0", "device": device}
        for name, device in devices
    ]
    reserved = [{"resource": "pods", "name": "p", "uid": uid_of(pod)}] if pod else []
    made["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    await kubelet.cluster.client.update(RESOURCE_CLAIM, made, subresource="status")


async def test_a_container_gets_the_devices_of_the_request_it_names() -> None:
    cards = [FakeCard(f"GPU-{name}", number) for number, name in enumerate("abc")]
    async with bench(**machine_with(*cards), publish_devices=True) as kubelet:
        pod = await kubelet.create("p", containers=[claiming("train")], resourceClaims=CLAIMS)
        assert await kubelet.events(FAILED_CLAIMS) == ["ResourceClaim one does not exist"]
        assert kubelet.runtime.starts == []
        await claim(kubelet, ("train", "gpu-2"), ("other", "gpu-0"), pod=pod)
        await kubelet.pass_time(30)
        spec = kubelet.runtime.starts[-1]
        assert spec.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-c"
        assert spec.gpus.names == ("GPU-c",)


async def test_a_claim_must_be_reserved_for_the_pod() -> None:
    async with bench(**machine_with(FakeCard("GPU-a")), publish_devices=True) as kubelet:
        await claim(kubelet, ("gpu", "gpu-0"))
        await kubelet.create("p", containers=[claiming()], resourceClaims=CLAIMS)
        (message,) = await kubelet.events(FAILED_CLAIMS)
        assert "ResourceClaim one is not reserved for this pod" in message
        assert kubelet.runtime.starts == []


async def test_a_claim_that_is_not_ready_is_explained() -> None:
    async with bench(**machine_with(FakeCard("GPU-a")), publish_devices=True) as kubelet:
        pod = await kubelet.create("p", containers=[claiming()], resourceClaims=CLAIMS)
        with pytest.raises(Failure, match="ResourceClaim one does not exist"):
            await fetch_claims(kubelet.cluster.client, pod)
        await claim(kubelet, ("gpu", "gpu-0"))
        with pytest.raises(Failure, match="ResourceClaim one is not reserved for this pod"):
            await fetch_claims(kubelet.cluster.client, pod)


def test_devices_of_other_drivers_and_nodes_are_not_ours() -> None:
    def result(**changes: str) -> Manifest:
        return {"request": "r", "driver": slices.DRIVER, "pool": "n", "device": "gpu-0", **changes}

    devices = {"gpu-0": "GPU-a"}
    held = [
        result(),
        result(driver="nic.example.com"),
        result(pool="m"),
        result(request="r/first", device="gpu-0"),
    ]
    found: Manifest = {"status": {"allocation": {"devices": {"results": held}}}}
    assert list(slices.claimed_uuids(found, "r", "n", devices)) == ["GPU-a", "GPU-a"]
    assert list(slices.claimed_uuids(found, "other", "n", devices)) == []
    held.append(result(device="gpu-7"))
    with pytest.raises(ValueError, match="device gpu-7 is not on node n"):
        list(slices.claimed_uuids(found, "", "n", devices))


async def test_the_pods_of_a_failed_claimed_device_are_told() -> None:
    card = FakeCard("GPU-a")
    async with bench(**machine_with(card), publish_devices=True) as kubelet:
        pod = await kubelet.create("p", containers=[claiming()], resourceClaims=CLAIMS)
        await claim(kubelet, ("gpu", "gpu-0"), pod=pod)
        await kubelet.pass_time(30)
        card.silent = True
        await kubelet.pass_time(INTERVAL + 1)
        assert any("which this pod uses" in text for text in await kubelet.events("UnhealthyDevice"))
