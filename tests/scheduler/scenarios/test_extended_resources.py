"""FPGAs, RDMA NICs, huge pages and other resources schedule and share queues as GPUs do."""

from typing import Any

import pytest

from tests.builders import JobManifests, job, node, queue
from tests.scenario import Result, schedule

UNIT: dict[str, Any] = {
    "xilinx.com/fpga-xilinx_u200": 1,
    "xilinx.com/fpga": 1,
    "rdma/hca_shared_devices_a": 1,
    "hugepages-2Mi": 256 << 20,
    "example.com/tpu": 1,
}
FAIRNESS = ("proportion", "capacity")
resources = pytest.mark.parametrize("name", UNIT)
fairness = pytest.mark.parametrize("plugin", FAIRNESS)


def using(name: str, resource: str, units: int = 1, **more: Any) -> JobManifests:
    options: dict[str, Any] = {resource: units * UNIT[resource], **more}
    return job(name, options.pop("replicas", 1), cpu="100m", **options)


def run(plugin: str, resource: str, jobs: list[JobManifests], **more: Any) -> Result:
    has: dict[str, Any] = {resource: 4 * UNIT[resource]}
    nodes = [node(f"n{i}", cpu=32, **has) for i in range(2)]
    tiers = (("priority", "gang", "conformance"), ("predicates", plugin, "nodeorder"))
    return schedule(nodes=nodes, jobs=jobs, tiers=tiers, **more)


@resources
@fairness
def test_a_gang_gets_as_many_as_there_are(plugin: str, name: str) -> None:
    result = run(plugin, name, [using("j", name, 2, replicas=4)])
    assert result.bound_per_node() == {"n0": 2, "n1": 2}


@resources
@fairness
def test_a_queue_shows_what_it_holds(plugin: str, name: str) -> None:
    result = run(
        plugin, name, [using("j", name, 2, replicas=4, on=["n0", "n0", "n1", "n1"], phase="Running")]
    )
    assert result.allocated("default")[name] == ("2Gi" if name == "hugepages-2Mi" else "8")


@resources
@fairness
def test_the_reason_names_what_is_missing(plugin: str, name: str) -> None:
    result = run(plugin, name, [using("j", name, 5)])
    assert not result.bound()
    assert f"0/2 nodes are available: 2 Insufficient {name}" in result.condition("j")


@resources
@fairness
def test_a_queue_takes_no_more_than_its_capability(plugin: str, name: str) -> None:
    limit = {name: str(3 * UNIT[name])}
    result = run(
        plugin,
        name,
        [using(f"j{i}", name, 1, queue="q", age=9 - i) for i in range(4)],
        queues=[queue("q", capability=limit), queue("default")],
    )
    assert len(result.bound()) == 3
    assert name in result.condition("j3")
    assert "queue" in result.condition("j3")


@resources
@fairness
def test_a_queue_gets_its_share_back(plugin: str, name: str) -> None:
    due = {name: str(4 * UNIT[name]), "cpu": "32"}
    queues = [queue("a", deserved=due), queue("b", deserved=due)]
    borrowed = using("borrower", name, 1, replicas=8, min_available=1, queue="a", on=["n0"] * 4 + ["n1"] * 4)
    result = run(
        plugin,
        name,
        [borrowed, using("owner", name, 1, replicas=4, queue="b")],
        queues=queues,
        actions=("enqueue", "allocate", "reclaim"),
    )
    assert len(result.evicted()) == 4
