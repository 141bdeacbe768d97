"""Garbage collection: dependents by deletion policy, and after a restart."""

from pathlib import Path

import pytest

from tests.apiserver.registries import config_map, namespace, pod, registry
from tests.apiserver.registry.test_registry import NEW_WIDGET, WIDGET, widget, widgets, with_widgets
from tests.controllers.kubernetes.driver import Driver
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.journal import DurableStore
from volcano.base.clock import VirtualClock
from volcano.controllers.kubernetes.garbage_collector import GarbageCollector
from volcano.kube.api.errors import Conflict, Forbidden
from volcano.kube.api.kinds import CONFIG_MAP, CRD, NAMESPACE, POD, SECRET, Kind
from volcano.kube.api.manifest import Key, Manifest, owner_reference
from volcano.kube.client.operations import Get, perform
from volcano.kube.client.protocol import Event, EventType, Options


async def ready(made: Registry) -> tuple[DirectClient, Driver]:
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("default"))
    return client, Driver(GarbageCollector(), client)


async def names(client: DirectClient) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.list(CONFIG_MAP)).items]


def owned(name: str, *owners: Manifest, blocking: bool = True) -> Manifest:
    manifest = config_map(name)
    manifest["metadata"]["ownerReferences"] = [
        {**owner_reference(owner, controller=False), "blockOwnerDeletion": blocking} for owner in owners
    ]
    return manifest


async def family(client: DirectClient) -> tuple[Manifest, Manifest]:
    """A mother, a child, a grandchild."""
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    child = await client.create(CONFIG_MAP, owned("child", mother))
    await client.create(CONFIG_MAP, owned("grandchild", child))
    return mother, child


async def test_in_the_background_dependents_follow_all_the_way_down() -> None:
    client, collector = await ready(registry())
    await family(client)
    await client.delete(CONFIG_MAP, Key("default", "mother"), options=Options(propagation="Background"))
    assert await names(client) == ["child", "grandchild"]
    await collector.run()
    assert await names(client) == []


async def test_in_the_foreground_the_owner_goes_last() -> None:
    client, collector = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    held = owned("held", mother)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(CONFIG_MAP, held)
    await client.create(CONFIG_MAP, owned("free", mother))
    await client.delete(CONFIG_MAP, Key("default", "mother"), options=Options(propagation="Foreground"))
    await collector.run()
    assert await names(client) == ["held", "mother"]
    await client.patch(CONFIG_MAP, Key("default", "held"), {"metadata": {"finalizers": None}})
    await collector.run()
    assert await names(client) == []


async def test_in_the_foreground_grandchildren_go_before_children() -> None:
    client, collector = await ready(registry())
    await family(client)
    order: list[str] = []
    client._registry.store.listeners.add(
        "order", lambda _, change: order.append(change.key.name) if change.new is None else None, lambda: None
    )
    await client.delete(CONFIG_MAP, Key("default", "mother"), options=Options(propagation="Foreground"))
    await collector.run()
    assert order == ["grandchild", "child", "mother"]


async def test_a_dependent_that_does_not_block_is_not_waited_for() -> None:
    client, collector = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    lax = owned("lax", mother, blocking=False)
    lax["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(CONFIG_MAP, lax)
    await client.delete(CONFIG_MAP, Key("default", "mother"), options=Options(propagation="Foreground"))
    await collector.run()
    assert await names(client) == ["lax"]
    assert (await client.get(CONFIG_MAP, Key("default", "lax")))["metadata"]["deletionTimestamp"]


async def test_orphans_lose_their_owner_and_stay() -> None:
    client, collector = await ready(registry())
    await family(client)
    await client.delete(CONFIG_MAP, Key("default", "mother"), options=Options(propagation="Orphan"))
    await collector.run()
    assert await names(client) == ["child", "grandchild"]
    child = await client.get(CONFIG_MAP, Key("default", "child"))
    assert "ownerReferences" not in child["metadata"]


async def test_one_owner_left_is_enough_to_stay() -> None:
    client, collector = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    father = await client.create(CONFIG_MAP, config_map("father"))
    await client.create(CONFIG_MAP, owned("child", mother, father))
    await client.delete(CONFIG_MAP, Key("default", "mother"))
    await collector.run()
    child = await client.get(CONFIG_MAP, Key("default", "child"))
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["father"]
    await client.delete(CONFIG_MAP, Key("default", "father"))
    await collector.run()
    assert await names(client) == []


async def test_an_object_born_without_its_owner_is_collected() -> None:
    client, collector = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    await client.delete(CONFIG_MAP, Key("default", "mother"))
    await client.create(CONFIG_MAP, owned("late", mother))
    await collector.run()
    assert await names(client) == []


async def test_an_owner_in_another_namespace_is_no_owner() -> None:
    client, collector = await ready(registry())
    await client.create(NAMESPACE, namespace("other"))
    foreign = await client.create(CONFIG_MAP, config_map("foreign", "other"))
    await client.create(CONFIG_MAP, owned("child", foreign))
    home = await client.get(NAMESPACE, Key("", "default"))
    await client.create(CONFIG_MAP, owned("local", home))
    await collector.run()
    assert await names(client) == ["local", "foreign"]


async def test_an_owner_of_an_unknown_kind_counts_as_present() -> None:
    client, collector = await ready(registry())
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Ghost", "name": "g", "uid": "unknown"}
    ]
    await client.create(CONFIG_MAP, child)
    await collector.run()
    assert await names(client) == ["child"]


