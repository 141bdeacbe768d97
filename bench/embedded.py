"""The embedded cluster end to end: gangs from submission to all bound, beside a bare client doing the same writes."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.case import Case
from volcano.clients.connect import connect
from volcano.clients.kubeconfig import load_settings
from volcano.clock import SystemClock
from volcano.kube.client import Client, Query
from volcano.kube.kinds import JOB, NAMESPACE, NODE, POD
from volcano.kube.manifest import Key, Manifest
from volcano.local.cluster import LocalCluster, Settings
from volcano.nodes.pools import parse_pools

GANGS, MEMBERS, NODES = 100, 50, 1000
ABREAST = 64


def cases(scale: float) -> Iterator[Case]:
    gangs = max(int(GANGS * scale), 2)
    nodes = max(int(NODES * scale), 20)
    yield asyncio.run(_measure(gangs, MEMBERS, nodes))


async def _measure(gangs: int, members: int, nodes: int) -> Case:
    bare = await _with_cluster(nodes, lambda cluster: _bare(cluster.client, gangs, members, nodes))
    ours, p99 = await _with_cluster(nodes, lambda cluster: _ours(cluster, gangs, members))
    pods = gangs * members
    return Case(
        "embedded",
        f"{gangs} gangs of {members} pods on {nodes} nodes",
        {
            "bare_pods_per_second": pods / bare,
            "pods_per_second": pods / ours,
            "share_of_bare": bare / ours,
            "api_p99_ms": p99 * 1000,
        },
        {"min:share_of_bare": 0.6},
    )


async def _with_cluster(nodes: int, work):  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory() as directory:
        pools = parse_pools([nodes], ["cpu=32,memory=128Gi"])
        cluster = LocalCluster(Settings(Path(directory) / "data", durable=True, pools=pools))
        await cluster.start()
        try:
            while len((await cluster.client.list(NODE)).items) <= nodes:
                await asyncio.sleep(0.05)
            return await work(cluster)
        finally:
            await cluster.stop()


async def _bare(client: Client, gangs: int, members: int, nodes: int) -> float:
    """Seconds in which a client creates and binds the pods, doing nothing else."""
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}})
    await asyncio.sleep(0.5)
    started = time.monotonic()
    numbers = iter(range(gangs * members))

    async def work() -> None:
        for number in numbers:
            pod = {
                **_template(),
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "bare"},
            }
            await client.create(POD, pod)
            target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % nodes}"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": pod["metadata"], "target": target}
            await client.create(POD, binding, subresource="binding")

    await asyncio.gather(*(work() for _ in range(ABREAST)))
    return time.monotonic() - started


async def _ours(cluster: LocalCluster, gangs: int, members: int) -> tuple[float, float]:
    """Seconds from the first submission to the last binding, and the 99th percentile of a read over HTTPS meanwhile."""
    latencies: list[float] = []
    probe = asyncio.create_task(_probe(cluster, latencies))
    started = time.monotonic()
    await asyncio.gather(*(cluster.client.create(JOB, _job(f"gang-{n}", members)) for n in range(gangs)))
    while True:
        query = Query(namespace="default", fields="spec.nodeName!=")
        bound = len((await cluster.client.list(POD, query, decode=len)).items)
        if bound >= gangs * members:
            break
        await asyncio.sleep(0.05)
    elapsed = time.monotonic() - started
    probe.cancel()
    latencies.sort()
    return elapsed, latencies[int(len(latencies) * 0.99)] if latencies else 0.0


async def _probe(cluster: LocalCluster, latencies: list[float]) -> None:
    client = connect(load_settings({}, kubeconfig=str(cluster.kubeconfig)), SystemClock(), connections=1)
    while True:
        asked = time.monotonic()
        await client.get(NAMESPACE, Key("", "default"))
        latencies.append(time.monotonic() - asked)
        await asyncio.sleep(0.005)


def _template() -> Manifest:
    resources = {"requests": {"cpu": "250m", "memory": "256Mi"}}
    container = {
        "name": "worker",
        "image": "train:1",
        "command": ["sleep", "infinity"],
        "resources": resources,
    }
    return {"spec": {"restartPolicy": "Never", "schedulerName": "volcano", "containers": [container]}}


def _job(name: str, members: int) -> Manifest:
    tasks = [{"name": "worker", "replicas": members, "template": _template()}]
    metadata = {"name": name, "namespace": "default"}
    spec = {"minAvailable": members, "schedulerName": "volcano", "tasks": tasks}
    return {"apiVersion": JOB.api_version, "kind": "Job", "metadata": metadata, "spec": spec}
