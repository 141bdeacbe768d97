"""The load of nodes in an embedded cluster: from the metrics API to placements."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from tests.scenario import config
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.pools import parse_pools

pytestmark = pytest.mark.slow

USAGE = {"name": "usage", "arguments": {"thresholds.cpu": 50}}


def pod(name: str, *, node: str = "", usage: str = "") -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "default"}
    if usage:
        metadata["annotations"] = {"volcano.sh/sim-usage": usage}
    spec: Manifest = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "none"}]}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    spec["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def until(wanted: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(600):
        if await wanted():
            return
        await asyncio.sleep(0.05)
    pytest.fail("it did not happen")


async def test_pods_avoid_nodes_with_a_high_declared_load(tmp_path: Path) -> None:
    document = yaml.safe_load(config(["gang", "predicates", USAGE]).text)
    text = yaml.safe_dump({**document, "metrics": {"type": "metrics-server", "interval": "1s"}})
    options = ClusterOptions(
        tmp_path / "cluster", durable=False, pools=parse_pools([2], ["cpu=4,memory=8Gi"]), scheduler_conf=text
    )
    async with LocalCluster(options) as cluster:

        async def runs(name: str) -> bool:
            found = await cluster.client.get(POD, Key("default", name))
            return bool((found.get("status") or {}).get("phase") == "Running")

        await cluster.client.create(POD, pod("hot", node="node-0", usage="cpu=3500m,memory=1Gi"))
        await until(lambda: runs("hot"))

        async def measured() -> bool:
            load = cluster.scheduler.inputs.load.usage().get("node-0")
            return load is not None and load["cpu"] > 50

        await until(measured)
        for i in range(4):
            await cluster.client.create(POD, pod(f"new-{i}"))
        for i in range(4):
            await until(lambda name=f"new-{i}": runs(name))  # type: ignore[misc]
            found = await cluster.client.get(POD, Key("default", f"new-{i}"))
            assert found["spec"]["nodeName"] == "node-1"
        assert cluster.scheduler.inputs.load.problem == ""
