"""`kubectl top` and APIServices against clusters of simulated and of local nodes."""

import asyncio
from pathlib import Path

import pytest

from tests.kubectl.conftest import find_kubectl
from tests.kubectl.test_local_node import Cli
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.nodes.pools import parse_pools

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not find_kubectl(), reason="no kubectl: set $KUBECTL")]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: requesting, labels: {app: web}}
spec: {containers: [{name: main, image: none, resources: {requests: {cpu: 250m, memory: 64Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: declaring, annotations: {volcano.sh/sim-usage: "cpu=1,memory=1Gi"}}
spec: {containers: [{name: main, image: none}, {name: second, image: none}]}
"""
BUSY = """
apiVersion: v1
kind: Pod
metadata: {name: busy}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [sh, -c, "while :; do :; done"]}]
"""


def rows(output: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in output.splitlines()}


async def test_top_shows_what_simulated_pods_declare(tmp_path: Path) -> None:
    settings = ClusterOptions(
        tmp_path / "cluster", durable=False, pools=parse_pools([], ["n=1,cpu=4,memory=8Gi"])
    )
    async with LocalCluster(settings) as cluster:
        kubectl = Cli(cluster, tmp_path)
        (tmp_path / "pods.yaml").write_text(PODS)
        await kubectl("apply", "-f", str(tmp_path / "pods.yaml"))
        await kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=30s")
        found = rows(await kubectl("top", "pods", "--no-headers"))
        assert found == {"requesting": ["250m", "64Mi"], "declaring": ["1000m", "1024Mi"]}
        assert rows(await kubectl("top", "pods", "-l", "app=web", "--no-headers")).keys() == {"requesting"}
        listed = await kubectl("top", "pods", "declaring", "--containers", "--no-headers")
        assert listed.split() == ["declaring", "main", "1000m", "1024Mi", "declaring", "second", "0m", "0Mi"]
        nodes = rows(await kubectl("top", "nodes", "--no-headers"))
        assert nodes["node-0"] == ["1250m", "31%", "1088Mi", "13%"]
        service = await kubectl("get", "apiservice", "v1beta1.metrics.k8s.io", "--no-headers")
        assert service.split()[:3] == ["v1beta1.metrics.k8s.io", "kube-system/metrics-server", "True"]
        autoscaled = (
            "autoscale",
            "deployment",
            "web",
            "--max=3",
            "--cpu-percent=50",
            "--dry-run=server",
            "-o",
            "name",
        )
        await kubectl("create", "deployment", "web", "--image=none")
        assert "horizontalpodautoscaler.autoscaling/web" in await kubectl(*autoscaled)


async def test_top_shows_what_local_pods_use(tmp_path: Path) -> None:
    settings = ClusterOptions(
        tmp_path / "cluster", durable=False, local=LocalNodeOptions(nodes=1, runtime="plain")
    )
    async with LocalCluster(settings) as cluster:
        kubectl = Cli(cluster, tmp_path)
        (tmp_path / "busy.yaml").write_text(BUSY)
        await kubectl("apply", "-f", str(tmp_path / "busy.yaml"))
        await kubectl("wait", "pod/busy", "--for=condition=Ready", "--timeout=30s")
        plane, nodes = cluster.control_plane, cluster.local_nodes
        assert plane is not None
        assert nodes is not None
        for _ in range(2):
            await plane.resource_metrics.sample(nodes.usage)
            await asyncio.sleep(1)
        cpu, memory = rows(await kubectl("top", "pods", "--no-headers"))["busy"]
        assert int(cpu.removesuffix("m")) > 50, "it is never idle"
        assert memory.endswith("Mi")
        assert "local-0" in rows(await kubectl("top", "nodes", "--no-headers"))
