"""GPUs on a kubelet: failing cards are withdrawn and reported, shares are handed out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.nodes.kubelet.gpus.fake_nvml import FakeCard, FakeNvml
from tests.nodes.kubelet.pods.bench import MACHINE, KubeletBench, bench
from volcano.kube.api.kinds import EVENT, NODE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.devices import vgpu
from volcano.nodes.kubelet.gpus.inventory import GPU
from volcano.nodes.kubelet.gpus.monitor import INTERVAL
from volcano.nodes.kubelet.gpus.nvml import NvmlReader


@asynccontextmanager
async def with_cards(*cards: FakeCard, **choices: Any) -> AsyncIterator[tuple[KubeletBench, FakeNvml]]:
    module = FakeNvml(*cards)
    reader = NvmlReader(module)
    found = reader.cards()
    machine = replace(MACHINE, gpus=tuple(card.uuid for card in found), cards=found)
    async with bench(machine=machine, gpu_reader=reader, **choices) as kubelet:
        yield kubelet, module


def container(**limits: str) -> list[Manifest]:
    names = {"gpu": GPU, "number": vgpu.NUMBER, "memory": vgpu.MEMORY}
    resources = {"limits": {names[name]: amount for name, amount in limits.items()}}
    return [{"name": "c", "image": "i", "command": ["run"], "resources": resources}]


async def node(kubelet: KubeletBench) -> Manifest:
    return await kubelet.cluster.get(NODE, "local-0")


async def events_about(kubelet: KubeletBench, kind: str, reason: str) -> list[str]:
    await kubelet.settle()
    events = await kubelet.cluster.all(EVENT)
    return [e["message"] for e in events if e["reason"] == reason and e["involvedObject"]["kind"] == kind]


async def test_a_failing_card_is_not_allocatable_until_it_recovers() -> None:
    first = FakeCard("GPU-a", 0)
    async with with_cards(first, FakeCard("GPU-b", 1), FakeCard("GPU-c", 2)) as (kubelet, _):
        assert (await node(kubelet))["status"]["allocatable"][GPU] == "3"
        await kubelet.create("user", containers=container(gpu="1"))
        await kubelet.create("other", containers=container())
        first.remapping_failed = 1
        await kubelet.pass_time(INTERVAL + 1)
        status = (await node(kubelet))["status"]
        assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("3", "2")
        about_node = await events_about(kubelet, "Node", "UnhealthyDevice")
        assert about_node == [
            "GPU GPU-a (NVIDIA A100-PCIE-40GB) failed and is not allocated any more: "
            "faulty memory could not be remapped"
        ]
        about_pods = await events_about(kubelet, "Pod", "UnhealthyDevice")
        assert len(about_pods) == 1
        assert "GPU-a (NVIDIA A100-PCIE-40GB), which this pod uses, failed" in about_pods[0]
        await kubelet.create("next", containers=container(gpu="1"))
        assert kubelet.runtime.starts[-1].environment["CUDA_VISIBLE_DEVICES"] == "GPU-b"
        first.remapping_failed = 0
        await kubelet.pass_time(INTERVAL + 1)
        assert (await node(kubelet))["status"]["allocatable"][GPU] == "3"
        assert await events_about(kubelet, "Node", "HealthyDevice")


async def test_the_load_of_cards_is_kept_for_metrics() -> None:
    async with with_cards(FakeCard("GPU-a", used=512, utilization=40)) as (kubelet, _):
        await kubelet.settle()
        assert kubelet.kubelet.gpus is not None
        (load,) = kubelet.kubelet.gpus.load
        assert (load.utilization, load.memory_used) == (40.0, 512)


def assigned(text: str) -> dict[str, Any]:
    annotations = {
        vgpu.NODE: "local-0",
        vgpu.TIME: "1",
        vgpu.ASSIGNED: text,
        vgpu.TO_ALLOCATE: text,
        vgpu.BIND_PHASE: "allocating",
    }
    return {"annotations": annotations}


async def test_shares_of_cards_are_handed_out_and_the_node_is_unlocked() -> None:
    async with with_cards(FakeCard("GPU-a"), share_gpus=4) as (kubelet, _):
        registered = await node(kubelet)
        (card,) = vgpu.parse_register(registered["metadata"]["annotations"][vgpu.REGISTER])
        assert (card.uuid, card.split, card.memory) == ("GPU-a", 4, 40960)
        assert registered["status"]["allocatable"][vgpu.NUMBER] == "4"
        assert GPU not in registered["status"]["allocatable"]
        lock = {"metadata": {"annotations": {vgpu.LOCK: "2026-01-01T00:00:00Z"}}}
        await kubelet.cluster.client.patch(NODE, Key("", "local-0"), lock)
        shares = container(number="1", memory="4000")
        await kubelet.create("p", metadata=assigned("GPU-a,NVIDIA,4000,0:"), containers=shares)
        annotations = (await kubelet.pod())["metadata"]["annotations"]
        assert annotations[vgpu.BIND_PHASE] == "success"
        assert annotations[vgpu.TO_ALLOCATE] == ""
        assert annotations[vgpu.TIME] == vgpu.HANDED_OUT
        assert vgpu.LOCK not in (await node(kubelet))["metadata"]["annotations"]
        spec = kubelet.runtime.starts[-1]
        assert spec.environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4000m"
        assert spec.gpus.names == ("GPU-a",)
        assert any("shared GPUs are not enforced" in text for text in await kubelet.events("LimitedRuntime"))


async def test_a_failing_shared_card_is_registered_as_unhealthy() -> None:
    card = FakeCard("GPU-a")
    async with with_cards(card, share_gpus=4) as (kubelet, _):
        shares = container(number="1", memory="4000")
        await kubelet.create("p", metadata=assigned("GPU-a,NVIDIA,4000,0:"), containers=shares)
        card.silent = True
        await kubelet.pass_time(INTERVAL + 1)
        found = await node(kubelet)
        (registered,) = vgpu.parse_register(found["metadata"]["annotations"][vgpu.REGISTER])
        assert not registered.healthy
        assert found["status"]["allocatable"][vgpu.NUMBER] == "0"
        assert await events_about(kubelet, "Pod", "UnhealthyDevice")


async def test_a_pod_without_an_assignment_is_rejected() -> None:
    async with with_cards(FakeCard("GPU-a"), share_gpus=4) as (kubelet, _):
        await kubelet.create("p", containers=container(number="1", memory="4000"))
        status = await kubelet.status()
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert "plugin deviceshare assigns them" in status["message"]


async def test_shares_of_unknown_cards_are_reported_as_failed() -> None:
    async with with_cards(FakeCard("GPU-a"), share_gpus=4) as (kubelet, _):
        shares = container(number="1", memory="4000")
        await kubelet.create("p", metadata=assigned("GPU-z,NVIDIA,4000,0:"), containers=shares)
        pod = await kubelet.pod()
        assert pod["metadata"]["annotations"][vgpu.BIND_PHASE] == "failed"
        assert "which node local-0 does not have" in pod["status"]["message"]
