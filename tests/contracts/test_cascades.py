"""Cascading deletion, by our controllers and by kube-controller-manager."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contracts.clients import api_server, real
from tests.contracts.namespace_client import NamespaceClient
from tests.k8s.control_plane import build, cluster
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.journal import DurableStore
from volcano.clock import SystemClock
from volcano.controllers.kubernetes.garbage_collector import GarbageCollector
from volcano.controllers.kubernetes.namespace import CrdFinalizer, NamespaceController
from volcano.kube.client import Options
from volcano.kube.controller import Controller
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.errors import NotFound
from volcano.kube.kinds import CONFIG_MAP, NAMESPACE, SECRET
from volcano.kube.manifest import Key, Manifest, owner_reference

WITHIN = 30.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def real_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.RealCluster]:
    """A real control plane whose controllers collect garbage."""
    if build.missing():
        pytest.skip(f"not built: {', '.join(build.missing())}")
    running = cluster.start(tmp_path_factory.mktemp("controllers"), controllers=True)
    yield running
    running.stop()


async def ours(directory: Path) -> AsyncIterator[DirectClient]:
    durable = DurableStore(directory / "data")
    registry, server = api_server(durable.store)
    await server.start()
    client, clock = DirectClient(registry), SystemClock()
    controllers: list[Controller] = [GarbageCollector(), NamespaceController(), CrdFinalizer()]
    runners = [ControllerRunner(controller, client, clock) for controller in controllers]
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    yield client
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.close()
    durable.close()


@pytest.fixture(params=["ours", pytest.param("real", marks=pytest.mark.k8s)])
async def ns(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NamespaceClient]:
    name = f"cascade-{next(_numbers)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if request.param == "real":
        async with real(request.getfixturevalue("real_controllers")) as client:
            await client.create(NAMESPACE, manifest)
            yield NamespaceClient(client, name)
    else:
        async for client in ours(tmp_path):
            await client.create(NAMESPACE, manifest)
            yield NamespaceClient(client, name)


async def until(ns: NamespaceClient, names: list[str]) -> None:
    """Waits until exactly these objects exist."""
    present: list[str] = []
    for _ in range(int(WITHIN / 0.05)):
        present = await ns.names()
        if present == names:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{present} exist, not {names}")


def owned(ns: NamespaceClient, name: str, *owners: Manifest) -> Manifest:
    manifest = ns.config(name)
    manifest["metadata"]["ownerReferences"] = [owner_reference(owner, controller=False) for owner in owners]
    return manifest


async def owner_chain(ns: NamespaceClient) -> None:
    owner = await ns.create(ns.config("owner"))
    child = await ns.create(owned(ns, "child", owner))
    await ns.create(owned(ns, "grandchild", child))


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_dependents_are_deleted_with_their_owner(ns: NamespaceClient, propagation: str) -> None:
    await owner_chain(ns)
    await ns.client.delete(CONFIG_MAP, ns.key("owner"), options=Options(propagation=propagation))
    await until(ns, [])


async def test_orphaned_dependents_are_kept(ns: NamespaceClient) -> None:
    await owner_chain(ns)
    await ns.client.delete(CONFIG_MAP, ns.key("owner"), options=Options(propagation="Orphan"))
    await until(ns, ["child", "grandchild"])
    child = await ns.client.get(CONFIG_MAP, ns.key("child"))
    assert not child["metadata"].get("ownerReferences")


async def test_foreground_deletion_waits_for_dependents_with_finalizers(ns: NamespaceClient) -> None:
    owner = await ns.create(ns.config("owner"))
    held = owned(ns, "held", owner)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await ns.create(held)
    await ns.create(owned(ns, "free", owner))
    await ns.client.delete(CONFIG_MAP, ns.key("owner"), options=Options(propagation="Foreground"))
    await until(ns, ["held", "owner"])
    await ns.client.patch(CONFIG_MAP, ns.key("held"), {"metadata": {"finalizers": None}})
    await until(ns, [])


async def test_a_dependent_with_another_owner_is_kept(ns: NamespaceClient) -> None:
    owner, other = await ns.create(ns.config("owner")), await ns.create(ns.config("other"))
    await ns.create(owned(ns, "child", owner, other))
    await ns.client.delete(CONFIG_MAP, ns.key("owner"))
    for _ in range(int(WITHIN / 0.05)):
        child = await ns.client.get(CONFIG_MAP, ns.key("child"))
        if len(child["metadata"]["ownerReferences"]) == 1:
            break
        await asyncio.sleep(0.05)
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["other"]


async def test_a_dependent_created_after_its_owner_is_deleted(ns: NamespaceClient) -> None:
    owner = await ns.create(ns.config("owner"))
    await ns.client.delete(CONFIG_MAP, ns.key("owner"))
    await ns.create(owned(ns, "late", owner))
    await until(ns, [])


async def test_a_namespace_is_deleted_with_its_objects(ns: NamespaceClient) -> None:
    await owner_chain(ns)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": ns.namespace}}
    await ns.client.create(SECRET, secret)
    await ns.client.delete(NAMESPACE, Key("", ns.namespace))
    for _ in range(int(WITHIN / 0.05)):
        try:
            await ns.client.get(NAMESPACE, Key("", ns.namespace))
        except NotFound:
            break
        await asyncio.sleep(0.05)
    assert (await ns.client.list(SECRET, ns.query())).items == []
    with pytest.raises(NotFound):
        await ns.client.get(NAMESPACE, Key("", ns.namespace))
