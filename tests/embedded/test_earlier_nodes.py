"""Nodes of earlier starts get no pods, unless they are started again."""

from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from tests.embedded.test_cluster import cluster, gang, until
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.kinds import JOB, NODE, POD
from volcano.kube.api.manifest import Key, condition_of
from volcano.kube.client.protocol import Query
from volcano.nodes.pools import parse_pools

LOCAL = LocalNodeOptions(nodes=1, runtime="plain")
NONE = LocalNodeOptions(nodes=0)
CONTROL_PLANE = "volcano-control-plane-0"
# A start: simulated nodes, local nodes.
STARTS = {"simulated": (2, NONE), "local": (0, LOCAL), "both": (1, LOCAL)}


async def ready_nodes(running: LocalCluster) -> set[str]:
    nodes = (await running.client.list(NODE)).items
    return {
        node["metadata"]["name"]
        for node in nodes
        if (condition_of(node, "Ready") or {}).get("status") == "True"
        and not any(
            taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints") or ()
        )
        and node["metadata"]["name"] != CONTROL_PLANE
    }


async def are_ready(running: LocalCluster, wanted: set[str]) -> bool:
    return await ready_nodes(running) == wanted


def expected(count: int, local: LocalNodeOptions) -> set[str]:
    return {f"node-{number}" for number in range(count)} | ({"local-0"} if local.nodes else set())


@pytest.mark.slow
@pytest.mark.parametrize("order", list(permutations(STARTS)), ids="-".join)
async def test_only_the_nodes_of_the_last_start_are_ready(tmp_path: Path, order: tuple[str, ...]) -> None:
    for name in order:
        count, local = STARTS[name]
        pools = parse_pools([count], ["cpu=4,name=node"]) if count else []
        async with cluster(tmp_path / "data", durable=True, pools=pools, local=local) as running:
            wanted = expected(count, local)
            assert await ready_nodes(running) <= wanted, "from the start"
            await until(partial(are_ready, running, wanted))


async def test_a_local_node_that_is_not_started_gets_no_pod(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data", durable=True, pools=[], local=LOCAL) as running:
        await until(lambda: ready_nodes(running))
    async with cluster(tmp_path / "data", durable=True, pools=[], local=NONE) as running:
        assert await ready_nodes(running) == set()
        await running.client.create(JOB, gang("waits", 1))

        async def is_pending() -> bool:
            job = await running.client.get(JOB, Key("default", "waits"))
            return bool((job.get("status") or {}).get("state", {}).get("phase") == "Pending")

        await until(is_pending)
        pods = (await running.client.list(POD)).items
        assert not [pod for pod in pods if pod["spec"].get("nodeName") == "local-0"]


async def test_simulated_nodes_that_were_not_asked_for_again_are_deleted_with_their_pods(
    tmp_path: Path,
) -> None:
    async with cluster(
        tmp_path / "data",
        durable=True,
        nodes="cpu=4,count=3,name=node",
        sim_duration=float("inf"),
        local=NONE,
    ) as running:
        await running.client.create(JOB, gang("runs", 3, cpu="4"))

        async def all_run() -> bool:
            pods = (await running.client.list(POD, Query(namespace="default"))).items
            return [pod["status"].get("phase") for pod in pods] == ["Running"] * 3

        await until(all_run)
    async with cluster(
        tmp_path / "data", durable=True, nodes="cpu=4,count=1,name=node", local=NONE
    ) as running:
        assert running.deleted_nodes == ["node-1", "node-2"]
        assert await ready_nodes(running) == {"node-0"}
        pods = (await running.client.list(POD, Query(namespace="default"))).items
        assert {pod["spec"].get("nodeName") for pod in pods} <= {"node-0", None}
