"""`vcctl explain job` on a large cluster: the computation alone, and the whole command against an embedded cluster."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.case import Case
from tests.builders import START, JobManifests, job, node, priority_class, queue
from tests.scenario import cluster_of
from volcano.analysis.explanation.case import Case as ExplainedCase
from volcano.analysis.explanation.job import explain_job
from volcano.analysis.explanation.suggested import reruns_within, suggested
from volcano.analysis.state import ClusterState
from volcano.kube.client import Client
from volcano.kube.kinds import NODE, POD, POD_GROUP
from volcano.kube.manifest import Manifest
from volcano.local.cluster import LocalCluster
from volcano.local.options import ClusterOptions
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import PRESETS, parse, shipped

BENCH = "explain"
NODES, PODS, WAITING = 1_000, 10_000, 200
PER_JOB = 50
REPEATS = 3
TARGET = {"max:seconds": 3.0}


def cases(scale: float = 1.0) -> Iterator[Case]:
    nodes, pods = max(int(NODES * scale), 10), max(int(PODS * scale), 100)
    yield computed(nodes, pods, "default")
    yield computed(nodes, pods, "preempt")
    yield asyncio.run(commands(nodes, pods))


def computed(nodes: int, pods: int, preset: str) -> Case:
    """From the objects in memory to the data of the screen, changes included."""
    config = parse(shipped(PRESETS[preset]))
    cluster = cluster_of(
        nodes=[node(f"n{i}", 32, "128Gi") for i in range(nodes)],
        queues=[queue("default"), queue("research", 3)],
        jobs=[*_running(nodes, pods), *_waiting()],
        others=[priority_class("high", 1000)],
    )
    began, cpu = time.perf_counter(), time.process_time()
    state = ClusterState(cluster, START)
    case = ExplainedCase(state, config, stopwatch=time.perf_counter)
    found = explain_job(case, "default/w0")
    explained = time.perf_counter() - began
    assert found["state"] == "waiting", found["summary"]
    reruns = reruns_within(case)
    changes = suggested(case, "default/w0", limit=4, reruns=reruns)
    seconds = time.perf_counter() - began
    title = f"{nodes} nodes, {pods} pods, computation, preset {preset}"
    metrics = {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "without_changes_seconds": explained,
        "reruns": float(reruns),
        "changes": float(len(changes)),
    }
    return Case(BENCH, title, metrics, TARGET)


def _running(nodes: int, pods: int) -> list[JobManifests]:
    """Jobs that hold 30 of the 32 cores of each node, each spread over several nodes."""
    each = f"{30_000 * nodes // pods}m"
    count = pods // PER_JOB
    return [
        job(f"r{i}", PER_JOB, cpu=each, on=[f"n{(i * PER_JOB + k) % nodes}" for k in range(PER_JOB)])
        for i in range(count)
    ]


def _waiting() -> list[JobManifests]:
    """Gangs of different sizes that do not fit."""
    return [job(f"w{i}", 8, cpu=8 + i % 20, memory="1Gi", age=1000 - i) for i in range(WAITING)]


async def commands(nodes: int, pods: int) -> Case:
    """The whole command in a process of its own: start, lists over HTTP, computation, output."""
    with tempfile.TemporaryDirectory() as directory:
        pools = parse_pools([nodes], ["cpu=32,memory=128Gi,name=n"])
        async with LocalCluster(ClusterOptions(Path(directory) / "data", pools=pools)) as cluster:
            while len((await cluster.client.list(NODE, decode=len)).items) <= nodes:
                await asyncio.sleep(0.05)
            for each in (*_running(nodes, pods), *_waiting()):
                await _create(cluster.client, each)
            await asyncio.sleep(5.0)  # until the scheduler has reported the waiting jobs
            found = [await asyncio.to_thread(_command, cluster.kubeconfig) for _ in range(REPEATS)]
    title = f"{nodes} nodes, {pods} pods, vcctl explain job"
    return Case(BENCH, title, {"seconds": min(found), "slowest_seconds": max(found)}, TARGET)


async def _create(client: Client, each: JobManifests) -> None:
    group = {**each.group, "metadata": _fresh(each.group)}
    await client.create(POD_GROUP, group)
    for pod in each.pods:
        manifest = {**pod, "metadata": _fresh(pod)}
        manifest.pop("status")
        await client.create(POD, manifest)


def _fresh(manifest: Manifest) -> Manifest:
    dropped = ("uid", "resourceVersion", "creationTimestamp")
    return {name: value for name, value in manifest["metadata"].items() if name not in dropped}


def _command(kubeconfig: Path) -> float:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    command = [sys.executable, "-m", "volcano.entry.vcctl", "explain", "job", "w0"]
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
