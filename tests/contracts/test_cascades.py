"""Cascading deletion, by our controllers and by kube-controller-manager."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contracts.clients import api_server, real
from tests.contracts.namespaced_client import NamespacedClient
from tests.k8s.control_plane import build, cluster
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.journal import Durable
from volcano.clock import SystemClock
from volcano.controllers.kubernetes.garbage_collector import GarbageCollector
from volcano.controllers.kubernetes.namespace import CrdFinalizer, NamespaceController
from volcano.kube.client import Options
from volcano.kube.controller import Reconciler
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
    durable = Durable(directory / "data")
    registry, server = api_server(durable.store)
    await server.start()
    client, clock = DirectClient(registry), SystemClock()
    controllers: list[Reconciler] = [GarbageCollector(), NamespaceController(), CrdFinalizer()]
    runners = [ControllerRunner(controller, client, clock) for controller in controllers]
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    yield client
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.close()
    durable.close()


@pytest.fixture(params=["ours", pytest.param("real", marks=pytest.mark.k8s)])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NamespacedClient]:
    name = f"cascade-{next(_numbers)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if request.param == "real":
        async with real(request.getfixturevalue("real_controllers")) as client:
            await client.create(NAMESPACE, manifest)
            yield NamespacedClient(client, name)
    else:
        async for client in ours(tmp_path):
            await client.create(NAMESPACE, manifest)
            yield NamespacedClient(client, name)


async def until(api: NamespacedClient, names: list[str]) -> None:
    """Waits until exactly these objects exist."""
    present: list[str] = []
    for _ in range(int(WITHIN / 0.05)):
        present = await api.names()
        if present == names:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{present} exist, not {names}")


def owned(api: NamespacedClient, name: str, *owners: Manifest) -> Manifest:
    manifest = api.config(name)
    manifest["metadata"]["ownerReferences"] = [owner_reference(owner, controller=False) for owner in owners]
    return manifest


async def owner_chain(api: NamespacedClient) -> None:
    owner = await api.create(api.config("owner"))
    child = await api.create(owned(api, "child", owner))
    await api.create(owned(api, "grandchild", child))


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_dependents_are_deleted_with_their_owner(api: NamespacedClient, propagation: str) -> None:
    await owner_chain(api)
    await api.client.delete(CONFIG_MAP, api.key("owner"), options=Options(propagation=propagation))
    await until(api, [])


async def test_orphaned_dependents_are_kept(api: NamespacedClient) -> None:
    await owner_chain(api)
    await api.client.delete(CONFIG_MAP, api.key("owner"), options=Options(propagation="Orphan"))
    await until(api, ["child", "grandchild"])
    child = await api.client.get(CONFIG_MAP, api.key("child"))
    assert not child["metadata"].get("ownerReferences")


async def test_foreground_deletion_waits_for_dependents_with_finalizers(api: NamespacedClient) -> None:
    owner = await api.create(api.config("owner"))
    held = owned(api, "held", owner)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(held)
    await api.create(owned(api, "free", owner))
    await api.client.delete(CONFIG_MAP, api.key("owner"), options=Options(propagation="Foreground"))
    await until(api, ["held", "owner"])
    await api.client.patch(CONFIG_MAP, api.key("held"), {"metadata": {"finalizers": None}})
    await until(api, [])


async def test_a_dependent_with_another_owner_is_kept(api: NamespacedClient) -> None:
    owner, other = await api.create(api.config("owner")), await api.create(api.config("other"))
    await api.create(owned(api, "child", owner, other))
    await api.client.delete(CONFIG_MAP, api.key("owner"))
    for _ in range(int(WITHIN / 0.05)):
        child = await api.client.get(CONFIG_MAP, api.key("child"))
        if len(child["metadata"]["ownerReferences"]) == 1:
            break
        await asyncio.sleep(0.05)
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["other"]


async def test_a_dependent_of_a_deleted_owner_is_deleted(api: NamespacedClient) -> None:
    owner = await api.create(api.config("owner"))
    await api.client.delete(CONFIG_MAP, api.key("owner"))
    await api.create(owned(api, "late", owner))
    await until(api, [])


async def test_a_namespace_is_deleted_with_its_objects(api: NamespacedClient) -> None:
    await owner_chain(api)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": api.namespace}}
    await api.client.create(SECRET, secret)
    await api.client.delete(NAMESPACE, Key("", api.namespace))
    for _ in range(int(WITHIN / 0.05)):
        try:
            await api.client.get(NAMESPACE, Key("", api.namespace))
        except NotFound:
            break
        await asyncio.sleep(0.05)
    assert (await api.client.list(SECRET, api.query())).items == []
    with pytest.raises(NotFound):
        await api.client.get(NAMESPACE, Key("", api.namespace))
