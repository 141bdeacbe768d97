"""`vcctl explain job` on a large cluster: the computation alone, and the whole command against a cluster
of `volcano up` in another process."""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench._local_cluster import STARTED_WITHIN, UpCluster, job_manifest, run_in_thread
from bench.case import Case
from tests.builders import START, JobManifests, job, node, priority_class, queue
from tests.scenario import cluster_of
from volcano.analysis.explain.case import Case as ExplainedCase
from volcano.analysis.explain.job import explain_job
from volcano.analysis.explain.outlook import reruns_within, suggested
from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Query
from volcano.scheduler.engine.config import PRESETS, parse, shipped

BENCH = "explain"
NODES, PODS, WAITING = 1_000, 10_000, 200
COMMAND_WAITING = 50
PER_JOB = 50
REPEATS = 3
TARGET = {"max:seconds": 3.0, "max:cpu_seconds": 3.0}


def cases(scale: float = 1.0) -> Iterator[Case]:
    nodes, pods = max(int(NODES * scale), 10), max(int(PODS * scale), 100)
    yield computed(nodes, pods, "default")
    yield computed(nodes, pods, "preempt")
    yield command(nodes, pods, "default")
    yield command(nodes, pods, "preempt")


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
    assert found.state == "waiting", found.summary
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


def command(nodes: int, pods: int, preset: str) -> Case:
    """The whole command in a process of its own: start, lists over HTTPS, computation, output."""
    with tempfile.TemporaryDirectory() as home:
        cluster = UpCluster(
            Path(home), nodes, "cpu=32,memory=128Gi", "--scheduler-conf", preset, "--no-dashboard"
        )
        try:
            # 30 of the 32 cores of each node are in use, so that gangs of pods with 8 cores wait.
            cluster.fill(pods, PER_JOB, {"cpu": f"{30_000 * nodes // pods}m", "memory": "1Gi"})
            run_in_thread(_wait_for_reports(cluster))
            found = [_run(cluster.kubeconfig) for _ in range(REPEATS)]
        finally:
            cluster.stop()
    wall, cpu = zip(*found, strict=True)
    title = f"{nodes} nodes, {pods} pods, vcctl explain job, preset {preset}"
    return Case(
        BENCH, title, {"seconds": min(wall), "slowest_seconds": max(wall), "cpu_seconds": min(cpu)}, TARGET
    )


async def _wait_for_reports(cluster: UpCluster) -> None:
    """Creates the jobs that wait, until the scheduler has reported why for all of them."""
    client = cluster.client()
    try:
        for number in range(COMMAND_WAITING):
            requests = {"cpu": str(8 + number % 20), "memory": "1Gi"}
            await client.create(JOB, job_manifest(f"w{number}", 8, requests))
        deadline = time.monotonic() + STARTED_WITHIN
        while time.monotonic() < deadline:
            groups = (await client.list(POD_GROUP, Query(namespace="default"))).items
            if sum(map(_is_reported, groups)) >= COMMAND_WAITING:
                return
            await asyncio.sleep(0.5)
        raise TimeoutError("the scheduler did not report why the jobs wait")
    finally:
        await client.close()


def _is_reported(group: Manifest) -> bool:
    conditions = (group.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Unschedulable" and each["status"] == "True" for each in conditions)


def _run(kubeconfig: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one command."""
    # An installed command has its modules compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["KUBECONFIG"] = str(kubeconfig)
    words = [sys.executable, "-m", "volcano.cmd.vcctl", "explain", "job", "w0"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Changes that would start it" in done.stdout, done.stdout
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
