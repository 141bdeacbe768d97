"""Topology on a real API server: hard gangs, partitions, preemption inside a domain, and discovery from labels."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import started
from tests.k8s.conftest import CONFIGURATION
from tests.k8s.load import job, task
from tests.k8s.plain import GROUPS, until
from tests.k8s.programs import ELECTION, Programs, programs_on
from tests.k8s.test_scenarios import FOREVER, PRIORITIES, SOON, Scenario

pytestmark = pytest.mark.k8s

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
CONFIG_MAPS = "/api/v1/namespaces/volcano-system/configmaps"
NODES, RACK, SPINE = 8, 2, 2
IN_RACK = {"mode": "hard", "highestTierName": "rack"}
IN_SPINE = {"mode": "hard", "highestTierName": "spine"}


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Eight nodes of four CPUs in four racks and two spines."""
    for cluster in started(tmp_path_factory, controllers=True):
        with programs_on(cluster, tmp_path_factory) as running:
            running.prepare()
            running.start("controllers", *ELECTION)
            running.start("scheduler", *ELECTION, "--scheduler-conf", str(CONFIGURATION))
            running.start_webhook()
            shape = ("--nodes", str(NODES), "--node", "cpu=4,memory=8Gi", "--sim-duration", "1s")
            running.start("nodes", *shape, "--topology", f"rack={RACK},spine={SPINE}")
            running.wait_ready(NODES)
            until(lambda: counts(running) == EXPECTED, SOON, running.logs)
            yield running


EXPECTED = {f"rack-{i}": 2 for i in range(4)} | {f"spine-{i}": 4 for i in range(2)}


def counts(programs: Programs) -> dict[str, int]:
    found = programs.api.items(HYPER_NODES)
    return {h["metadata"]["name"]: (h.get("status") or {}).get("nodeCount", -1) for h in found}


@pytest.fixture
def scenario(racks: Programs) -> Iterator[Scenario]:
    created = Scenario(racks)
    yield created
    created.clean_up()


def placed(scenario: Scenario, name: str) -> dict[str, int]:
    """Numbers of the nodes of a job's pods."""
    return {
        pod["metadata"]["name"]: int(pod["spec"]["nodeName"].removeprefix("node-"))
        for pod in scenario.pods(name)
        if pod["spec"].get("nodeName")
    }


def test_a_hard_gang_runs_in_one_rack_and_the_next_in_another(scenario: Scenario) -> None:
    for name in ("first", "second"):
        scenario.submit(job(name, 2, cpu="3", seconds=FOREVER, networkTopology=IN_RACK))
        scenario.until(lambda: scenario.running(name) == 2)  # noqa: B023
    first, second = ({number // RACK for number in placed(scenario, n).values()} for n in ("first", "second"))
    assert len(first) == len(second) == 1
    assert first != second

    def held() -> set[str]:
        groups = scenario.api.items(GROUPS.format(scenario.namespace))
        annotations = [group["metadata"].get("annotations") or {} for group in groups]
        return {found.get("volcano.sh/job-allocated-hypernode", "") for found in annotations}

    scenario.until(lambda: held() == {f"rack-{rack}" for rack in first | second})


def test_a_hard_gang_larger_than_a_rack_waits_and_says_why(scenario: Scenario) -> None:
    scenario.submit(job("wide", 3, cpu="3", seconds=FOREVER, networkTopology=IN_RACK))

    def message() -> str:
        groups = scenario.api.items(GROUPS.format(scenario.namespace))
        conditions = [c for g in groups for c in (g.get("status") or {}).get("conditions") or ()]
        return " ".join(c.get("message", "") for c in conditions if c["type"] == "Unschedulable")

    scenario.until(lambda: "room for 2 of 3" in message())
    assert placed(scenario, "wide") == {}


def test_partitions_are_in_one_rack_each_and_their_job_in_one_spine(scenario: Scenario) -> None:
    policy: Any = {"totalPartitions": 2, "partitionSize": 2, "networkTopology": IN_RACK}
    manifest = job("parts", 4, networkTopology=IN_SPINE)
    manifest["spec"]["tasks"] = [task("work", 4, cpu="3", seconds=FOREVER, partitionPolicy=policy)]
    scenario.submit(manifest)
    scenario.until(lambda: scenario.running("parts") == 4)
    found = placed(scenario, "parts")
    partitions = [
        {number // RACK for pod, number in found.items() if int(pod.rsplit("-", 1)[1]) // 2 == partition}
        for partition in range(2)
    ]
    assert [len(racks) for racks in partitions] == [1, 1]
    assert partitions[0] != partitions[1]
    assert len({number // (RACK * SPINE) for number in found.values()}) == 1


def test_pods_are_preempted_in_one_rack_only(scenario: Scenario) -> None:
    for name, value in (("topology-low", 1), ("topology-high", 1000)):
        scenario.api.create_persistently(PRIORITIES, {"metadata": {"name": name}, "value": value})
    fillers = [f"filler-{i}" for i in range(NODES)]
    for name in fillers:
        scenario.submit(job(name, 1, cpu="4", seconds=FOREVER, priorityClassName="topology-low"))
    scenario.until(lambda: all(scenario.running(name) == 1 for name in fillers))
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in scenario.pods()}
    high = job(
        "urgent", 2, cpu="4", seconds=FOREVER, priorityClassName="topology-high", networkTopology=IN_RACK
    )
    scenario.submit(high)
    scenario.until(lambda: scenario.running("urgent") == 2)
    racks = {number // RACK for number in placed(scenario, "urgent").values()}
    assert len(racks) == 1
    left = {pod["metadata"]["uid"] for pod in scenario.pods()}
    evicted = {int(node.removeprefix("node-")) for uid, node in before.items() if uid not in left}
    assert evicted == set(placed(scenario, "urgent").values())


def test_hypernodes_are_discovered_from_labels(racks: Programs) -> None:
    levels = [{"nodeLabel": f"topology.volcano.sh/{name}"} for name in ("spine", "rack")]
    types = {"fabric": [*levels, {"nodeLabel": "kubernetes.io/hostname"}]}
    source = {"source": "label", "enabled": True, "config": {"networkTopologyTypes": types}}
    data = {"volcano-controller.conf": json.dumps({"networkTopologyDiscovery": [source]})}
    racks.api.create(CONFIG_MAPS, {"metadata": {"name": "volcano-controller-configmap"}, "data": data})

    def discovered() -> dict[str, int]:
        found = racks.api.items(f"{HYPER_NODES}?labelSelector=volcano.sh/network-topology-source%3Dlabel")
        return {
            next(v for k, v in h["metadata"]["labels"].items() if k.startswith("topology.")): (
                h.get("status") or {}
            ).get("nodeCount", -1)
            for h in found
        }

    until(lambda: discovered() == EXPECTED, SOON, racks.logs)
    patched = racks.kubectl("label", "node", "node-7", "topology.volcano.sh/rack-", "--overwrite")
    assert patched.returncode == 0, patched.stderr
    until(lambda: discovered() == {**EXPECTED, "rack-3": 1, "spine-1": 3}, SOON, racks.logs)
    racks.api.delete(f"{CONFIG_MAPS}/volcano-controller-configmap")

    def told() -> int:
        selector = "--field-selector=reason=DiscoveryDisabled"
        return len(racks.kubectl("get", "events", "-A", selector, "-o", "name").stdout.split())

    until(lambda: told() == len(EXPECTED), SOON, racks.logs)
    assert discovered() == {**EXPECTED, "rack-3": 1, "spine-1": 3}