async def test_bound_pods_of_a_deleted_owner_get_their_grace_period() -> None:
    client, collector = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    running = pod(nodeName="n1")
    running["metadata"]["ownerReferences"] = [owner_reference(mother)]
    await client.create(POD, running)
    await client.delete(CONFIG_MAP, Key("default", "mother"), options=Options(propagation="Foreground"))
    await collector.run()
    assert await names(client) == ["mother"]
    assert (await client.get(POD, Key("default", "web")))["metadata"]["deletionGracePeriodSeconds"] == 30
    await client.delete(POD, Key("default", "web"), options=Options(grace_seconds=0))
    await collector.run()
    assert await names(client) == []


async def test_a_refused_deletion_is_tried_again_later() -> None:
    stubborn = {"child"}

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.operation == "DELETE" and request.key.name in stubborn:
            raise Forbidden("not now")
        return new

    clock = VirtualClock()
    client, collector = await ready(registry(admit=admit, clock=clock))
    collector.clock = clock
    await family(client)
    await client.delete(CONFIG_MAP, Key("default", "mother"))
    await collector.run()
    assert await names(client) == ["child", "grandchild"]
    stubborn.clear()
    assert collector.controller.next_due() == pytest.approx(0.05)
    clock.advance(0.2)
    await collector.run()
    assert await names(client) == []


async def test_what_was_left_undone_is_done_after_a_restart(tmp_path: Path) -> None:
    first = DurableStore(tmp_path / "data")
    client, _ = await ready(registry(first.store))
    await family(client)
    waiting = await client.create(CONFIG_MAP, config_map("waiting"))
    secret: Manifest = {"metadata": {"name": "s", "namespace": "default"}}
    secret["metadata"]["ownerReferences"] = [owner_reference(waiting)]
    await client.create(SECRET, secret)
    await client.delete(CONFIG_MAP, Key("default", "mother"))
    await client.delete(CONFIG_MAP, Key("default", "waiting"), options=Options(propagation="Foreground"))
    first.close()  # the collector never got to work

    second = DurableStore(tmp_path / "data")
    made = registry(second.store, prefix="second")
    await Driver(GarbageCollector(), DirectClient(made)).run()
    await second.store.durable(second.store.version)
    assert await names(DirectClient(made)) == []
    assert (await DirectClient(made).list(SECRET)).items == []
    second.close()


async def test_an_owner_whose_event_is_late_is_read_before_its_dependents_are_deleted() -> None:
    client, driver = await ready(registry())
    collector = driver.controller
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    child = await client.create(SECRET, {"metadata": owned("child", mother)["metadata"]})
    collector.on_event(Event(EventType.ADDED, SECRET, child))
    (work,) = collector.step(driver.clock.now())
    assert work.operations == (Get(CONFIG_MAP, Key("default", "mother"), mother["metadata"]["uid"]),)
    await driver.run()
    assert [item["metadata"]["name"] for item in (await client.list(SECRET)).items] == ["child"]


async def test_a_namesake_of_the_owner_is_not_the_owner() -> None:
    client, collector = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    await client.delete(CONFIG_MAP, Key("default", "mother"))
    await client.create(CONFIG_MAP, config_map("mother"))
    await client.create(CONFIG_MAP, owned("child", mother))
    await collector.run()
    assert await names(client) == ["mother"]


async def test_an_object_that_lost_its_reference_meanwhile_is_not_deleted() -> None:
    client, driver = await ready(registry())
    mother = await client.create(CONFIG_MAP, config_map("mother"))
    await client.create(CONFIG_MAP, owned("child", mother))
    await driver.run()
    await client.patch(CONFIG_MAP, Key("default", "child"), {"metadata": {"ownerReferences": None}})
    await client.delete(CONFIG_MAP, Key("default", "mother"))
    driver.controller.on_event(Event(EventType.DELETED, CONFIG_MAP, mother))
    (work,) = driver.controller.step(driver.clock.now())
    with pytest.raises(Conflict):
        await perform(client, work.operations[0])
    assert await names(client) == ["child"]


@pytest.mark.parametrize("version", [WIDGET, NEW_WIDGET], ids=["stored version", "other version"])
async def test_custom_objects_own_and_are_owned_in_every_version(version: Kind) -> None:
    made = registry()
    client = await with_widgets(made)
    collector = Driver(GarbageCollector(), client)
    await collector.run()
    mother = await client.create(version, widget("mother", version.version))
    await client.create(CONFIG_MAP, owned("child", mother))
    daughter = {**widget("daughter"), "metadata": {**owned("daughter", mother)["metadata"]}}
    await client.create(WIDGET, daughter)
    await collector.run()
    assert await names(client) == ["child"]
    await client.delete(WIDGET, Key("default", "mother"))
    await collector.run()
    assert await names(client) == []
    assert (await client.list(WIDGET)).items == []


async def test_a_kind_that_comes_into_being_shows_that_an_owner_does_not_exist() -> None:
    made = registry()
    client, collector = await ready(made)
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "unknown"}
    ]
    await client.create(CONFIG_MAP, child)
    await collector.run()
    assert await names(client) == ["child"]
    await client.create(CRD, widgets())
    established = {"type": "Established", "status": "True", "reason": "x", "message": ""}
    await client.patch(
        CRD, Key("", "widgets.example.com"), {"status": {"conditions": [established]}}, subresource="status"
    )
    await collector.run()
    assert await names(client) == []
