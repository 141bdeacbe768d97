"""Embedded cluster end to end: gangs until all are bound, compared with a bare client; and its cost at rest.

Each measurement runs in its own process, so that none pays for the garbage of another.
"""

import asyncio
import gc
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.case import Case
from volcano.base.clock import SystemClock
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import CONFIG_MAP, JOB, NAMESPACE, NODE, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client, EventType, Query
from volcano.nodes.pools import parse_pools

GANGS, MEMBERS, NODES = 100, 50, 1000
PODS_AT_REST = 20_000
CONCURRENT_REQUESTS = 64
ROUNDS = 3  # alternating rounds and the median, because the machine's speed varies
WATCHED_FOR = 10.0  # seconds at rest
PROBE_SECONDS = 0.02  # between two requests

Metrics = dict[str, float]


def cases(scale: float) -> Iterator[Case]:
    gangs, nodes = max(int(GANGS * scale), 2), max(int(NODES * scale), 20)
    rounds = [_side_by_side(gangs, nodes) for _ in range(ROUNDS)]
    metrics = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    title = f"{gangs} gangs of {MEMBERS} pods on {nodes} nodes"
    yield Case("embedded", title, metrics, {"min:share_of_bare": 0.6, "max:api_p99_ms": 100})
    pods = max(int(PODS_AT_REST * scale), 100)
    at_rest = _alone(_at_rest, pods, nodes)
    targets: Metrics = {"max:rss_mib": 1024, "max:idle_cpu_percent": 20}
    yield Case("embedded", f"{pods} pods on {nodes} nodes at rest", at_rest, targets)


def _side_by_side(gangs: int, nodes: int) -> Metrics:
    bare = _alone(_bare, gangs * MEMBERS, nodes)
    ours = _alone(_ours, gangs, MEMBERS, nodes)
    return {
        **{f"bare_{name}": value for name, value in bare.items()},
        **ours,
        "share_of_bare": ours["pods_per_second"] / bare["pods_per_second"],
        "share_of_bare_by_cpu": bare["cpu_ms_per_pod"] / ours["cpu_ms_per_pod"],
    }


def _alone(measure: Callable[..., Coroutine[Any, Any, Metrics]], *sizes: int) -> Metrics:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(_run, measure, sizes).result()


def _run(measure: Callable[..., Coroutine[Any, Any, Metrics]], sizes: tuple[int, ...]) -> Metrics:
    return asyncio.run(measure(*sizes))


@asynccontextmanager
async def _cluster(nodes: int) -> AsyncIterator[LocalCluster]:
    with tempfile.TemporaryDirectory() as directory:
        pools = parse_pools([nodes], ["cpu=32,memory=128Gi"])
        async with LocalCluster(ClusterOptions(Path(directory) / "data", pools=pools)) as cluster:
            while len((await cluster.client.list(NODE, decode=len)).items) <= nodes:
                await asyncio.sleep(0.05)
            await asyncio.sleep(1.0)  # until the handling of new nodes has ended
            yield cluster


async def _bare(pods: int, nodes: int) -> Metrics:
    """Rate at which a client creates and binds the same pods, without controllers and scheduler."""
    async with _cluster(nodes) as cluster, _probed(cluster) as latencies:
        like = await _pod_of_a_gang(cluster.client)
        started, used = time.monotonic(), time.process_time()
        await _in_parallel(pods, lambda number: _create_and_bind(cluster.client, like, number, nodes))
        return {**_rates(pods, started, used), "api_p99_ms": _p99(latencies)}


async def _ours(gangs: int, members: int, nodes: int) -> Metrics:
    """From the first submission to the last binding, and the latency of reads over HTTPS meanwhile."""
    async with _cluster(nodes) as cluster, _probed(cluster) as latencies:
        all_bound = asyncio.create_task(_until_bound(cluster.client, gangs * members))
        await asyncio.sleep(0)
        started, used = time.monotonic(), time.process_time()
        await asyncio.gather(*(cluster.client.create(JOB, _job(f"gang-{n}", members)) for n in range(gangs)))
        await all_bound
        return {**_rates(gangs * members, started, used), "api_p99_ms": _p99(latencies)}


