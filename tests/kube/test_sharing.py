"""Brains in one process share what they are told of."""

import asyncio

import orjson

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.clock import VirtualClock
from volcano.kube.client import Event
from volcano.kube.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.mirror import Mirror
from volcano.kube.reconciler import Watch
from volcano.kube.sharing import SharedDecoder


def test_the_same_bytes_give_the_same_manifest() -> None:
    decode = SharedDecoder()
    data = orjson.dumps(config_map(a="1"))
    assert decode(data) == config_map(a="1")
    assert decode(data) is decode(data)
    assert decode(orjson.dumps(config_map(a="2"))) == config_map(a="2")


def test_only_so_many_are_remembered() -> None:
    decode = SharedDecoder(remembered=2)
    data = [orjson.dumps({"n": n}) for n in range(3)]
    first = decode(data[0])
    decode(data[1])
    assert decode(data[0]) is first
    decode(data[2])
    assert decode(data[0]) is not first
    assert decode(data[0]) == first


async def test_two_mirrors_of_one_server_hand_on_one_manifest() -> None:
    clock = VirtualClock()
    client = DirectClient(registry(clock=clock))
    await client.create(NAMESPACE, namespace("default"))
    await client.create(CONFIG_MAP, config_map("before"))
    told: list[list[Event]] = [[], []]
    decode = SharedDecoder()
    mirrors = [Mirror(client, Watch(CONFIG_MAP), sink.append, clock, decode=decode) for sink in told]
    tasks = [asyncio.create_task(mirror.run()) for mirror in mirrors]
    for mirror in mirrors:
        await mirror.synced.wait()
    await client.create(CONFIG_MAP, config_map("after"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert [event.object["metadata"]["name"] for event in told[0]] == ["before", "after"]
    assert all(one.object is other.object for one, other in zip(*told, strict=True))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
