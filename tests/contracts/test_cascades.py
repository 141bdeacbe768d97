"""What follows from a deletion, by our janitors and by the real controllers alike."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.clients import api_server, real
from tests.contracts.rooms import Room
from tests.k8s.control_plane import build, cluster
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.garbage import Collector
from volcano.apiserver.janitor import Janitor
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.terminations import CrdTerminator, NamespaceTerminator
from volcano.kube.client import Options
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
    janitors: list[Janitor[Any]] = [
        Collector(registry),
        NamespaceTerminator(registry),
        CrdTerminator(registry),
    ]
    tasks = [asyncio.create_task(janitor.run()) for janitor in janitors]
    yield DirectClient(registry)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.close()
    durable.close()


@pytest.fixture(params=["ours", pytest.param("real", marks=pytest.mark.k8s)])
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Room]:
    name = f"cascade-{next(_numbers)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if request.param == "real":
        async with real(request.getfixturevalue("real_controllers")) as client:
            await client.create(NAMESPACE, manifest)
            yield Room(client, name)
    else:
        async for client in ours(tmp_path):
            await client.create(NAMESPACE, manifest)
            yield Room(client, name)


async def until(room: Room, names: list[str]) -> None:
    """Waits until exactly these are left."""
    present: list[str] = []
    for _ in range(int(WITHIN / 0.05)):
        present = await room.names()
        if present == names:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{present} are left, not {names}")


def owned(room: Room, name: str, *owners: Manifest) -> Manifest:
    manifest = room.config(name)
    manifest["metadata"]["ownerReferences"] = [owner_reference(owner, controller=False) for owner in owners]
    return manifest


async def family(room: Room) -> None:
    mother = await room.create(room.config("mother"))
    child = await room.create(owned(room, "child", mother))
    await room.create(owned(room, "grandchild", child))


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_dependents_go_with_their_owner(room: Room, propagation: str) -> None:
    await family(room)
    await room.client.delete(CONFIG_MAP, room.key("mother"), options=Options(propagation=propagation))
    await until(room, [])


async def test_orphans_stay(room: Room) -> None:
    await family(room)
    await room.client.delete(CONFIG_MAP, room.key("mother"), options=Options(propagation="Orphan"))
    await until(room, ["child", "grandchild"])
    child = await room.client.get(CONFIG_MAP, room.key("child"))
    assert not child["metadata"].get("ownerReferences")


async def test_an_owner_waits_in_the_foreground_for_what_is_held(room: Room) -> None:
    mother = await room.create(room.config("mother"))
    held = owned(room, "held", mother)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await room.create(held)
    await room.create(owned(room, "free", mother))
    await room.client.delete(CONFIG_MAP, room.key("mother"), options=Options(propagation="Foreground"))
    await until(room, ["held", "mother"])
    await room.client.patch(CONFIG_MAP, room.key("held"), {"metadata": {"finalizers": None}})
    await until(room, [])


async def test_one_owner_is_enough(room: Room) -> None:
    mother, father = await room.create(room.config("mother")), await room.create(room.config("father"))
    await room.create(owned(room, "child", mother, father))
    await room.client.delete(CONFIG_MAP, room.key("mother"))
    for _ in range(int(WITHIN / 0.05)):
        child = await room.client.get(CONFIG_MAP, room.key("child"))
        if len(child["metadata"]["ownerReferences"]) == 1:
            break
        await asyncio.sleep(0.05)
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["father"]


async def test_what_is_born_without_its_owner_goes(room: Room) -> None:
    mother = await room.create(room.config("mother"))
    await room.client.delete(CONFIG_MAP, room.key("mother"))
    await room.create(owned(room, "late", mother))
    await until(room, [])


async def test_a_namespace_goes_with_everything_in_it(room: Room) -> None:
    await family(room)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": room.namespace}}
    await room.client.create(SECRET, secret)
    await room.client.delete(NAMESPACE, Key("", room.namespace))
    for _ in range(int(WITHIN / 0.05)):
        try:
            await room.client.get(NAMESPACE, Key("", room.namespace))
        except NotFound:
            break
        await asyncio.sleep(0.05)
    assert (await room.client.list(SECRET, room.query())).items == []
    with pytest.raises(NotFound):
        await room.client.get(NAMESPACE, Key("", room.namespace))
