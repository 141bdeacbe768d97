"""Preemption for CPUs of one NUMA node, on simulated nodes: counted CPUs would be enough without it."""

from pathlib import Path

import pytest

from tests.embedded.test_cluster import cluster, everything, until
from tests.embedded.test_preemption import expect, make
from volcano.kube.api.kinds import JOB, NUMATOPOLOGY, POD, PRIORITY_CLASS
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.numa.topology import parse
from volcano.scheduler.engine.config import shipped

pytestmark = pytest.mark.slow

CONFIGURATION = shipped("volcano-scheduler-preempt.conf").replace(
    "  - name: predicates", "  - name: numa-aware\n  - name: predicates", 1
)
NODE = "cpu=32,memory=64Gi,numa=2,topology-policy=single-numa-node"


def job(name: str, replicas: int, minimum: int, cpu: int, priority: str) -> Manifest:
    limits = {"cpu": str(cpu), "memory": "1Gi"}
    pod = {
        "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
        "priorityClassName": priority,
    }
    task = {"name": "w", "replicas": replicas, "minAvailable": minimum, "template": {"spec": pod}}
    task["topologyPolicy"] = "single-numa-node"
    spec = {
        "schedulerName": "volcano",
        "minAvailable": minimum,
        "priorityClassName": priority,
        "tasks": [task],
    }
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": JOB.api_version, "kind": "Job", "metadata": metadata, "spec": spec}


async def test_one_victim_is_evicted_and_its_cpus_are_used_once_they_are_free(tmp_path: Path) -> None:
    settings = {"scheduler_conf": CONFIGURATION, "sim_duration": float("inf")}
    async with cluster(tmp_path, nodes=NODE, **settings) as made:
        await make(made.client, PRIORITY_CLASS, "high", value=1000)
        await make(made.client, PRIORITY_CLASS, "low", value=100)
        await made.client.create(JOB, job("low", 2, 1, 12, "low"))
        await expect(made.client, {"low": 2})
        # Eight CPUs are free, four in each NUMA node.
        await made.client.create(JOB, job("high", 1, 1, 8, "high"))
        await expect(made.client, {"high": 1, "low": 1})
        pods = await everything(made.client, POD, namespace="default")
        assert all(pod["status"].get("reason") != "TopologyAffinityError" for pod in pods)

        async def listed() -> bool:
            (found,) = [parse(each) for each in await everything(made.client, NUMATOPOLOGY)]
            counts = sorted(pod.all_cpus.bit_count() for pod in found.pods)
            spans = [len(found.layout.numa_nodes_of(pod.all_cpus)) for pod in found.pods]
            return counts == [8, 12] and spans == [1, 1]

        await until(listed)