async def _at_rest(pods: int, nodes: int) -> Metrics:
    """Memory and CPU of the process when all pods run and nothing changes."""
    async with _cluster(nodes) as cluster:
        client = cluster.client
        like = await _pod_of_a_gang(client)
        started, used = time.monotonic(), time.process_time()
        await _in_parallel(pods, lambda number: _create_and_bind(client, like, number, nodes))
        await _until_none(client, "status.phase!=Running", at_least=pods)
        rates = _rates(pods, started, used)
        await asyncio.sleep(WATCHED_FOR / 2)
        gc.collect()
        used = time.process_time()
        await asyncio.sleep(WATCHED_FOR)
        busy = (time.process_time() - used) / WATCHED_FOR
        return {"rss_mib": _resident() / 2**20, "idle_cpu_percent": busy * 100, **rates}


async def _pod_of_a_gang(client: Client) -> Manifest:
    """Pod as the controllers create it, without a scheduler and with an owner that stays."""
    await client.create(JOB, _job("like", 1))
    async for event in client.watch(POD, Query(namespace="default")):
        pod = event.object
        break
    await client.delete(JOB, Key("default", "like"))
    owner = await client.create(CONFIG_MAP, {"metadata": {"name": "owner", "namespace": "default"}})
    owned_by = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    kept = {name: pod["metadata"][name] for name in ("labels", "annotations", "namespace")}
    references = [{**owned_by, "controller": True, "blockOwnerDeletion": True}]
    spec = {**pod["spec"], "schedulerName": "bare"}
    spec.pop("nodeName", None)
    await asyncio.sleep(1.0)  # until the job is deleted
    return {**pod, "metadata": {**kept, "ownerReferences": references}, "spec": spec, "status": {}}


async def _create_and_bind(client: Client, like: Manifest, number: int, nodes: int) -> None:
    name = f"p{number}"
    await client.create(POD, {**like, "metadata": {**like["metadata"], "name": name}})
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % nodes}"}
    metadata = {"name": name, "namespace": "default"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    await client.create(POD, binding, subresource="binding")


async def _in_parallel(count: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(CONCURRENT_REQUESTS)))


async def _until_bound(client: Client, pods: int) -> None:
    """Waits until a watch has shown that many pods of the namespace with a node."""
    query = Query(namespace="default", fields="spec.nodeName!=")
    async for event in client.watch(POD, query, decode=len):
        pods -= event.type is EventType.ADDED
        if pods == 0:
            return


async def _until_none(client: Client, fields: str, *, at_least: int) -> None:
    """Waits until the namespace has that many pods and none of them is selected."""
    while True:
        left = (await client.list(POD, Query(namespace="default", fields=fields), decode=len)).items
        if (
            not left
            and len((await client.list(POD, Query(namespace="default"), decode=len)).items) >= at_least
        ):
            return
        await asyncio.sleep(0.2)  # polling costs CPU too


def _rates(pods: int, started: float, used: float) -> Metrics:
    return {
        "pods_per_second": pods / (time.monotonic() - started),
        "cpu_ms_per_pod": (time.process_time() - used) / pods * 1000,
    }


@asynccontextmanager
async def _probed(cluster: LocalCluster) -> AsyncIterator[list[float]]:
    """Sends reads over HTTPS at a low rate; returns the latencies."""
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock(), connections=1)
    latencies: list[float] = []

    async def probe() -> None:
        while True:
            sent = time.monotonic()
            await client.get(NAMESPACE, Key("", "default"))
            latencies.append(time.monotonic() - sent)
            await asyncio.sleep(PROBE_SECONDS)

    probing = asyncio.create_task(probe())
    try:
        yield latencies
    finally:
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)
        await client.close()


def _p99(latencies: list[float]) -> float:
    return sorted(latencies)[int(len(latencies) * 0.99)] * 1000


def _resident() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


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
