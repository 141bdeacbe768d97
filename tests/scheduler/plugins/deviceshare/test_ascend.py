"""Ascend vNPUs of HAMi."""

from typing import Any

import pytest

from tests.builders import START, node
from tests.scenario import Result
from tests.scheduler.plugins.deviceshare.cards import Cards, containers, device_config, plugin, pods
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices import ascend
from volcano.kube.devices.ascend import Npu
from volcano.model.decisions import Bind

WORD, RESOURCE = "Ascend310P", "huawei.com/Ascend310P"
ALLOCATED = f"hami.io/{WORD}-devices-allocated"
SOFT = {ascend.MODE: "hami-core"}


def npu(uuid: str, **options: Any) -> Npu:
    return Npu(uuid, **{"index": 0, "count": 7, "memory": 21527, "cores": 8, "type": WORD, **options})


def machine(*devices: Npu, soft: str = "", word: str = WORD) -> Manifest:
    notes = {ascend.register_name(word): ascend.format_register(devices or (npu("n0"),))}
    if soft:
        notes[ascend.SOFT_PARTITIONS] = soft
    amounts: dict[str, Any] = {f"huawei.com/{word}": 7 * max(len(devices), 1)}
    return node("a", cpu=64, annotations=notes, **amounts)


def ask(number: int = 0, memory: int = 0, core: int = 0, word: str = WORD) -> dict[str, Any]:
    names = {
        f"huawei.com/{word}": number,
        f"huawei.com/{word}-memory": memory,
        f"huawei.com/{word}-core": core,
    }
    return {name: amount for name, amount in names.items() if amount}


def world(*jobs: Any, nodes: Any = None, policy: str = "binpack", **options: Any) -> Cards:
    arguments = {"deviceshare.AscendHAMiVNPUEnable": True, "deviceshare.SchedulePolicy": policy}
    return Cards(nodes=nodes or [machine()], jobs=jobs, plugins=[plugin(**arguments)], **options)


def npus(result: Result, word: str = WORD) -> dict[str, str]:
    return {
        d.name: d.annotations[ascend.allocated_name(word)] for d in result.decisions if isinstance(d, Bind)
    }


def test_memory_is_rounded_up_to_a_template_and_the_annotations_are_hami_s() -> None:
    result = world(pods("p", **ask(memory=4096))).cycle()
    (bind,) = [d for d in result.decisions if isinstance(d, Bind)]
    seconds = str(int(START))
    assert bind.annotations == {
        "hami.io/Ascend310P-devices-to-allocate": "n0,Ascend310P,6144,2:;",
        "hami.io/Ascend310P-devices-allocated": "n0,Ascend310P,6144,2:;",
        "huawei.com/Ascend310P": '[{"UUID":"n0","temp":"vir02"}]',
        "predicate-time": seconds,
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-time": seconds,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": seconds,
    }


def test_several_devices_have_to_be_whole() -> None:
    result = world(pods("p", **ask(2, 4096)), nodes=[machine(npu("n0"), npu("n1"))]).cycle()
    assert result.said("p-worker-0") == (
        "vNPU does not support partial memory allocation when requesting multiple devices"
    )
    whole = world(pods("p", **ask(2)), nodes=[machine(npu("n0"), npu("n1"))]).cycle()
    assert npus(whole) == {"p-worker-0": "n0,Ascend310P,21527,0:n1,Ascend310P,21527,0:;"}


@pytest.mark.parametrize(
    ("memory", "expected"),
    [(1, "3072,1"), (3072, "3072,1"), (12288, "12288,4"), (12289, "21527,8"), (24576, "21527,8")],
)
def test_templates(memory: int, expected: str) -> None:
    result = world(pods("p", **ask(1, memory))).cycle()
    assert npus(result) == {"p-worker-0": f"n0,Ascend310P,{expected}:;"}


def test_more_memory_than_a_device_has_does_not_fit() -> None:
    assert npus(world(pods("p", **ask(1, 24577))).cycle()) == {}


