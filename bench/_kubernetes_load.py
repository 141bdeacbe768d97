"""Load process of `bench kubernetes`: jobs written by a bare client, or submitted to our controllers.

`python -m bench._kubernetes_load KUBECONFIG ROLE SHAPE`: prints `ready`, starts when it receives a line,
and prints one JSON object once a watch has shown every pod bound. `bare` writes everything itself;
`submit` only the jobs.
"""

import asyncio
import contextlib
import gc
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

import msgspec
import orjson

from bench._kubernetes_shape import NAMESPACE, Shape, job_manifest, queue_manifests
from volcano.base.clock import SystemClock
from volcano.controllers.job.observe import compile_job
from volcano.controllers.job.plugins.keys import KeyPool
from volcano.controllers.job.podgroup import make_group
from volcano.controllers.job.pods import pod_maker
from volcano.controllers.job.status import Status, render, transition
from volcano.controllers.job.types import Phase
from volcano.kube.api import kinds
from volcano.kube.api.errors import AlreadyExists
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import EventType, PatchType, Query
from volcano.kube.client.requests import path_of
from volcano.model.decisions import Bind
from volcano.scheduler.writeback.operations import binding

CONNECTIONS = 32
JSON = "application/json"
MERGE = PatchType.MERGE.value


class _Metadata(msgspec.Struct):
    name: str
    resourceVersion: str  # noqa: N815 - as on the wire


class _Named(msgspec.Struct):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Named)


class Observer:
    """Watches pods and records when each is bound."""

    def __init__(self, client: HttpClient, wanted: int) -> None:
        self._client = client
        self._wanted = wanted
        self.bound: dict[str, float] = {}

    async def run(self, watching: asyncio.Event) -> None:
        """Watches until all pods are bound; a server under load may end slow watches."""
        version = (await self._client.list(POD, Query(namespace=NAMESPACE, limit=1))).resource_version
        watching.set()
        while len(self.bound) < self._wanted:
            version = await self._follow(version)

    async def _follow(self, version: str) -> str:
        query = Query(namespace=NAMESPACE, fields="spec.nodeName!=", resource_version=version)
        async with aclosing(self._client.watch(POD, query, decode=_DECODER.decode)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.type is EventType.BOOKMARK:
                    continue
                version = event.object.metadata.resourceVersion
                self.bound.setdefault(event.object.metadata.name, time.perf_counter())
                if len(self.bound) == self._wanted:
                    break
        return version


class Load:
    """Writes numbered jobs; records when each was started."""

    def __init__(self, client: HttpClient, shape: Shape) -> None:
        self._client = client
        self._shape = shape
        self._makers: dict[int, Callable[[int], Manifest]] = {}
        self._made: defaultdict[tuple[int, int], asyncio.Future[str]] = defaultdict(asyncio.Future)
        self.begun: dict[int, float] = {}

    async def submit(self) -> None:
        """Creates the jobs only."""
        bodies = [orjson.dumps(job_manifest(self._shape, number)) for number in range(self._shape.jobs)]

        async def create(number: int) -> None:
            self.begun[number] = time.perf_counter()
            await self._post(path_of(JOB, NAMESPACE), bodies[number])

        await _in_parallel(range(self._shape.jobs), create)

    async def bare(self) -> None:
        """Writes everything a job's pods need to be bound, and one status of the job and its PodGroup."""
        await _in_parallel(range(self._shape.jobs), self._open)
        await _in_parallel(
            range(2 * self._shape.pods), lambda step: self._step(*_gang_step(self._shape, step))
        )

    async def _open(self, number: int) -> None:
        self.begun[number] = time.perf_counter()
        created = orjson.loads(
            await self._post(path_of(JOB, NAMESPACE), orjson.dumps(job_manifest(self._shape, number)))
        )
        blueprint = compile_job(created, "volcano", KeyPool())
        job = blueprint.job
        assert job is not None, blueprint.problem
        now = SystemClock().now()
        status = transition(Status(min_available=job.min_available), Phase.PENDING, job, now)
        group = make_group(job, status, blueprint.min_resources({}))
        await self._post(path_of(POD_GROUP, NAMESPACE), orjson.dumps(group))
        running = {"status": {"phase": "Running", "running": job.replicas}}
        await self._patch(path_of(POD_GROUP, NAMESPACE, job.group_name), running)
        await self._patch(path_of(JOB, NAMESPACE, job.name, "status"), {"status": render(status)})
        self._makers[number] = pod_maker(job, job.tasks[0], status, blueprint.plugins)

    async def _step(self, number: int, index: int, bound: bool) -> None:
        """Creates a pod, or binds a created one."""
        if bound:
            await self._bind(number, index)
        else:
            pod = self._makers[number](index)
            await self._post(path_of(POD, NAMESPACE), orjson.dumps(pod))
            self._made[number, index].set_result(pod["metadata"]["name"])

    async def _bind(self, number: int, index: int) -> None:
        name = await self._made[number, index]
        node = f"node-{(number * self._shape.members + index) % self._shape.nodes}"
        decided = binding(Bind("/", NAMESPACE, name, "", node))
        await self._post(path_of(POD, NAMESPACE, name, "binding"), orjson.dumps(decided.manifest))

    async def _post(self, path: str, body: bytes) -> bytes:
        return (await self._client.raw("POST", path, body, JSON)).body

    async def _patch(self, path: str, patch: Any) -> None:
        await self._client.raw("PATCH", path, orjson.dumps(patch), MERGE)


def _gang_step(shape: Shape, step: int) -> tuple[int, int, bool]:
    """Gang by gang, as a gang scheduler has to: create all pods of one, then bind them."""
    gang, index = divmod(step, 2 * shape.members)
    return gang, index % shape.members, index >= shape.members


async def _in_parallel(numbers: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
    waiting = iter(numbers)

    async def worker() -> None:
        for number in waiting:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))


