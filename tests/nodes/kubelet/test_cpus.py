"""Local nodes give CPUs to Guaranteed pods, publish them, and keep them over a restart."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.kubelet.pods.bench import MACHINE, KubeletBench, bench
from volcano.kube.api.kinds import NODE, NUMATOPOLOGY, POD
from volcano.kube.api.manifest import Key
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.layout import Cpu
from volcano.kube.devices.numa.topology import parse
from volcano.nodes.kubelet.cpu_layout import divided, host_cpus

EIGHT = {cpu: Cpu(cpu // 4, cpu // 4, cpu % 4) for cpu in range(8)}  # two NUMA nodes
STATIC: dict[str, Any] = {
    "cpus": EIGHT,
    "cpu_manager_policy": "static",
    "topology_manager_policy": "single-numa-node",
    "machine": MACHINE,
}


def guaranteed(cpu: object, name: str = "c") -> dict[str, Any]:
    limits = {"cpu": str(cpu), "memory": "1Mi"}
    container = {"name": name, "image": "i", "command": ["true"]}
    return {"containers": [{**container, "resources": {"limits": limits, "requests": limits}}]}


async def published(it: KubeletBench, node: str = "local-0") -> dict[str, str]:
    """CPUs of pods, and "" for the shared ones."""
    found = parse(await it.cluster.get(NUMATOPOLOGY, node))
    pods = {pod.name: cpusets.text_of(pod.all_cpus) for pod in found.pods}
    return {**pods, "": cpusets.text_of(found.allocatable or 0)}


async def test_pods_get_cpus_of_their_own_and_free_them_when_they_end() -> None:
    async with bench(**STATIC) as it:
        assert await published(it) == {"": "0-7"}
        await it.create("p", restartPolicy="Never", **guaranteed(2))
        assert list(it.runtime.starts[-1].cpus) == [0, 1]
        assert await published(it) == {"p": "0-1", "": "2-7"}
        await it.create("fraction", **guaranteed("500m", "f"))
        assert not it.runtime.starts[-1].cpus
        await it.end("c", 0)
        assert (await it.status("p"))["phase"] == "Succeeded"
        assert await published(it) == {"": "0-7"}


async def test_the_decision_of_the_scheduler_is_preferred() -> None:
    async with bench(**STATIC) as it:
        decision = json.dumps({"numa": {"1": {"cpu": "2"}}})
        await it.create(
            "p", metadata={"annotations": {"volcano.sh/topology-decision": decision}}, **guaranteed(2)
        )
        assert await published(it) == {"p": "4-5", "": "0-3,6-7"}


async def test_a_pod_that_fits_in_no_numa_node_is_rejected() -> None:
    async with bench(**{**STATIC, "cpus": {cpu: Cpu(cpu, cpu, 0) for cpu in range(4)}}) as it:
        await it.create("p", **guaranteed(2))
        status = await it.status("p")
        assert (status["phase"], status["reason"]) == ("Failed", "TopologyAffinityError")
        assert await published(it) == {"": "0-3"}


async def test_cpus_survive_a_restart_of_the_kubelet() -> None:
    async with bench(**STATIC) as it:
        await it.create("a", **guaranteed(1, "a"))
        await it.create("b", **guaranteed(1, "b"))
        await it.cluster.delete(POD, "a", grace=0)
        await it.settle()
        assert await published(it) == {"b": "1", "": "0,2-7"}
        await it.stop()
        await it.begin()
        await it.settle()
        assert await published(it) == {"b": "1", "": "0,2-7"}
        await it.create("c", **guaranteed(2, "c"))
        assert (await published(it))["b"] == "1"
        assert set(it.runtime.starts[-1].cpus) <= {0, 2, 3}


async def test_a_damaged_state_file_loses_only_the_cpus_of_pods() -> None:
    async with bench(**STATIC) as it:
        await it.create("a", **guaranteed(1, "a"))
        await it.stop()
        (it.options.directory / "cpu_manager_state").write_text("{")
        await it.begin()
        await it.settle()
        assert await published(it) == {"": "0-7"}


async def test_without_the_static_policy_no_cpus_are_given_out() -> None:
    async with bench(cpus=EIGHT) as it:
        await it.create("p", **guaranteed(2))
        assert not it.runtime.starts[-1].cpus
        found = parse(await it.cluster.get(NUMATOPOLOGY, "local-0"))
        assert (found.cpu_manager, found.policy, found.pods) == ("none", "none", ())


async def test_nodes_of_one_host_have_different_cpus() -> None:
    async with bench(nodes=2, **STATIC) as it:
        assert await published(it, "local-0") == {"": "0-3"}
        assert await published(it, "local-1") == {"": "4-7"}


async def test_nothing_is_published_for_a_deleted_node() -> None:
    async with bench(**STATIC) as it:
        await it.cluster.client.delete(NODE, Key("", "local-0"))
        await it.cluster.client.delete(NUMATOPOLOGY, Key("", "local-0"))
        await it.create("p", **guaranteed(2))
        assert await it.cluster.all(NUMATOPOLOGY) == []


def test_the_layout_of_this_host_is_read_from_the_kernel(tmp_path: Path) -> None:
    for cpu in range(4):
        topology = tmp_path / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("-1\n" if cpu == 3 else f"{cpu // 2}\n")
        (topology / "core_id").write_text(f"{cpu % 2}\n")
    for number, cpus in enumerate(("0-1", "2-3")):
        (tmp_path / f"node/node{number}").mkdir(parents=True)
        (tmp_path / f"node/node{number}/cpulist").write_text(f"{cpus}\n")
    (tmp_path / "node/node9").mkdir()
    assert host_cpus(tmp_path, frozenset({0, 2, 3, 7})) == {
        0: Cpu(0, 0, 0),
        2: Cpu(1, 1, 0),
        3: Cpu(1, 0, 1),
        7: Cpu(0, 0, 7),
    }
    assert set(host_cpus()) == set(host_cpus(tmp_path))


@pytest.mark.parametrize(("parts", "sizes"), [(1, [8]), (3, [2, 3, 3]), (10, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1])])
def test_cpus_are_divided_evenly(parts: int, sizes: list[int]) -> None:
    found = divided(EIGHT, parts)
    assert sorted(map(len, found)) == sizes
    assert sorted(cpu for part in found for cpu in part) == list(range(8))
