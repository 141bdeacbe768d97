"""The Job controller at work on API servers, ours and a real one: versions, schemas, preconditions and watches."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from tests.controllers.job.world import CountedKeys, job, policy, task
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import served
from volcano.apiserver.storage.store import Store
from volcano.clients.connect import connect
from volcano.clients.http import HttpClient
from volcano.clients.kubeconfig import load_client_config
from volcano.clock import Instant, SystemClock
from volcano.controllers.job.controller import JobController
from volcano.kube.client import Client, Event, Options, Query
from volcano.kube.controller import Plan, Reconciler, Watch
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.errors import AlreadyExists, NotFound
from volcano.kube.kinds import (
    COMMAND,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
    Kind,
)
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of
from volcano.kube.operations import Create, Delete, Patch, perform
from volcano.local import components

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Hand(Reconciler[tuple[Kind, Key]]):
    """Plays scheduler and kubelet: gangs are let in, pods run, and pods told to go are gone."""

    name = "hand"
    watches: Sequence[Watch] = (Watch(POD_GROUP), Watch(POD))

    def keys(self, event: Event) -> Iterable[tuple[Kind, Key]]:
        return ((event.kind, key_of(event.object)),)

    def reconcile(self, key: tuple[Kind, Key], now: Instant) -> Plan:
        kind, name = key
        found = self.indexer.get(kind, name)
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


@dataclass(frozen=True)
class Room:
    """A namespace of its own on some server, and what a user does there."""

    client: Client
    name: str

    async def submit(self, manifest: Manifest) -> Manifest:
        return await self.client.create(
            JOB, {**manifest, "metadata": {"namespace": self.name, **manifest["metadata"]}}
        )

    async def finish(self, pod: str, phase: str = "Succeeded") -> None:
        await self.client.patch(POD, Key(self.name, pod), {"status": {"phase": phase}}, subresource="status")

    async def command(self, action: str, job_uid: str) -> None:
        target = {"apiVersion": JOB.api_version, "kind": "Job", "name": "j", "uid": job_uid}
        metadata = {"namespace": self.name, "name": action.lower()}
        await self.client.create(COMMAND, {"metadata": metadata, "action": action, "target": target})

    async def pods(self) -> list[Manifest]:
        return (await self.client.list(POD, Query(namespace=self.name))).items

    async def until(self, fits: Callable[[Manifest], bool]) -> Manifest:
        """Waits until the status of job j fits."""
        async with asyncio.timeout(20):
            while True:
                found = await self.client.get(JOB, Key(self.name, "j"))
                if fits(found.get("status") or {}):
                    return found
                await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """The controller and the hand run for as long as the block lasts."""
        controllers = (JobController(keys=CountedKeys()), Hand())
        tasks = [
            asyncio.create_task(ControllerRunner(controller, self.client, SystemClock()).run())
            for controller in controllers
        ]
        try:
            yield
        finally:
            for running in tasks:
                running.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.k8s)])
async def room(request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    """A namespace on the embedded server, and on a real one where there is one."""
    client: DirectClient | HttpClient
    if request.param == "real":
        real: RealCluster = request.getfixturevalue("real_apiserver")
        client = connect(
            load_client_config({}, kubeconfig=str(real.kubeconfig)), SystemClock(), environment={}
        )
    else:
        client = _embedded()
    for kind, manifest in components.crds():
        await perform(client, Create(kind, manifest, if_absent=True))
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACE, {"metadata": {"name": name}})
    queue: Manifest = {"metadata": {"name": "default"}, "spec": {"weight": 1}}
    async with asyncio.timeout(20):
        while True:  # a real server takes a moment to serve what a CRD defines
            with contextlib.suppress(NotFound):
                await perform(client, Create(QUEUE, queue, if_absent=True))
                await client.list(JOB)
                break
            await asyncio.sleep(0.1)
    yield Room(client, name)
    if isinstance(client, HttpClient):
        for found in (await client.list(JOB, Query(namespace=name))).items:
            await perform(client, Delete(JOB, key_of(found), if_present=True))
        await client.close()


def _embedded() -> DirectClient:
    table = KindTable(built_in_kinds())
    registry = Registry(
        Store(), table, clock=SystemClock(), random=Random(1), new_uid=lambda: str(uuid.uuid4())
    )
    table.follow(registry.store, served)
    return DirectClient(registry)


def in_phase(phase: str) -> Callable[[Manifest], bool]:
    return lambda status: (status.get("state") or {}).get("phase") == phase


async def test_a_job_runs_to_completion_with_its_plugins_objects(room: Room) -> None:
    async with room.at_work():
        await room.submit(job(plugins={"ssh": [], "svc": [], "env": []}))
        await room.until(in_phase("Running"))
        for kind, name in ((SECRET, "j-ssh"), (CONFIG_MAP, "j-svc"), (SERVICE, "j"), (NETWORK_POLICY, "j")):
            assert (await room.client.get(kind, Key(room.name, name)))["metadata"]["ownerReferences"]
        for pod in await room.pods():
            await room.finish(pod["metadata"]["name"])
        done = await room.until(in_phase("Completed"))
        assert done["status"]["succeeded"] == 2


async def test_a_gpu_requested_without_a_limit_is_no_obstacle(room: Room) -> None:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "i", "resources": resources}
    async with room.at_work():
        await room.submit(job(tasks=[task(spec={"containers": [container]})]))
        await room.until(in_phase("Running"))
        assert len(await room.pods()) == 2


async def test_a_job_restarts_and_comes_back(room: Room) -> None:
    async with room.at_work():
        await room.submit(job(policies=[policy("PodFailed", "RestartJob")]))
        await room.until(in_phase("Running"))
        before = {pod["metadata"]["uid"] for pod in await room.pods()}
        await room.finish("j-main-0", "Failed")
        await room.until(lambda status: status.get("retryCount") == 1 and in_phase("Running")(status))
        assert not before & {pod["metadata"]["uid"] for pod in await room.pods()}


async def test_one_pod_restarts_and_the_others_stay(room: Room) -> None:
    async with room.at_work():
        await room.submit(job(policies=[policy("PodFailed", "RestartPod")]))
        await room.until(in_phase("Running"))
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await room.pods()}
        await room.finish("j-main-0", "Failed")
        await room.until(lambda status: status.get("retryCount") == 1 and in_phase("Running")(status))
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await room.pods()}
        assert {name for name in before if before[name] != after[name]} == {"j-main-0"}


async def test_a_job_is_suspended_and_resumed(room: Room) -> None:
    async with room.at_work():
        created = await room.submit(job(volumes=[{"mountPath": "/d", "volumeClaim": CLAIM}]))
        await room.until(in_phase("Running"))
        claims = (await room.client.list(PERSISTENT_VOLUME_CLAIM, Query(namespace=room.name))).items
        assert len(claims) == 1
        for action, phase in (("AbortJob", "Aborted"), ("ResumeJob", "Running")):
            await room.command(action, created["metadata"]["uid"])
            await room.until(in_phase(phase))
        async with asyncio.timeout(10):
            while (await room.client.list(COMMAND, Query(namespace=room.name))).items:
                await asyncio.sleep(0.02)


async def test_a_job_created_again_under_its_old_name_starts_at_once(room: Room) -> None:
    plugins: dict[str, list[str]] = {"ssh": [], "svc": []}
    async with room.at_work():
        first = await room.submit(job(plugins=plugins))
        await room.until(in_phase("Running"))
        await room.client.delete(JOB, Key(room.name, "j"), options=Options(propagation="Background"))
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(AlreadyExists):
                    await room.submit(job(plugins=plugins))
                    break
                await asyncio.sleep(0.02)
        await room.until(in_phase("Running"))
        for pod in await room.pods():
            assert first["metadata"]["uid"] not in {
                owner["uid"] for owner in pod["metadata"]["ownerReferences"]
            }


async def test_hundreds_of_pods_are_made_though_the_controller_is_killed_halfway(room: Room) -> None:
    await room.submit(job(tasks=[task(replicas=300)]))
    async with room.at_work(), asyncio.timeout(20):
        while len(await room.pods()) < 50:
            await asyncio.sleep(0)
    async with room.at_work():
        done = await room.until(lambda status: status.get("running") == 300)
        assert done["status"]["state"]["phase"] == "Running"
        assert "retryCount" not in done["status"]
    assert len(await room.pods()) == 300