async def _prepare(client: HttpClient, shape: Shape) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    for manifest in queue_manifests(shape):
        with contextlib.suppress(AlreadyExists):
            await client.create(QUEUE, manifest)


async def main(kubeconfig: str, role: str, shape: Shape) -> None:
    settings = load_client_config(os.environ, kubeconfig=kubeconfig)
    client = connect(settings, SystemClock(), chance=random.random, connections=CONNECTIONS)
    await _prepare(client, shape)
    observer, load, watching = Observer(client, shape.pods), Load(client, shape), asyncio.Event()
    watch = asyncio.create_task(observer.run(watching))
    await watching.wait()
    await asyncio.sleep(0.2)
    gc.collect()
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began, cpu = time.perf_counter(), time.process_time()
    await {"bare": load.bare, "submit": load.submit}[role]()
    submitted = time.perf_counter()
    await watch
    if shape.until_end and role == "submit":
        await _all_ended(client)
    ended = max(observer.bound.values())
    waits = sorted(at - load.begun[_job_of(name)] for name, at in observer.bound.items())
    print(
        json.dumps(
            {
                "seconds": ended - began,
                "submit_seconds": submitted - began,
                "pods_per_s": shape.pods / (ended - began),
                "p50_s": waits[len(waits) // 2],
                "p99_s": waits[int(len(waits) * 0.99)],
                "client_cpu_s": time.process_time() - cpu,
            }
        ),
        flush=True,
    )
    await client.close()


async def _all_ended(client: HttpClient) -> None:
    """Waits until every job is Completed."""
    query = Query(namespace=NAMESPACE)
    while any(_phase(job) != "Completed" for job in (await client.list(JOB, query)).items):
        await asyncio.sleep(1.0)


def _phase(job: Manifest) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))


def _job_of(pod: str) -> int:
    """Number of the job that a pod such as `job-7-work-0` belongs to."""
    return int(pod.split("-")[1])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], msgspec.json.decode(sys.argv[3], type=Shape)))
