"""Nodes register, renew their leases and report their conditions."""

import asyncio
from pathlib import Path

from tests.cluster import SmallCluster
from tests.nodes.kubelet.pods.bench import MACHINE
from volcano.kube.api.kinds import LEASE, NODE
from volcano.kube.api.manifest import Key, condition_of
from volcano.kube.client.protocol import Options
from volcano.nodes.kubelet.device_claims import SlicePublisher
from volcano.nodes.kubelet.node import local_nodes
from volcano.nodes.kubelet.node_status import NodeStatusUpdater
from volcano.nodes.kubelet.options import KubeletOptions


def node_status(cluster: SmallCluster, abnormal: set[str]) -> NodeStatusUpdater:
    nodes = local_nodes(MACHINE, KubeletOptions(Path("/d")))
    about = {"name": "fake", "version": "1"}

    def measured() -> frozenset[str]:
        if "broken" in abnormal:
            raise OSError("disk gone")
        return frozenset(abnormal)

    publisher = SlicePublisher(cluster.client, nodes)
    return NodeStatusUpdater(
        cluster.client, cluster.clock, nodes, MACHINE, about, "192.0.2.7", measured, publisher
    )


async def condition(cluster: SmallCluster, kind: str) -> tuple[str, str]:
    found = condition_of(await cluster.get(NODE, "local-0"), kind)
    assert found is not None
    return found["status"], found["reason"]


async def test_pressures_are_reported_when_they_begin_and_end() -> None:
    async with SmallCluster() as cluster:
        abnormal: set[str] = set()
        beating = node_status(cluster, abnormal)
        await beating.register()
        task = asyncio.create_task(beating.run())
        await cluster.pass_time(11)
        assert await condition(cluster, "MemoryPressure") == ("False", "KubeletHasSufficientMemory")
        abnormal.add("MemoryPressure")
        await cluster.pass_time(11)
        assert await condition(cluster, "MemoryPressure") == ("True", "KubeletHasInsufficientMemory")
        assert await condition(cluster, "Ready") == ("True", "KubeletReady")
        abnormal.clear()
        await cluster.pass_time(11)
        assert await condition(cluster, "MemoryPressure") == ("False", "KubeletHasSufficientMemory")
        abnormal.add("broken")
        await cluster.pass_time(11)
        assert await condition(cluster, "DiskPressure") == ("True", "KubeletHasDiskPressure")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_healthy_node_repeats_its_status_rarely() -> None:
    async with SmallCluster() as cluster:
        beating = node_status(cluster, set())
        await beating.register()
        task = asyncio.create_task(beating.run())
        await cluster.rest()
        before = (await cluster.get(NODE, "local-0"))["metadata"]["resourceVersion"]
        await cluster.pass_time(290, step=10)
        assert (await cluster.get(NODE, "local-0"))["metadata"]["resourceVersion"] == before
        await cluster.pass_time(20, step=10)
        assert (await cluster.get(NODE, "local-0"))["metadata"]["resourceVersion"] != before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_node_that_was_there_is_brought_up_to_date_and_keeps_what_others_put_on_it() -> None:
    async with SmallCluster() as cluster:
        await node_status(cluster, set()).register()
        change = {
            "metadata": {"labels": {"zone": "a", "kubernetes.io/os": "other"}},
            "spec": {"unschedulable": True},
        }
        await cluster.patch(NODE, "local-0", change)
        status = {
            "capacity": {"nvidia.com/gpu": "4", "example.com/x": "1"},
            "allocatable": {"nvidia.com/gpu": "4"},
        }
        await cluster.patch(NODE, "local-0", {"status": status}, "status")
        await node_status(cluster, set()).register()
        node = await cluster.get(NODE, "local-0")
        assert node["metadata"]["labels"]["zone"] == "a"
        assert node["metadata"]["labels"]["kubernetes.io/os"] == "linux"
        assert node["spec"]["unschedulable"] is True
        assert "nvidia.com/gpu" not in node["status"]["allocatable"]
        assert node["status"]["capacity"]["example.com/x"] == "1"
        assert [address["address"] for address in node["status"]["addresses"]] == ["192.0.2.7", "local-0"]


async def test_a_lease_that_is_lost_is_made_again() -> None:
    async with SmallCluster() as cluster:
        beating = node_status(cluster, set())
        await beating.register()
        task = asyncio.create_task(beating.run())
        await cluster.pass_time(11)
        await cluster.client.delete(LEASE, Key("kube-node-lease", "local-0"), options=Options())
        await cluster.pass_time(21)
        lease = await cluster.get(LEASE, "local-0", "kube-node-lease")
        assert lease["metadata"]["ownerReferences"][0]["name"] == "local-0"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_left_from_before_is_renewed_at_once() -> None:
    async with SmallCluster() as cluster:
        for _ in range(2):
            beating = node_status(cluster, set())
            await beating.register()
            task = asyncio.create_task(beating.run())
            await cluster.rest()
            lease = await cluster.get(LEASE, "local-0", "kube-node-lease")
            assert lease["spec"]["renewTime"] == cluster.clock.now().micro_timestamp()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await cluster.pass_time(60)
