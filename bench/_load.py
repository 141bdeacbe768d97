"""Load process for an API server: `python -m bench._load KUBECONFIG VERB COUNT CONNECTIONS NAME`.

Prints one JSON object with its measurements. Verbs: create, bind, delete, list, watch.
"""

import asyncio
import contextlib
import gc
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import orjson

from volcano.base.clock import SystemClock
from volcano.kube.api.errors import AlreadyExists
from volcano.kube.api.kinds import NAMESPACE, NODE, POD, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import EventType, Query

NAMESPACE_NAME = "bench"
NODES = 50


class Metadata(msgspec.Struct):
    name: str


class Named(msgspec.Struct):
    """Minimal fields of an object."""

    metadata: Metadata


def pod(name: str) -> Manifest:
    """Pod of the size that job controllers create: about 1.5 KB."""
    labels = {"app": "bench", "volcano.sh/job-name": "bench", "volcano.sh/task-spec": "worker"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE_NAME,
            "labels": labels,
            "annotations": {"scheduling.k8s.io/group-name": "bench", **labels},
        },
        "spec": {
            "schedulerName": "no-scheduler",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1",
                    "command": ["sh", "-c", "echo start; sleep 3600; echo done"],
                    "env": [{"name": f"SETTING_{n}", "value": f"value of setting {n}"} for n in range(8)],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                    "ports": [{"name": "http", "containerPort": 8080}],
                }
            ],
        },
    }


def binding(name: str, number: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": NAMESPACE_NAME},
        "target": {"apiVersion": "v1", "kind": "Node", "name": f"static-{number % NODES}"},
    }


async def flood(count: int, connections: int, write: Callable[[int], Awaitable[Any]]) -> dict[str, float]:
    """Performs `count` writes over `connections` connections; returns the rate and latencies in ms."""
    numbers = iter(range(count))
    times: list[float] = []

    async def worker() -> None:
        for number in numbers:
            began = time.perf_counter()
            await write(number)
            times.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(connections)))
    elapsed = time.perf_counter() - began
    times.sort()
    return {
        "per_second": count / elapsed,
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[int(len(times) * 0.99)],
        "client_cpu_us": 1e6 * (time.process_time() - cpu) / count,
    }


async def prepare(client: HttpClient) -> None:
    """Creates the namespace, and nodes without a kubelet: pods bound to them stay as they are."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    size = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
    await _create_if_missing(client, NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
    for number in range(NODES):
        status = {"allocatable": size, "capacity": size, "conditions": [ready]}
        await _create_if_missing(client, NODE, {"metadata": {"name": f"static-{number}"}, "status": status})


async def _create_if_missing(client: HttpClient, kind: Kind, manifest: Manifest) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(kind, manifest)


async def create(client: HttpClient, count: int, connections: int, name: str) -> dict[str, float]:
    bodies = [orjson.dumps(pod(f"{name}-{n}")) for n in range(count)]
    target = f"/api/v1/namespaces/{NAMESPACE_NAME}/pods"
    return await flood(
        count, connections, lambda n: client.raw("POST", target, bodies[n], "application/json")
    )


async def bind(client: HttpClient, count: int, connections: int, name: str) -> dict[str, float]:
    bodies = [orjson.dumps(binding(f"{name}-{n}", n)) for n in range(count)]
    prefix = f"/api/v1/namespaces/{NAMESPACE_NAME}/pods/{name}-"
    return await flood(
        count,
        connections,
        lambda n: client.raw("POST", f"{prefix}{n}/binding", bodies[n], "application/json"),
    )


async def delete(client: HttpClient, count: int, connections: int, name: str) -> dict[str, float]:
    body = orjson.dumps({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    prefix = f"/api/v1/namespaces/{NAMESPACE_NAME}/pods/{name}-"
    return await flood(
        count, connections, lambda n: client.raw("DELETE", f"{prefix}{n}", body, "application/json")
    )


async def list_pods(client: HttpClient, count: int, connections: int, name: str) -> dict[str, float]:
    """Lists everything `count` times, into small structs."""
    decoder = msgspec.json.Decoder(Named)
    times, size = [], 0
    for _ in range(count):
        began = time.perf_counter()
        size = len((await client.list(POD, Query(namespace=NAMESPACE_NAME), decode=decoder.decode)).items)
        times.append(time.perf_counter() - began)
    return {"items": float(size), "seconds": min(times)}


async def watch(client: HttpClient, count: int, connections: int, name: str) -> dict[str, float]:
    """Watches over `connections` connections until each has received `count` new pods named after `name`."""
    decoder = msgspec.json.Decoder(Named)
    since = (await client.list(POD, Query(namespace=NAMESPACE_NAME, limit=1))).resource_version
    started: list[float] = []

    async def watcher() -> float:
        seen = 0
        query = Query(namespace=NAMESPACE_NAME, resource_version=since)
        async for event in client.watch(POD, query, decode=decoder.decode):
            if event.type is EventType.ADDED and event.object.metadata.name.startswith(name):
                seen += 1
                if not started:
                    started.append(time.perf_counter())
                if seen == count:
                    break
        return time.perf_counter()

    watchers = [asyncio.create_task(watcher()) for _ in range(connections)]
    await asyncio.sleep(0.3)
    print("watching", flush=True)
    cpu = time.process_time()
    ended = max(await asyncio.gather(*watchers))
    events = count * connections
    return {
        "events_per_second": events / (ended - started[0]),
        "client_cpu_us": 1e6 * (time.process_time() - cpu) / events,
    }


VERBS: dict[str, Callable[[HttpClient, int, int, str], Awaitable[dict[str, float]]]] = {
    "create": create,
    "bind": bind,
    "delete": delete,
    "list": list_pods,
    "watch": watch,
}


async def main(kubeconfig: str, verb: str, count: int, connections: int, name: str) -> None:
    settings = load_client_config(os.environ, kubeconfig=kubeconfig)
    client = connect(settings, SystemClock(), chance=random.random, connections=connections)
    if verb == "create":
        await prepare(client)
    gc.collect()
    gc.freeze()
    gc.disable()
    print(json.dumps(await VERBS[verb](client, count, connections, name)), flush=True)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
