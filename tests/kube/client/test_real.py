"""The client side works with a real kube-apiserver: streaming lists, leases and events."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import pytest

from tests.k8s.control_plane.cluster import RealCluster
from volcano.base.clock import SystemClock
from volcano.kube.api.events import WARNING
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, LEASE, NAMESPACE
from volcano.kube.api.manifest import Key
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.operations import perform
from volcano.kube.client.protocol import Event, Query, Watch
from volcano.kube.controllers.election import Candidate, LeaderElectionConfig, run_leader_election
from volcano.kube.controllers.recorder import EventRecorder
from volcano.kube.informers.reflector import Reflector, each_event

pytestmark = pytest.mark.k8s
_numbers = itertools.count(1)


@pytest.fixture
async def client(real_apiserver: RealCluster) -> AsyncIterator[HttpClient]:
    settings = load_client_config({}, kubeconfig=str(real_apiserver.kubeconfig))
    made = connect(settings, SystemClock(), environment={}, page=2)
    yield made
    await made.close()


@pytest.fixture
async def namespace(client: HttpClient) -> str:
    name = f"clients-{next(_numbers)}-{int(time.time())}"
    await client.create(NAMESPACE, {"metadata": {"name": name}})
    return name


def config_map(namespace: str, name: str, value: str) -> dict[str, object]:
    return {"metadata": {"namespace": namespace, "name": name}, "data": {"v": value}}


async def until(events: list[str], wanted: list[str]) -> None:
    async with asyncio.timeout(15):
        while events != wanted:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_reflector_of_a_real_server_passes_on_every_change_once(
    client: HttpClient, namespace: str, streaming: bool
) -> None:
    for name in ("a", "b", "c"):  # two pages
        await client.create(CONFIG_MAP, config_map(namespace, name, "1"))
    events: list[str] = []

    def sink(event: Event) -> None:
        assert event.object["kind"] == "ConfigMap"
        events.append(f"{event.type} {event.object['metadata']['name']} {event.object['data']['v']}")

    watch = Watch(CONFIG_MAP, namespace=namespace, fields="metadata.name!=kube-root-ca.crt")
    task = asyncio.create_task(
        Reflector(client, watch, each_event(sink), SystemClock(), streaming=streaming).run()
    )
    await until(events, ["ADDED a 1", "ADDED b 1", "ADDED c 1"])
    events.clear()
    await client.patch(CONFIG_MAP, Key(namespace, "a"), {"data": {"v": "2"}})
    await client.delete(CONFIG_MAP, Key(namespace, "b"))
    await until(events, ["MODIFIED a 2", "DELETED b 1"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_is_held_renewed_and_handed_back(client: HttpClient, namespace: str) -> None:
    key = Key(namespace, "leader")
    config = LeaderElectionConfig(lease_duration=5, renew_deadline=3, retry_period=0.3)
    begun, end = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await end.wait()

    async with asyncio.timeout(20):
        first = asyncio.create_task(
            run_leader_election(client, Candidate(key, "one", config), SystemClock(), work, chance=lambda: 0)
        )
        await begun.wait()
        held = (await client.get(LEASE, key))["spec"]
        await asyncio.sleep(1)
        renewed = (await client.get(LEASE, key))["spec"]
        assert (renewed["holderIdentity"], renewed["acquireTime"]) == ("one", held["acquireTime"])
        assert renewed["renewTime"] > held["renewTime"]
        end.set()
        await first
        released = (await client.get(LEASE, key))["spec"]
        assert (released.get("holderIdentity", ""), released["leaseDurationSeconds"]) == ("", 1)
        begun.clear()
        await run_leader_election(
            client, Candidate(key, "two", config), SystemClock(), work, chance=lambda: 0
        )
        assert (await client.get(LEASE, key))["spec"]["leaseTransitions"] == 1


async def test_a_real_server_takes_our_events(client: HttpClient, namespace: str) -> None:
    about = await client.create(CONFIG_MAP, config_map(namespace, "a", "1"))
    recorder, clock = EventRecorder("tester"), SystemClock()
    for _ in range(3):
        operation = recorder.record(about, WARNING, "Tested", "it was tested", clock.now())
        assert operation is not None
        await perform(client, operation)
    events = (await client.list(EVENT, Query(namespace=namespace, fields="involvedObject.name=a"))).items
    assert [(event["count"], event["reason"]) for event in events] == [(3, "Tested")]
