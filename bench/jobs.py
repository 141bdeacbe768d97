"""Pods created per second by the Job controller, relative to a bare client.

Both run with automatic garbage collection off, as our programs do: they collect when idle.
"""

import asyncio
import contextlib
import gc
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from bench.case import Case
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import served
from volcano.apiserver.storage.store import Store
from volcano.clock import Instant, SystemClock
from volcano.controllers.job.controller import JobController
from volcano.kube.client import DEFAULTS, Event, Options
from volcano.kube.controller import Plan, Reconciler, Watch
from volcano.kube.controller_runner import MAX_CONCURRENT_WRITES, ControllerRunner
from volcano.kube.kinds import JOB, NAMESPACE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.kube.operations import Patch
from volcano.local import components

SPACE = "bench"
# Jobs × pods per job at full size.
SHAPES = ((1, 5000), (100, 50), (5000, 1))


def cases(scale: float) -> Iterator[Case]:
    """Every shape in its own cluster, and how the cost per pod grows with the number of pods."""
    for jobs, pods in SHAPES:
        many = max(int(max(jobs, pods) * scale), 20)
        shape = (many if jobs > pods else max(int(jobs * scale), 1), many if jobs <= pods else 1)
        if (jobs, pods) == (100, 50):
            shape = (max(int(jobs * scale), 4), pods)
        yield _case(*shape)
    yield _growth(scale)


def _case(jobs: int, pods: int) -> Case:
    measured = asyncio.run(_measure(jobs, pods))
    return Case(
        "jobs",
        f"{jobs} x {pods} pods",
        {
            "jobs_per_s": jobs / measured.seconds,
            "pods_per_s": jobs * pods / measured.seconds,
            "bare_pods_per_s": jobs * pods / measured.bare_seconds,
            # Of CPU time, which other load on the machine does not distort.
            "share_of_bare": measured.bare_cpu / measured.cpu,
            "cpu_us_per_pod": measured.cpu / (jobs * pods) * 1e6,
            "bare_cpu_us_per_pod": measured.bare_cpu / (jobs * pods) * 1e6,
        },
        # A job of one pod needs five writes, four of which are not pods.
        {"min:share_of_bare": 0.5} if pods > 1 else {},
    )


def _growth(scale: float) -> Case:
    """CPU per pod in one large job relative to one small job, and in many jobs relative to few."""
    large, small = max(int(5000 * scale), 400), max(int(500 * scale), 40)
    of_pods = _cpu(1, large) / _cpu(1, small)
    of_jobs = _cpu(large, 1) / _cpu(small, 1)
    metrics = {"ten_times_the_pods": of_pods, "ten_times_the_jobs": of_jobs}
    return Case("jobs", "cost per pod", metrics, {f"max:{name}": 1.5 for name in metrics})


def _cpu(jobs: int, pods: int) -> float:
    return asyncio.run(_measure(jobs, pods)).cpu / (jobs * pods)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds and CPU seconds until every pod existed, with and without the controller."""

    seconds: float
    cpu: float
    bare_seconds: float
    bare_cpu: float


class Admitter(Reconciler[Key]):
    """Admits every gang, as a scheduler with free capacity does."""

    name = "admitter"
    watches: Sequence[Watch] = (Watch(POD_GROUP),)

    def keys(self, event: Event) -> Iterable[Key]:
        return (key_of(event.object),)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        group = self.indexer.get(POD_GROUP, key)
        if group is None or (group.get("status") or {}).get("phase"):
            return Plan()
        return Plan([Patch(POD_GROUP, key, {"status": {"phase": "Inqueue"}})])


async def _measure(jobs: int, pods: int) -> Measured:
    client = await _cluster()
    for number in range(jobs):
        await client.create(JOB, _job(f"job-{number}", pods))
    client.wanted, client.enough = jobs * pods, asyncio.Event()
    with _no_collection():
        started, cpu = time.perf_counter(), time.process_time()
        async with _running_controllers(client):
            await client.enough.wait()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    made = [_bare(pod) for pod in (await client.list(POD)).items]

    bare = await _cluster()
    waiting = iter(made)

    async def create() -> None:
        for pod in waiting:
            await bare.create(POD, pod)

    with _no_collection():
        started, bare_cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(create() for _ in range(MAX_CONCURRENT_WRITES)))
        bare_seconds, bare_cpu = time.perf_counter() - started, time.process_time() - bare_cpu
    return Measured(seconds, cpu, bare_seconds, bare_cpu)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.asynccontextmanager
async def _running_controllers(client: DirectClient) -> AsyncIterator[None]:
    controllers = (JobController(), Admitter())
    tasks = [
        asyncio.create_task(ControllerRunner(controller, client, SystemClock()).run())
        for controller in controllers
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class CountingClient(DirectClient):
    """Signals when `wanted` pods have been created."""

    made = 0
    wanted = 0
    enough: asyncio.Event

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        created = await super().create(kind, manifest, subresource=subresource, options=options)
        if kind is POD:
            self.made += 1
            if self.made == self.wanted:
                self.enough.set()
        return created


async def _cluster() -> CountingClient:
    registry = Registry(
        Store(),
        table := KindTable(built_in_kinds()),
        clock=SystemClock(),
        random=Random(1),
        new_uid=lambda: str(uuid.uuid4()),
    )
    table.follow(registry.store, served)
    client = CountingClient(registry)
    for kind, manifest in components.crds():
        await client.create(kind, manifest)
    await client.create(NAMESPACE, {"metadata": {"name": SPACE}})
    await client.create(QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
    return client


def _job(name: str, pods: int) -> Manifest:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox:1", "command": ["sleep", "60"], "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "minAvailable": pods,
            "schedulerName": "volcano",
            "queue": "default",
            "plugins": {"env": []},
            "tasks": [{"name": "work", "replicas": pods, "template": template}],
        },
    }


def _bare(pod: Manifest) -> Manifest:
    """Pod as a client would send it."""
    metadata = {
        name: pod["metadata"][name]
        for name in ("name", "namespace", "labels", "annotations", "ownerReferences")
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
