"""The Numatopology object, and which pods get CPUs of their own."""

import pytest

from tests.builders import numatopology
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.requests import exclusive_cpus, is_guaranteed
from volcano.kube.devices.numa.topology import manifest_of, parse, spec_of


def test_zeros_and_empty_fields_may_be_missing() -> None:
    manifest = numatopology("n", 2, 2, allocatable="1-3", reserved="500m", pods={"uid-a": "0"})
    assert manifest["spec"]["cpuDetail"]["0"] == {}
    found = parse(manifest)
    assert found.node == "n"
    assert found.layout.numa_nodes == {0: 0b0011, 1: 0b1100}
    assert found.allocatable == 0b1110
    assert (found.cpu_manager, found.policy) == ("static", "best-effort")
    assert cpusets.text_of(found.reserved) == "0"
    assert found.pods[0].all_cpus == 0b1
    empty = parse({"metadata": {"name": "m"}})
    assert (empty.layout.cpus, empty.allocatable, empty.policy, empty.cpu_manager) == (
        0,
        None,
        "none",
        "none",
    )


def test_a_published_topology_reads_back_the_same() -> None:
    found = parse(numatopology("n", 2, 4, threads=2, reserved=1, pods={"uid-a": "2-3"}))
    again = parse(manifest_of(found))
    assert again == found
    assert again.layout is found.layout
    assert spec_of(again)["numares"]["cpu"] == {"allocatable": "0-1,4-7", "capacity": 8}


@pytest.mark.parametrize("change", [{"x": {}}, {"-1": {}}, {"99999999": {}}])
def test_impossible_cpu_numbers_are_rejected(change: dict[str, object]) -> None:
    manifest = numatopology("n")
    manifest["spec"]["cpuDetail"] = change
    with pytest.raises(ValueError, match=r".+"):
        parse(manifest)


def container(name: str = "main", **resources: object) -> dict[str, object]:
    return {"name": name, "resources": resources}


FULL = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "guaranteed", "cpus"),
    [
        pytest.param({"containers": [container(limits=FULL)]}, True, {"main": 2}, id="limits alone"),
        pytest.param({"containers": [container(limits=FULL, requests=FULL)]}, True, {"main": 2}, id="equal"),
        pytest.param(
            {"containers": [container(limits=FULL, requests={"cpu": "1"})]}, False, {}, id="burstable"
        ),
        pytest.param({"containers": [container(requests=FULL)]}, False, {}, id="no limits"),
        pytest.param({"containers": [container(limits={"cpu": "2"})]}, False, {}, id="no memory"),
        pytest.param({"containers": [container()]}, False, {}, id="best effort"),
        pytest.param({}, False, {}, id="no containers"),
        pytest.param(
            {
                "containers": [
                    container(limits=FULL),
                    container("b", limits={"cpu": "1500m", "memory": "1Gi"}),
                ]
            },
            True,
            {"main": 2, "b": 0},
            id="a fraction uses shared cpus",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": "500m", "memory": "1Gi"})]},
            True,
            {},
            id="only a fraction",
        ),
        pytest.param(
            {"containers": [container(limits=FULL)], "initContainers": [container("i")]},
            False,
            {},
            id="an init container without limits",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"limits": FULL}}, True, {}, id="limits of the pod"
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": "2000m", "memory": "1Gi"})]},
            True,
            {"main": 2},
            id="milli",
        ),
    ],
)
def test_guaranteed_pods_with_whole_cpus_get_their_own(
    spec: dict[str, object], guaranteed: bool, cpus: dict[str, int]
) -> None:
    assert is_guaranteed(spec) is guaranteed
    assert exclusive_cpus(spec) == cpus
