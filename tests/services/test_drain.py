"""Draining a node through the eviction subresource of a real API server registry."""

from collections.abc import Awaitable, Callable

import pytest

from tests.apiserver.registries import namespace, pod, registry
from volcano.apiserver.direct import DirectClient
from volcano.base.clock import Instant
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Options
from volcano.services.nodes import WITHIN, DrainProgress, drain, set_unschedulable

NODE_NAME = "n1"


class Steps:
    """A clock that advances when something sleeps, and does something then."""

    def __init__(self, action: Callable[[], Awaitable[None]]) -> None:
        self._now = 0.0
        self._action = action

    def now(self) -> Instant:
        return Instant(self._now, self._now)

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await self._action()


async def cluster(*pods: str) -> DirectClient:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    await client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE_NAME}})
    for name in pods:
        await create_pod(client, name, NODE_NAME)
    return client


async def create_pod(client: DirectClient, name: str, node: str) -> None:
    manifest = pod(name, nodeName=node)
    manifest["metadata"]["labels"] = {"app": "web"}
    await client.create(POD, manifest)
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(POD, Key("default", name), status, subresource="status")


async def protect(client: DirectClient, least: int) -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": least}
    await client.create(
        POD_DISRUPTION_BUDGET, {"metadata": {"name": "keep", "namespace": "default"}, "spec": spec}
    )


async def end_terminating(client: DirectClient) -> None:
    """What a kubelet does: terminating pods go."""
    for each in (await client.list(POD)).items:
        if each["metadata"].get("deletionTimestamp"):
            key = Key("default", each["metadata"]["name"])
            await client.delete(POD, key, options=Options(grace_seconds=0))


def keys(*names: str) -> list[Key]:
    return [Key("default", name) for name in names]


async def test_a_drain_cordons_the_node_and_evicts_its_pods() -> None:
    client = await cluster("a", "b")
    steps = [
        each
        async for each in drain(client, Steps(lambda: end_terminating(client)), NODE_NAME, keys("a", "b"))
    ]
    assert steps == [DrainProgress(2, 0, 2), DrainProgress(2, 2)]
    assert steps[-1].is_complete
    assert (await client.get(NODE, Key("", NODE_NAME)))["spec"]["unschedulable"] is True
    with pytest.raises(NotFound):
        await client.get(POD, Key("default", "a"))


async def test_a_disruption_budget_is_respected_until_another_pod_is_healthy() -> None:
    client = await cluster("a", "b")
    await protect(client, 1)
    waits = 0

    async def replace_pods() -> None:
        nonlocal waits
        waits += 1
        await end_terminating(client)
        if waits == 2:
            await create_pod(client, "c", "n2")

    steps = [each async for each in drain(client, Steps(replace_pods), NODE_NAME, keys("a", "b"))]
    blocked = [set(each.blocked) for each in steps]
    assert len(blocked[0]) == 1
    assert blocked[1] == blocked[0]
    assert "disruption budget" in next(iter(steps[0].blocked.values()))
    assert steps[-1].is_complete
    assert [each["metadata"]["name"] for each in (await client.list(POD)).items] == ["c"]


async def test_a_drain_ends_when_its_time_is_over() -> None:
    client = await cluster("a")
    await protect(client, 1)

    async def nothing() -> None:
        return None

    clock = Steps(nothing)
    steps = [each async for each in drain(client, clock, NODE_NAME, keys("a"))]
    assert not steps[-1].is_complete
    assert clock.now().monotonic <= WITHIN + 5
    assert "1 waiting, such as default/a: Cannot evict pod" in steps[-1].text()
    assert (await client.get(POD, Key("default", "a")))["metadata"].get("deletionTimestamp") is None


async def test_a_pod_of_the_same_name_on_another_node_is_left_alone() -> None:
    client = await cluster("a")

    async def move() -> None:
        await end_terminating(client)
        await create_pod(client, "a", "n2")

    steps = [each async for each in drain(client, Steps(move), NODE_NAME, keys("a"))]
    assert steps[-1].is_complete
    assert (await client.get(POD, Key("default", "a")))["spec"]["nodeName"] == "n2"


async def test_a_pod_that_is_gone_already_is_no_failure() -> None:
    client = await cluster()
    steps = [
        each async for each in drain(client, Steps(lambda: end_terminating(client)), NODE_NAME, keys("a"))
    ]
    assert [each.is_complete for each in steps] == [True]


async def test_an_uncordoned_node_is_schedulable() -> None:
    client = await cluster()
    await set_unschedulable(client, NODE_NAME, unschedulable=True)
    await set_unschedulable(client, NODE_NAME, unschedulable=False)
    assert not (await client.get(NODE, Key("", NODE_NAME)))["spec"].get("unschedulable")
