"""Simulated nodes with NUMA nodes publish their CPUs and reject pods as a topology manager does."""

import json
from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.kube.api.kinds import NODE, NUMATOPOLOGY, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.topology import NumaTopology, parse
from volcano.nodes.pools import PoolError, nodes_of, parse_pool
from volcano.nodes.simulated.controller import SimulatedNodes
from volcano.nodes.simulated.cpus import layout


def nodes(policy: str = "single-numa-node", more: str = "") -> SimulatedNodes:
    return SimulatedNodes(nodes_of([parse_pool(f"cpu=16,memory=64Gi,numa=2,topology-policy={policy}{more}")]))


def spec(cpu: object, **fields: Any) -> Manifest:
    limits = {"cpu": str(cpu), "memory": "1Gi"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits, "requests": limits}}
    return {"nodeName": "node-0", "restartPolicy": "Never", "containers": [container], **fields}


async def topology(cluster: SmallCluster) -> NumaTopology:
    return parse(await cluster.get(NUMATOPOLOGY, "node-0"))


async def cpus(cluster: SmallCluster) -> dict[str, str]:
    return {pod.name: cpusets.text_of(pod.all_cpus) for pod in (await topology(cluster)).pods}


async def phase(cluster: SmallCluster, name: str) -> tuple[str, str]:
    status = (await cluster.get(POD, name))["status"]
    return status["phase"], status.get("reason", "")


async def test_a_node_publishes_its_layout_and_policies() -> None:
    async with SmallCluster(nodes()) as cluster:
        published = await cluster.get(NUMATOPOLOGY, "node-0")
        found = parse(published)
        assert found.layout.numa_nodes == {0: 0x00FF, 1: 0xFF00}
        assert (found.cpu_manager, found.policy) == ("static", "single-numa-node")
        assert cpusets.text_of(found.allocatable or 0) == "0-15"
        assert published["metadata"]["ownerReferences"][0]["kind"] == "Node"
        assert published["metadata"]["annotations"]["timestamp"].isdigit()


async def test_cpus_are_published_as_pods_come_and_go() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "a", spec=spec(6))
        decision = json.dumps({"numa": {"1": {"cpu": "4"}}})
        await cluster.create(
            POD, "b", metadata={"annotations": {"volcano.sh/topology-decision": decision}}, spec=spec(4)
        )
        await cluster.create(POD, "fraction", spec=spec("500m"))
        await cluster.pass_time(1)
        assert await cpus(cluster) == {"a": "0-5", "b": "8-11"}
        assert cpusets.text_of((await topology(cluster)).allocatable or 0) == "6-7,12-15"
        await cluster.client.delete(POD, Key("default", "a"), options=Options(grace_seconds=0))
        await cluster.pass_time(1)
        assert await cpus(cluster) == {"b": "8-11"}


async def test_cpus_of_a_pod_that_ended_are_free() -> None:
    async with SmallCluster(nodes()) as cluster:
        ending = {"annotations": {"volcano.sh/sim-duration": "2s"}}
        await cluster.create(POD, "a", metadata=ending, spec=spec(6))
        await cluster.pass_time(5)
        assert await phase(cluster, "a") == ("Succeeded", "")
        assert await cpus(cluster) == {}


async def test_a_pod_without_cpus_in_one_numa_node_is_rejected() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.create(POD, "a", spec=spec(6))
        await cluster.create(POD, "b", spec=spec(6))
        await cluster.pass_time(1)
        await cluster.create(POD, "c", spec=spec(3))
        await cluster.pass_time(1)
        assert await phase(cluster, "c") == ("Failed", "TopologyAffinityError")
        assert set(await cpus(cluster)) == {"a", "b"}


async def test_pods_keep_their_cpus_over_a_restart() -> None:
    async with SmallCluster() as cluster:
        first = cluster.start(nodes("best-effort"))
        await cluster.rest()
        for name in ("a", "b", "c"):
            await cluster.create(POD, name, spec=spec(4))
        await cluster.pass_time(1)
        await cluster.client.delete(POD, Key("default", "a"), options=Options(grace_seconds=0))
        await cluster.pass_time(1)
        before = await cpus(cluster)
        assert before == {"b": "4-7", "c": "8-11"}
        first.cancel()
        await cluster.delete(POD, "b", grace=0)
        cluster.start(nodes("best-effort"))
        await cluster.pass_time(2)
        assert await cpus(cluster) == {"c": "8-11"}  # b was deleted meanwhile
        await cluster.create(POD, "d", spec=spec(4))
        await cluster.pass_time(2)
        assert await cpus(cluster) == {"c": "8-11", "d": "0-3"}


async def test_a_deleted_numatopology_is_published_again_while_its_node_exists() -> None:
    async with SmallCluster(nodes()) as cluster:
        await cluster.client.delete(NUMATOPOLOGY, Key("", "node-0"))
        await cluster.pass_time(2)
        assert (await topology(cluster)).policy == "single-numa-node"
        await cluster.client.delete(NODE, Key("", "node-0"))
        await cluster.client.delete(NUMATOPOLOGY, Key("", "node-0"))
        await cluster.pass_time(2)
        assert await cluster.all(NUMATOPOLOGY) == []


def test_a_pool_without_numa_nodes_publishes_nothing() -> None:
    assert all(
        watch.kind != NUMATOPOLOGY for watch in SimulatedNodes(nodes_of([parse_pool("cpu=4")])).watches
    )


def test_cpus_are_divided_among_numa_nodes() -> None:
    numa = parse_pool("cpu=7,numa=2,topology-policy=restricted,cpu-manager=none").numa
    assert numa is not None
    assert (numa.policy, numa.cpu_manager) == ("restricted", "none")
    assert layout(numa).numa_nodes == {0: 0b0001111, 1: 0b1110000}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cpu=4,numa=x", "does not divide cpu=4"),
        ("cpu=4,numa=0", "does not divide cpu=4"),
        ("cpu=4,numa=8", "does not divide cpu=4"),
        ("cpu=1500m,numa=1", "whole cpus"),
        ("cpu=4,numa=2,topology-policy=strict", "choose from none, best-effort"),
        ("cpu=4,numa=2,cpu-manager=dynamic", "choose from none, static"),
        ("cpu=4,topology-policy=restricted", "needs numa="),
    ],
)
def test_an_impossible_pool_is_rejected_with_what_would_be_right(text: str, wanted: str) -> None:
    with pytest.raises(PoolError, match=wanted):
        parse_pool(text)
