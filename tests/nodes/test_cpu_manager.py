"""The CPU manager of a node gives each CPU to one pod, and writes only what has changed."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from volcano.base.clock import Instant
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.operations import Create, Patch
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.assignment import POLICIES, SINGLE_NUMA_NODE
from volcano.kube.devices.numa.layout import Cpu, layout_of
from volcano.kube.devices.numa.topology import manifest_of, parse
from volcano.nodes.cpu_manager import CpuManager
from volcano.nodes.numatopology import write

EIGHT = layout_of({cpu: Cpu(cpu // 4, cpu // 4, cpu % 4 // 2) for cpu in range(8)})
NODE: Manifest = {"metadata": {"name": "n", "uid": "node-uid"}}
NOW = Instant(1_800_000_000.0, 0.0)


def pod(uid: str, *cpus: object, numa: str = "") -> Manifest:
    limits = [{"cpu": str(each), "memory": "1Gi"} for each in cpus]
    containers = [{"name": f"c{i}", "resources": {"limits": each}} for i, each in enumerate(limits)]
    decision = {"volcano.sh/topology-decision": json.dumps({"numa": {numa: {"cpu": "1"}}})} if numa else {}
    metadata = {"name": uid, "namespace": "default", "uid": uid, "annotations": decision}
    return {"metadata": metadata, "spec": {"containers": containers}}


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.lists(st.integers(1, 4), max_size=2),
        st.sampled_from(("", "0", "1", "7")),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from(POLICIES))
def test_no_cpu_is_given_to_two_pods(steps: list[tuple[str, list[int], str]], policy: str) -> None:
    manager = CpuManager("n", EIGHT, "static", policy)
    for uid, cpus, numa in steps:
        if not cpus:
            manager.release(uid)
            assert manager.cpus_of(uid) == {}
            continue
        before = manager.cpus_of(uid)
        rejection = manager.admit(pod(uid, *cpus, numa=numa))
        given_out: dict[str, Any] = dict(manager.cpus_of(uid))
        if before:
            assert given_out == before  # it keeps its CPUs
        elif rejection is None:
            assert [each.bit_count() for each in given_out.values()] == cpus
            if policy == SINGLE_NUMA_NODE:
                assert all(len(EIGHT.numa_nodes_of(each)) == 1 for each in given_out.values())
        sets = [each for found in manager.topology().pods for each in found.containers.values()]
        assert cpusets.union(sets).bit_count() == sum(each.bit_count() for each in sets)
        assert manager.shared == EIGHT.cpus & ~cpusets.union(sets)
        again = CpuManager("n", EIGHT, "static", policy)
        for found in parse(manifest_of(manager.topology())).pods:
            again.restore(found)
        assert again.topology() == manager.topology()


def test_a_rejection_says_how_many_cpus_are_free() -> None:
    manager = CpuManager("n", EIGHT, "static", "none")
    assert manager.admit(pod("a", 6)) is None
    rejection = manager.admit(pod("b", 4))
    assert rejection is not None
    assert rejection.reason == "UnexpectedAdmissionError"
    assert "requested=4, available=2" in rejection.message


def test_only_changes_are_written() -> None:
    manager = CpuManager("n", EIGHT, "static", "restricted")
    created = write(manager.topology(), None, NODE, NOW)
    assert isinstance(created, Create)
    assert created.manifest["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    published = parse(created.manifest)
    assert write(manager.topology(), published, NODE, NOW) is None
    manager.admit(pod("a", 2))
    patch = write(manager.topology(), published, NODE, NOW)
    assert isinstance(patch, Patch)
    assert patch.patch["spec"]["numares"]["cpu"]["allocatable"] == "2-7"
    assert "cpuDetail" not in patch.patch["spec"]


def test_a_smaller_machine_removes_the_cpus_that_are_gone() -> None:
    published = parse(manifest_of(CpuManager("n", EIGHT).topology()))
    smaller = CpuManager("n", layout_of({0: Cpu(), 1: Cpu(0, 0, 1)}))
    patch = write(smaller.topology(), published, NODE, NOW)
    assert isinstance(patch, Patch)
    assert patch.patch["spec"]["cpuDetail"]["7"] is None
    assert patch.patch["spec"]["cpuDetail"]["1"] == {"numa": 0, "socket": 0, "core": 1}
