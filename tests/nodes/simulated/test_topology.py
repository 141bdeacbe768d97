"""The HyperNodes of simulated nodes exist after a start, however the cluster was left before."""

from tests.cluster import SmallCluster
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.kube.api.kinds import HYPER_NODE, NODE
from volcano.kube.api.manifest import labels_of
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes
from volcano.nodes.simulated.topology import SimulatedTopology
from volcano.nodes.topology import Topology, parse_topology


async def start(cluster: SmallCluster, topology: Topology, count: int) -> None:
    """A start of the simulated nodes; an earlier one is stopped."""
    nodes = topology.labelled(nodes_of(parse_pools([count], [])))
    running = [
        cluster.start(controller)
        for controller in (
            SimulatedNodes(nodes, default_duration=1.0, stop_delay=0.0),
            SimulatedTopology(topology, nodes),
        )
    ]
    await cluster.rest()
    for task in running:
        task.cancel()
    await cluster.rest()


async def counts(cluster: SmallCluster) -> dict[str, int]:
    return {h["metadata"]["name"]: h["status"]["nodeCount"] for h in await cluster.all(HYPER_NODE)}


async def test_a_topology_is_created_and_the_same_after_a_restart() -> None:
    async with SmallCluster(HyperNodeController(lambda: "x")) as cluster:
        topology = parse_topology("rack=2,spine=2")
        await start(cluster, topology, 6)
        assert await counts(cluster) == {"rack-0": 2, "rack-1": 2, "rack-2": 2, "spine-0": 4, "spine-1": 2}
        before = await cluster.all(HYPER_NODE)
        await start(cluster, topology, 6)
        assert await cluster.all(HYPER_NODE) == before


async def test_another_topology_replaces_the_one_of_the_last_start() -> None:
    async with SmallCluster(HyperNodeController(lambda: "x")) as cluster:
        await start(cluster, parse_topology("rack=2,spine=2"), 6)
        await start(cluster, parse_topology("rack=3"), 6)
        assert await counts(cluster) == {"rack-0": 3, "rack-1": 3}
        labels = [labels_of(node) for node in await cluster.all(NODE)]
        assert [found["topology.volcano.sh/rack"] for found in labels] == ["rack-0"] * 3 + ["rack-1"] * 3
        assert not any("topology.volcano.sh/spine" in found for found in labels)
        await start(cluster, Topology(), 6)
        assert await counts(cluster) == {}


async def test_own_hypernodes_and_later_changes_are_left_alone() -> None:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "node-0"}}}
    async with SmallCluster() as cluster:
        await cluster.create(HYPER_NODE, "mine", spec={"tier": 1, "members": [member]})
        topology = parse_topology("rack=2")
        nodes = topology.labelled(nodes_of(parse_pools([2], [])))
        cluster.start(SimulatedTopology(topology, nodes))
        await cluster.rest()
        await cluster.delete(HYPER_NODE, "rack-0")
        assert await cluster.names(HYPER_NODE) == ["mine"]
