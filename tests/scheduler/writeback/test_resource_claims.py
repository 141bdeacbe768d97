"""Resource claims are allocated and reserved before a pod is bound, and released when it cannot be."""

import asyncio
from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.kube.api.errors import ApiError, Conflict, Forbidden
from volcano.kube.api.kinds import NODE, POD, RESOURCE_CLAIM, Kind
from volcano.kube.api.manifest import Manifest, uid_of
from volcano.kube.client.protocol import DEFAULTS, Client, Options
from volcano.kube.devices.dra.claims import FINALIZER
from volcano.model.decisions import Bind, Decision, Evict, ReserveClaim
from volcano.scheduler.writeback.operations import OperationBuilder
from volcano.scheduler.writeback.writeback import WriteBack

DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def allocation(device: str = "gpu-0") -> Manifest:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": device}
    return {"devices": {"results": [result]}}


class World:
    """A registry with a node, a claim and two pods that share it, and the write-back on it."""

    def __init__(self, cluster: SmallCluster) -> None:
        self.cluster = cluster
        self.rejected: list[Decision] = []
        self.pods: dict[str, Manifest] = {}
        self.claim: Manifest = {}

    async def start(self) -> "World":
        await self.cluster.create(NODE, "n1")
        self.claim = await self.cluster.create(RESOURCE_CLAIM, "c", spec=DEVICES)
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        }
        for name in ("a", "b"):
            self.pods[name] = await self.cluster.create(POD, name, spec=spec)
        return self

    def bind(self, name: str, made: Manifest | None = None) -> Bind:
        uid = uid_of(self.pods[name])
        entry = ReserveClaim("default", "c", uid_of(self.claim), name, uid, made, protect=made is not None)
        return Bind(uid, "default", name, "default/j", "n1", {}, (entry,))

    async def write(self, *decisions: Decision, client: Client | None = None) -> None:
        async def read_back(decision: Bind | Evict) -> bool:
            pod = await self.cluster.get(POD, decision.name)
            return bool(pod["spec"].get("nodeName") == decision.node)

        write_back = WriteBack(
            client or self.cluster.client,
            OperationBuilder("volcano"),
            self.cluster.clock,
            on_rejected=self.rejected.append,
            read_back=read_back,
        )
        running = asyncio.create_task(write_back.run())
        write_back.submit(decisions)
        for _ in range(400):
            await asyncio.sleep(0)
            self.cluster.clock.advance(0.1)
            if not write_back.pending:
                break
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def status(self) -> Manifest:
        found: Manifest = (await self.cluster.get(RESOURCE_CLAIM, "c"))["status"]
        return found

    async def users(self) -> list[str]:
        return sorted(user["name"] for user in (await self.status()).get("reservedFor", ()))


class NoBindings:
    """A client of a server that rejects bindings."""

    def __init__(self, client: Client, error: ApiError) -> None:
        self._client = client
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        if subresource == "binding":
            raise self._error
        return await self._client.create(kind, manifest, subresource=subresource, options=options)


async def test_a_claim_is_allocated_protected_and_reserved_before_its_pod_is_bound() -> None:
    async with SmallCluster() as cluster:
        world = await World(cluster).start()
        await world.write(world.bind("a", allocation()))
        claim = await cluster.get(RESOURCE_CLAIM, "c")
        assert claim["status"]["allocation"] == allocation()
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert await world.users() == ["a"]
        assert (await cluster.get(POD, "a"))["spec"]["nodeName"] == "n1"


async def test_pods_that_share_a_claim_reserve_it_in_any_order() -> None:
    async with SmallCluster() as cluster:
        world = await World(cluster).start()
        await world.write(world.bind("b", allocation()), world.bind("a", allocation()))
        assert await world.users() == ["a", "b"]
        assert world.rejected == []


@pytest.mark.parametrize("error", [Forbidden("no"), Conflict("changed")], ids=["definite", "unclear"])
async def test_a_claim_is_released_when_its_pod_cannot_be_bound(error: ApiError) -> None:
    async with SmallCluster() as cluster:
        world = await World(cluster).start()
        client: Any = NoBindings(cluster.client, error)
        await world.write(world.bind("a", allocation()), client=client)
        assert await world.status() == {}
        assert len(world.rejected) == 1


async def test_a_claim_that_another_pod_uses_keeps_its_devices() -> None:
    async with SmallCluster() as cluster:
        world = await World(cluster).start()
        await world.write(world.bind("b", allocation()))
        client: Any = NoBindings(cluster.client, Forbidden("no"))
        await world.write(world.bind("a", allocation()), client=client)
        assert await world.users() == ["b"]
        assert (await world.status())["allocation"] == allocation()


async def test_an_allocation_by_another_scheduler_is_not_changed() -> None:
    async with SmallCluster() as cluster:
        world = await World(cluster).start()
        await world.write(world.bind("b", allocation("gpu-1")))
        await world.write(world.bind("a", allocation("gpu-0")))
        assert await world.users() == ["b"]
        assert (await world.status())["allocation"] == allocation("gpu-1")
        assert [decision.name for decision in world.rejected if isinstance(decision, Bind)] == ["a"]
        assert "nodeName" not in (await cluster.get(POD, "a"))["spec"]
