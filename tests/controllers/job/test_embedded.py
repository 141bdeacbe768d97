"""The Job controller at work on the embedded API server: real versions, schemas, preconditions and watches."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from random import Random

from tests.controllers.job.world import CountedKeys, job, policy, task
from volcano.apiserver.builtin import built_in_kinds
from volcano.apiserver.crds import served
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.kindtable import KindTable
from volcano.apiserver.registry import Registry
from volcano.apiserver.store import Store
from volcano.clock import Instant, SystemClock
from volcano.controllers.job.controller import JobController
from volcano.kube.client import Event, Options, Query
from volcano.kube.errors import NotFound
from volcano.kube.kinds import (
    COMMAND,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
)
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of
from volcano.kube.operations import Delete, Patch
from volcano.kube.reconciler import Plan, Reconciler, Watch
from volcano.kube.runner import Runner
from volcano.local import parts

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Hand(Reconciler):
    """Plays scheduler and kubelet: gangs are let in, pods run, and pods told to go are gone."""

    name = "hand"
    watches: Sequence[Watch] = (Watch(POD_GROUP), Watch(POD))

    def keys(self, event: Event) -> Iterable[Hashable]:
        return ((event.kind, key_of(event.object)),)

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        assert isinstance(key, tuple)
        kind, name = key
        found = self.index.get(kind, name)
        if found is None:
            return Plan()
        phase = (found.get("status") or {}).get("phase", "")
        if kind == POD_GROUP:
            waiting = phase in ("", "Pending")
            return Plan([Patch(kind, name, {"status": {"phase": "Running"}})] if waiting else ())
        if is_deleting(found):
            return Plan([Delete(kind, name, Options(grace_seconds=0), if_present=True)])
        if phase == "Pending":
            container = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
            status = {"phase": "Running", "containerStatuses": [container]}
            return Plan([Patch(kind, name, {"status": status}, subresource="status", if_present=True)])
        return Plan()


async def cluster() -> DirectClient:
    table = KindTable(built_in_kinds())
    registry = Registry(
        Store(), table, clock=SystemClock(), random=Random(1), new_uid=lambda: str(uuid.uuid4())
    )
    table.follow(registry.store, served)
    client = DirectClient(registry)
    for kind, manifest in parts.crds():
        await client.create(kind, manifest)
    await client.create(NAMESPACE, {"metadata": {"name": "default"}})
    await client.create(QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
    return client


@contextlib.asynccontextmanager
async def at_work(client: DirectClient) -> AsyncIterator[None]:
    brains = (JobController(keys=CountedKeys()), Hand())
    tasks = [asyncio.create_task(Runner(brain, client, SystemClock()).run()) for brain in brains]
    try:
        yield
    finally:
        for running in tasks:
            running.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(client: DirectClient, name: str, fits: Callable[[Manifest], bool]) -> Manifest:
    async with asyncio.timeout(10):
        while True:
            found = await client.get(JOB, Key("default", name))
            if fits(found.get("status") or {}):
                return found
            await asyncio.sleep(0.01)


def in_phase(phase: str) -> Callable[[Manifest], bool]:
    return lambda status: (status.get("state") or {}).get("phase") == phase


async def submit(client: DirectClient, manifest: Manifest) -> Manifest:
    metadata = {"namespace": "default", **manifest["metadata"]}
    return await client.create(JOB, {**manifest, "metadata": metadata})


async def finish(client: DirectClient, name: str, phase: str = "Succeeded") -> None:
    await client.patch(POD, Key("default", name), {"status": {"phase": phase}}, subresource="status")


async def pods(client: DirectClient) -> list[Manifest]:
    return (await client.list(POD, Query(namespace="default"))).items


async def test_a_job_runs_to_completion_with_its_plugins_objects() -> None:
    client = await cluster()
    async with at_work(client):
        await submit(client, job(plugins={"ssh": [], "svc": [], "env": []}))
        await until(client, "j", in_phase("Running"))
        for kind, name in ((SECRET, "j-ssh"), (CONFIG_MAP, "j-svc"), (SERVICE, "j")):
            assert (await client.get(kind, Key("default", name)))["metadata"]["ownerReferences"]
        for pod in await pods(client):
            await finish(client, pod["metadata"]["name"])
        done = await until(client, "j", in_phase("Completed"))
        assert done["status"]["succeeded"] == 2


async def test_a_job_restarts_and_comes_back() -> None:
    client = await cluster()
    async with at_work(client):
        await submit(client, job(policies=[policy("PodFailed", "RestartJob")]))
        await until(client, "j", in_phase("Running"))
        before = {pod["metadata"]["uid"] for pod in await pods(client)}
        await finish(client, "j-main-0", "Failed")
        await until(client, "j", lambda status: status.get("retryCount") == 1 and in_phase("Running")(status))
        assert not before & {pod["metadata"]["uid"] for pod in await pods(client)}


async def test_a_job_is_suspended_resumed_and_deleted() -> None:
    client = await cluster()
    target = {"apiVersion": JOB.api_version, "kind": "Job", "name": "j", "uid": ""}
    async with at_work(client):
        created = await submit(client, job(volumes=[{"mountPath": "/d", "volumeClaim": CLAIM}]))
        await until(client, "j", in_phase("Running"))
        assert len((await client.list(PERSISTENT_VOLUME_CLAIM)).items) == 1
        for number, (action, phase) in enumerate((("AbortJob", "Aborted"), ("ResumeJob", "Running"))):
            metadata = {"namespace": "default", "name": f"c{number}"}
            owner = {**target, "uid": created["metadata"]["uid"]}
            await client.create(COMMAND, {"metadata": metadata, "action": action, "target": owner})
            await until(client, "j", in_phase(phase))
        assert (await client.list(COMMAND)).items == []
        await client.delete(JOB, Key("default", "j"))
        with contextlib.suppress(NotFound):
            assert is_deleting(await client.get(JOB, Key("default", "j")))


async def test_hundreds_of_pods_are_made_though_the_controller_is_killed_halfway() -> None:
    client = await cluster()
    await submit(client, job(tasks=[task(replicas=300)]))
    async with at_work(client), asyncio.timeout(10):
        while len(await pods(client)) < 50:
            await asyncio.sleep(0)
    async with at_work(client):
        done = await until(client, "j", lambda status: status.get("running") == 300)
        assert done["status"]["state"]["phase"] == "Running"
        assert "retryCount" not in done["status"]
    assert len(await pods(client)) == 300
