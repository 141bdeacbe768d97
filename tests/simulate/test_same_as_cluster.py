"""A small trace runs in a cluster of `volcano up`, in real time, and in the simulator: pods get the same nodes."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.simulate.test_engine import Journal
from volcano.cmd.volcano import main
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import POD, POD_GROUP
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import GROUP_NAME, SIM_DURATION
from volcano.kube.client.protocol import Client
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import parse, shipped
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.loaders import load_nodes
from volcano.simulate.workload import GIB, Attempt, Requests, TraceJob, TraceTask, Workload

pytestmark = pytest.mark.slow  # real time

# Nodes of different sizes: no two score the same, so that no placement depends on how ties are broken.
SHAPES = (
    "cpu=8,memory=40Gi,name=small,count=1",
    "cpu=13,memory=50Gi,name=middle,count=1",
    "cpu=21,memory=200Gi,name=large,count=1",
)
LONG = 3600.0
# name, arrival, seconds, pods, cores, GiB
JOBS = (
    ("first", 0.0, 3.0, 1, 6, 8),
    ("gang", 0.6, LONG, 3, 4, 12),
    ("wide", 1.2, LONG, 2, 7, 4),
    ("late", 1.8, LONG, 1, 8, 8),  # has to wait until the first one has ended
    ("last", 6.0, LONG, 2, 1, 16),
)


def trace() -> Workload:
    jobs = [
        TraceJob(name, at, (TraceTask(Requests(cpu=cores, memory=gib * GIB), pods),), (Attempt(seconds),))
        for name, at, seconds, pods, cores, gib in JOBS
    ]
    return Workload(
        jobs, tuple(node for shape in SHAPES for node in load_nodes(f"1:{shape}"))
    ).with_all_queues()


def simulated() -> dict[str, str]:
    given = trace()
    found = Journal(given)
    Simulation(given, Settings(parse(shipped(), "test"), until=60.0), found).run()
    return {name: where for _, name, where in found.lines if name.rpartition("-")[2].isdigit()}


async def submit(client: Client, name: str, seconds: float, pods: int, cores: int, gib: int) -> None:
    metadata: Manifest = {"name": name, "namespace": "default"}
    group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": metadata}
    await client.create(POD_GROUP, {**group, "spec": {"minMember": pods, "queue": "default"}})
    requests = {"cpu": str(cores), "memory": f"{gib}Gi"}
    for number in range(pods):
        annotations = {GROUP_NAME: name, SIM_DURATION: f"{seconds:g}s"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "namespace": "default", "annotations": annotations},
            "spec": {
                "schedulerName": "volcano",
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "any", "resources": {"requests": requests}}],
            },
        }
        await client.create(POD, pod)


async def in_cluster(directory: Path, wanted: int) -> dict[str, str]:
    options = ClusterOptions(directory, durable=False, pools=parse_pools([], SHAPES))
    async with LocalCluster(options) as cluster:
        began = asyncio.get_running_loop().time()
        for name, at, seconds, pods, cores, gib in JOBS:
            await asyncio.sleep(max(began + at - asyncio.get_running_loop().time(), 0))
            await submit(cluster.client, name, seconds, pods, cores, gib)
        placed: dict[str, str] = {}
        for _ in range(300):
            pods_now = (await cluster.client.list(POD)).items
            placed = {
                pod["metadata"]["name"]: pod["spec"]["nodeName"]
                for pod in pods_now
                if pod["metadata"]["namespace"] == "default" and pod["spec"].get("nodeName")
            }
            if len(placed) == wanted:
                break
            await asyncio.sleep(0.1)
        return placed


def test_pods_get_the_same_nodes_as_in_a_real_cluster(tmp_path: Path) -> None:
    expected = simulated()
    assert len(expected) == sum(pods for _, _, _, pods, _, _ in JOBS), "the trace is meant to fit"
    assert len(set(expected.values())) == 3, "the trace is meant to use all nodes"
    assert asyncio.run(in_cluster(tmp_path / "cluster", len(expected))) == expected


async def saved_from_cluster(directory: Path, snapshot: Path) -> tuple[int, int]:
    """Saves a snapshot of a live cluster, and simulates from the cluster itself."""
    options = ClusterOptions(directory, durable=False, pools=parse_pools([], SHAPES))
    async with LocalCluster(options) as cluster:
        await submit(cluster.client, "first", LONG, 1, 6, 8)
        await submit(cluster.client, "too-large", LONG, 1, 64, 8)
        access = ["--kubeconfig", str(cluster.kubeconfig)]
        saved = await asyncio.to_thread(main, ["snapshot", "save", str(snapshot), *access])
        live = await asyncio.to_thread(main, ["simulate", "--from-cluster", *access, "-o", "json"])
        return saved, live


def test_a_live_cluster_is_saved_and_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.snapshot"
    assert asyncio.run(saved_from_cluster(tmp_path / "cluster", path)) == (0, 0)
    printed = capsys.readouterr().out
    (live,) = json.loads(printed[printed.index("[") :])
    assert live["results"]["completed"] == 1
    assert live["results"]["unplaced"] == 1
    assert main(["simulate", "--trace", str(path), "--add-nodes", "1:cpu=96,memory=64Gi", "-o", "json"]) == 0
    (more,) = json.loads(capsys.readouterr().out)
    assert more["results"]["completed"] == 2, "a larger node has room for the second job"
