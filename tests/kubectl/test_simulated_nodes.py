"""kubectl against a local cluster of simulated nodes."""

import asyncio
from pathlib import Path

import pytest

from tests.kubectl.test_local_node import Cli
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.nodes.pools import parse_pools

pytestmark = pytest.mark.slow

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  minAvailable: 1
  tasks:
  - name: main
    replicas: 1
    template:
      spec:
        containers: [{name: main, image: none}]
"""


async def test_deleting_a_pod_of_a_job_returns_promptly_though_it_is_created_again(tmp_path: Path) -> None:
    settings = ClusterOptions(tmp_path / "cluster", durable=False, pools=parse_pools([1], []))
    async with LocalCluster(settings) as cluster:
        kubectl = Cli(cluster, tmp_path)
        (tmp_path / "job.yaml").write_text(JOB)
        await kubectl("apply", "-f", str(tmp_path / "job.yaml"))
        seen = set()
        for _ in range(6):
            for _ in range(10):  # `kubectl wait` fails at once for a pod that does not exist yet
                if await kubectl("get", "pod", "j-main-0", "--ignore-not-found", "-o", "name"):
                    break
                await asyncio.sleep(0.2)
            await kubectl("wait", "pod/j-main-0", "--for=condition=Ready", "--timeout=20s")
            seen.add(await kubectl("get", "pod", "j-main-0", "-o", "jsonpath={.metadata.uid}"))
            assert "deleted" in await kubectl("delete", "pod", "j-main-0", "--timeout=15s")
        assert len(seen) == 6
