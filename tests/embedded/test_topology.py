"""`volcano up --topology`: nodes are labelled, HyperNodes exist, also after a restart."""

from pathlib import Path

from tests.embedded.test_cluster import cluster, until
from volcano.apiserver.warnings import collecting
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import read_files
from volcano.kube.api.kinds import HYPER_NODE, NODE, POD
from volcano.kube.api.manifest import labels_of
from volcano.kube.client.protocol import Query
from volcano.nodes.topology import parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"


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


async def test_the_example_gang_runs_in_one_rack(tmp_path: Path) -> None:
    topology = parse_topology("rack=4,spine=2")
    nodes = "cpu=8,nvidia.com/gpu=8,count=12"
    async with cluster(tmp_path, nodes=nodes, topology=topology, sim_duration=60.0) as running:

        async def has_racks() -> bool:
            return len(await counts(running)) == 5

        await until(has_racks)
        await running.apply(read_files([str(EXAMPLES / "topology-gang.yaml")]))

        async def placed() -> list[str]:
            pods = (await running.client.list(POD, Query(labels="volcano.sh/job-name=rack-gang"))).items
            return sorted(node for pod in pods if (node := pod["spec"].get("nodeName", "")))

        async def all_placed() -> bool:
            return len(await placed()) == 4

        await until(all_placed)
        numbers = {int(node.removeprefix("node-")) // 4 for node in await placed()}
        assert len(numbers) == 1, await placed()


async def test_a_client_is_warned_about_an_unknown_tier_name(tmp_path: Path) -> None:
    async with cluster(tmp_path, nodes="cpu=4,count=4", topology=parse_topology("rack=2")) as running:

        async def has_racks() -> bool:
            return len(await counts(running)) == 2

        await until(has_racks)
        document = read_files([str(EXAMPLES / "topology-gang.yaml")])[0]
        document.manifest["spec"]["networkTopology"]["highestTierName"] = "zone"
        with collecting() as found:
            await running.apply([document])
        assert [text.partition(":")[0] for text in found] == ["spec.networkTopology.highestTierName"]
