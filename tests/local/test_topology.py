"""`volcano up --topology`: nodes are labelled, HyperNodes exist, also after a restart."""

from pathlib import Path

from tests.local.test_cluster import cluster, until
from volcano.kube.client import Query
from volcano.kube.kinds import HYPER_NODE, NODE
from volcano.kube.manifest import labels_of
from volcano.local.cluster import LocalCluster
from volcano.nodes.topology import parse_topology


async def counts(running: LocalCluster) -> dict[str, int]:
    found = (await running.client.list(HYPER_NODE)).items
    return {h["metadata"]["name"]: (h.get("status") or {}).get("nodeCount", -1) for h in found}


async def test_a_topology_survives_a_restart(tmp_path: Path) -> None:
    settings = {"topology": parse_topology("rack=2,spine=2"), "durable": True}
    wanted = {"rack-0": 2, "rack-1": 2, "rack-2": 2, "spine-0": 4, "spine-1": 2}
    for _ in range(2):
        async with cluster(tmp_path, nodes="cpu=4,count=6", **settings) as running:

            async def is_complete(running: LocalCluster = running) -> bool:
                return await counts(running) == wanted

            await until(is_complete)
            query = Query(labels="topology.volcano.sh/spine=spine-1")
            nodes = (await running.client.list(NODE, query)).items
            assert sorted(labels_of(node)["topology.volcano.sh/rack"] for node in nodes) == [
                "rack-2",
                "rack-2",
            ]