def test_a_device_is_not_given_more_memory_or_cores_than_it_has() -> None:
    cluster = world(pods("p", 4, **ask(1, 6000)))
    result = cluster.cycle()
    assert len(npus(result)) == 3  # 3 × 6144 of 21527, 6 of 8 cores
    cluster.add(pods("q", 2, **ask(1, 3000)))
    assert len(npus(cluster.cycle())) == 1  # one more of 3072; its cores would suffice for two


def test_partitions_by_software_need_a_node_that_allows_them() -> None:
    options: dict[str, Any] = {"annotations": SOFT, **ask(1, 4096, 50)}
    refused = world(pods("p", **options)).cycle()
    assert refused.said("p-worker-0") == (
        "0/1 nodes are available: 1 no NPU has 4096 MiB and 50% of its cores free: 1 without partitions by software."
    )
    for allowed in (
        world(pods("p", **options), nodes=[machine(soft="true")]),
        world(pods("p", **options), others=[device_config(CONFIG)]),
    ):
        (bind,) = [d for d in allowed.cycle().decisions if isinstance(d, Bind)]
        assert bind.annotations["huawei.com/Ascend310P"] == '[{"UUID":"n0","memory":4096,"core":50}]'
    overridden = world(pods("p", **options), nodes=[machine(soft="false")], others=[device_config(CONFIG)])
    assert npus(overridden.cycle()) == {}


CONFIG = """
vnpus:
  hamiVnpuCore: true
  configs:
  - commonWord: Ascend310P
    resourceName: huawei.com/Ascend310P
    memoryAllocatable: 21527
    memoryCapacity: 24576
    aiCore: 8
    templates: [{name: vir02, memory: 6144, aiCore: 2}]
"""
CONFIG_910 = """
vnpus:
- commonWord: Ascend910B
  resourceName: huawei.com/Ascend910B
  memoryAllocatable: 65536
  memoryCapacity: 65536
  aiCore: 20
"""


def test_containers_of_a_pod_do_not_share_a_device() -> None:
    spec = containers(ask(1, 3000), ask(1, 3000))
    assert npus(world(pods("p", spec=spec)).cycle()) == {}
    two = world(pods("p", spec=spec), nodes=[machine(npu("n0"), npu("n1"))]).cycle()
    assert npus(two) == {"p-worker-0": "n0,Ascend310P,3072,1:;n1,Ascend310P,3072,1:;"}


def test_devices_of_one_network_are_used_together() -> None:
    devices = [npu(f"n{i}", memory=65536, cores=20, network=i // 2 if i < 4 else 2) for i in range(7)]
    cluster = world(
        pods("p", **ask(3, word="Ascend910B")),
        nodes=[machine(*devices, word="Ascend910B")],
        others=[device_config(CONFIG_910)],
    )
    (text,) = npus(cluster.cycle(), "Ascend910B").values()
    assert [entry.split(",")[0] for entry in text.rstrip(":;").split(":")] == ["n4", "n5", "n6"]


def test_unhealthy_devices_and_those_to_avoid_are_left_out() -> None:
    devices = [npu("n0", healthy=False), npu("n1"), npu("n2")]
    avoid = {ascend.avoid_uuid_name(WORD): "n1"}
    assert npus(world(pods("p", **ask(1, 3000)), nodes=[machine(*devices)]).cycle()) == {
        "p-worker-0": "n1,Ascend310P,3072,1:;"
    }
    assert npus(world(pods("p", annotations=avoid, **ask(1, 3000)), nodes=[machine(*devices)]).cycle()) == {
        "p-worker-0": "n2,Ascend310P,3072,1:;"
    }


def test_devices_of_running_pods_are_known_after_a_restart() -> None:
    running = pods("p", on="a", annotations={ALLOCATED: "n0,Ascend310P,21527,8:;"}, **ask(1))
    assert npus(world(running, pods("q", **ask(1, 3000))).cycle()) == {}


@pytest.mark.parametrize(("policy", "expected"), [("binpack", ["n0", "n0"]), ("spread", ["n0", "n1"])])
def test_the_policy_orders_devices(policy: str, expected: list[str]) -> None:
    cluster = world(pods("p", 2, **ask(1, 3000)), nodes=[machine(npu("n0"), npu("n1"))], policy=policy)
    assert [text.split(",")[0] for _, text in sorted(npus(cluster.cycle()).items())] == expected
