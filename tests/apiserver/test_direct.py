"""The in-process client: answers as over HTTP, and good manners towards others in the process."""

import asyncio

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query
from volcano.kube.informers.shared_informers import SharedDecodeCache


async def test_no_more_writes_are_under_way_than_agreed() -> None:
    under_way, most = 0, 0

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return new

    server = registry(admit=admit)
    client = DirectClient(server, concurrent_writes=3)
    await client.create(NAMESPACE, namespace("default"))
    await asyncio.gather(*(client.create(CONFIG_MAP, config_map(f"map-{n}")) for n in range(20)))
    assert most == 3
    assert len((await client.list(CONFIG_MAP)).items) == 20


async def test_a_write_and_the_watch_tell_of_one_and_the_same_object() -> None:
    decode = SharedDecodeCache()
    client = DirectClient(registry(), decode=decode)
    await client.create(NAMESPACE, namespace("default"))
    answer = await client.create(CONFIG_MAP, config_map())
    async for event in client.watch(CONFIG_MAP, Query(), decode=decode):
        assert event.object is answer
        break


async def test_callers_keep_what_they_hand_in() -> None:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    mine = config_map()
    await client.create(CONFIG_MAP, mine)
    assert mine == config_map()
    mine["data"]["later"] = "mine"
    assert "later" not in (await client.get(CONFIG_MAP, Key("default", "settings"))).get("data", {})


async def test_a_long_history_is_told_with_pauses() -> None:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    for number in range(200):
        await client.create(CONFIG_MAP, config_map(f"map-{number}"))
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(somebody_else())
    told = 0
    async for _ in client.watch(CONFIG_MAP, Query()):
        told += 1
        if told == 200:
            break
    other.cancel()
    assert turns >= 3
