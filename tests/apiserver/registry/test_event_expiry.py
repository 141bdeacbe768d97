"""Events are removed one hour after their last write."""

from pathlib import Path

from tests.apiserver.registries import config_map, namespace, registry
from tests.embedded.test_cluster import cluster, until
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.event_expiry import EventExpiry
from volcano.apiserver.storage.store import Store
from volcano.base.clock import VirtualClock
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.events import NORMAL, event, reference_to
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest


def made(name: str, clock: VirtualClock) -> Manifest:
    about = {**config_map("a"), "metadata": {"name": "a", "namespace": "default", "uid": "u"}}
    return event(
        reference_to(about),
        name,
        severity=NORMAL,
        reason="Tested",
        message="x",
        now=clock.now(),
        component="test",
    )


class World:
    def __init__(self, store: Store | None = None, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.store = store or Store()
        self.client = DirectClient(registry(self.store, clock=self.clock))
        self.expiry = EventExpiry(self.store, self.clock)

    async def names(self) -> list[str]:
        self.expiry.remove_expired(1000)
        return [item["metadata"]["name"] for item in (await self.client.list(EVENT)).items]


async def world() -> World:
    result = World()
    await result.client.create(NAMESPACE, namespace("default"))
    return result


async def test_an_event_expires_an_hour_after_its_last_write() -> None:
    here = await world()
    await here.client.create(EVENT, made("old", here.clock))
    await here.client.create(EVENT, made("renewed", here.clock))
    await here.client.create(CONFIG_MAP, config_map("stays"))
    here.clock.advance(1800)
    await here.client.patch(EVENT, Key("default", "renewed"), {"count": 2})
    await here.client.create(EVENT, made("new", here.clock))
    here.clock.advance(1799)
    assert await here.names() == ["new", "old", "renewed"]
    here.clock.advance(1)
    assert await here.names() == ["new", "renewed"]
    here.clock.advance(1800)
    assert await here.names() == []
    assert (await here.client.get(CONFIG_MAP, Key("default", "stays")))["kind"] == "ConfigMap"


async def test_a_deleted_event_is_forgotten() -> None:
    here = await world()
    await here.client.create(EVENT, made("a", here.clock))
    await here.client.delete(EVENT, Key("default", "a"))
    assert not here.expiry._expiries
    await here.client.create(EVENT, made("a", here.clock))
    here.clock.advance(3599)
    assert await here.names() == ["a"]


async def test_after_a_restart_the_age_of_events_is_read_from_them() -> None:
    here = await world()
    await here.client.create(EVENT, made("old", here.clock))
    here.clock.advance(2000)
    await here.client.create(EVENT, made("new", here.clock))
    restarted = World(here.store, here.clock)
    here.clock.advance(1600)
    assert await restarted.names() == ["new"]


async def test_a_cluster_removes_expired_events(tmp_path: Path) -> None:
    local = LocalNodeOptions(nodes=0)
    async with cluster(tmp_path, durable=True, local=local) as running:
        old = made("old", VirtualClock(wall=1_000_000_000.0))
        metadata = {**old["metadata"], "uid": "u", "creationTimestamp": "2001-09-09T01:46:40Z"}
        running.registry.store.put(EVENT.resource, {**old, "metadata": metadata}, None)
    async with cluster(tmp_path, durable=True, local=local) as running:

        async def gone() -> bool:
            return running.registry.store.get(EVENT.resource, Key("default", "old")) is None

        await until(gone)
