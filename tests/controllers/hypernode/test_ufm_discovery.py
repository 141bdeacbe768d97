"""HyperNodes follow the answers of a UFM server; sources that did not change are left alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.cluster import SmallCluster
from tests.controllers.hypernode.test_controller import controller, events, named, spec
from tests.controllers.hypernode.test_label_discovery import CONFIG, SYSTEM, configure, entry, tree
from tests.controllers.hypernode.ufm_server import UfmServer, port, ufm_server
from volcano.apiserver.direct import DirectClient
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.kube.api.errors import InternalError
from volcano.kube.api.kinds import EVENT, HYPER_NODE, NAMESPACE, NODE, SECRET, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import DEFAULTS, Options

ALL_THREE = {"leaf-hn-0": ["n0", "n1"], "leaf-hn-1": ["n2"], "spine-hn": ["leaf-hn-0", "leaf-hn-1"]}


def ufm(server: UfmServer, **config: Any) -> dict[str, Any]:
    return {
        "source": "ufm",
        "enabled": True,
        "interval": "10m",
        "credentials": {"secretRef": {"name": "ufm", "namespace": "net"}},
        "config": {"endpoint": server.url, **config},
    }


@asynccontextmanager
async def cluster_with(server: UfmServer, *controllers: HyperNodeController) -> AsyncIterator[SmallCluster]:
    async with SmallCluster(*controllers) as cluster:
        await cluster.create(NAMESPACE, "net")
        await cluster.create(SECRET, "ufm", namespace="net", data=server.secret)
        yield cluster


async def until(cluster: SmallCluster, condition: Callable[[], bool]) -> None:
    """Waits for an answer over the network, and until the controllers are idle."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
    await settled(cluster)


async def settled(cluster: SmallCluster) -> None:
    """Time for an answer that has been sent to arrive."""
    await asyncio.sleep(0.2)
    await cluster.rest()


async def test_hypernodes_follow_the_answers() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        assert await tree(cluster) == ALL_THREE
        found = {h["metadata"]["name"]: h["spec"] for h in await cluster.all(HYPER_NODE)}
        assert {name: h["tier"] for name, h in found.items()} == {
            "leaf-hn-0": 1,
            "leaf-hn-1": 1,
            "spine-hn": 2,
        }
        server.ports = [*server.ports, port("n3", "sw3")]
        await cluster.pass_time(590, step=590)
        assert len(server.requests) == 1
        await cluster.pass_time(15, step=15)
        await until(cluster, lambda: len(server.requests) == 2)
        assert (await tree(cluster))["leaf-hn-1"] == ["n2", "n3"]
        server.ports = []
        await cluster.pass_time(600, step=600)
        await until(cluster, lambda: len(server.requests) == 3)
        assert await tree(cluster) == {}


async def test_a_failed_poll_changes_nothing_is_reported_and_repeated() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        server.status = 500
        await cluster.pass_time(600, step=600)
        await until(cluster, lambda: len(server.requests) == 2)
        assert await tree(cluster) == ALL_THREE
        warning = next(e for e in await events(cluster, CONFIG) if e["reason"] == "DiscoveryFailed")
        assert warning["message"].endswith("with status 500 instead of 200")
        server.status, server.ports = 200, []
        await cluster.pass_time(2)
        await until(cluster, lambda: len(server.requests) == 3)
        assert await tree(cluster) == {}


async def test_a_missing_secret_is_reported_and_used_once_it_exists() -> None:
    async with ufm_server() as server, SmallCluster(controller()) as cluster:
        await cluster.create(NAMESPACE, "net")
        await configure(cluster, ufm(server))
        assert 'secrets "ufm" not found' in (await events(cluster, CONFIG))[0]["message"]
        await cluster.create(SECRET, "ufm", namespace="net", data=server.secret)
        await cluster.pass_time(60)
        await until(cluster, lambda: len(server.requests) == 1)
        assert await tree(cluster) == ALL_THREE


async def test_a_missing_endpoint_is_refused_with_the_path_of_its_key() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        source = ufm(server)
        del source["config"]["endpoint"]
        await configure(cluster, source, entry())
        await cluster.create(NODE, "n0", metadata={"labels": {"hypernode": "s0"}}, spec={})
        assert await tree(cluster) == {"s0": ["n0"]}  # the other source works
        told = (await events(cluster, CONFIG))[0]["message"]
        assert told.startswith("networkTopologyDiscovery[0].config.endpoint: UFM endpoint is not configured")


async def test_only_a_changed_source_is_polled_again() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        await configure(cluster, ufm(server), entry())
        await cluster.create(NODE, "n0", metadata={"labels": {"hypernode": "s0"}}, spec={})
        await settled(cluster)
        assert len(server.requests) == 1
        assert (await tree(cluster))["s0"] == ["n0"]
        await configure(cluster, ufm(server, insecureSkipVerify=True), entry())
        await until(cluster, lambda: len(server.requests) == 2)


async def test_a_deleted_hypernode_comes_back_without_another_poll() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        await cluster.delete(HYPER_NODE, "leaf-hn-0")
        assert await tree(cluster) == ALL_THREE
        assert len(server.requests) == 1


async def test_a_disabled_source_is_not_polled_and_its_hypernodes_stay() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        await configure(cluster, {**ufm(server), "enabled": False})
        await cluster.pass_time(1200, step=600)
        await settled(cluster)
        assert len(server.requests) == 1
        assert await tree(cluster) == ALL_THREE
        told = [
            e["involvedObject"]["name"]
            for e in await cluster.all(EVENT)
            if e["reason"] == "DiscoveryDisabled"
        ]
        assert sorted(told) == sorted(ALL_THREE)


async def test_a_name_in_use_is_reported_and_not_overwritten() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        await cluster.create(HYPER_NODE, "leaf-hn-1", spec=spec(1, named("n7")))
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        assert await tree(cluster) == {**ALL_THREE, "leaf-hn-1": ["n7"]}
        told = [e for e in await events(cluster, "leaf-hn-1") if e["reason"] == "NameTaken"]
        assert len(told) == 1
        label = {"volcano.sh/network-topology-source": "ufm"}
        await cluster.patch(HYPER_NODE, "leaf-hn-1", {"metadata": {"labels": label}})
        assert await tree(cluster) == ALL_THREE


class Failing(DirectClient):
    """Rejects the creation of one HyperNode for a while."""

    fails = True
    rejected = 0

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        if kind == HYPER_NODE and manifest["metadata"]["name"] == "leaf-hn-0" and self.fails:
            self.rejected += 1
            raise InternalError("the disk is busy")
        return await super().create(kind, manifest, subresource=subresource, options=options)


async def test_a_failed_write_is_retried_and_does_not_stop_the_others() -> None:
    async with ufm_server() as server, cluster_with(server) as cluster:
        client = Failing(cluster.registry)
        cluster.start(controller(), client)
        await configure(cluster, ufm(server))
        await until(cluster, lambda: client.rejected > 0)
        assert set(await tree(cluster)) == {"leaf-hn-1", "spine-hn"}
        await cluster.pass_time(5)
        assert "leaf-hn-0" not in await tree(cluster)
        client.fails = False
        await cluster.pass_time(30)
        assert await tree(cluster) == ALL_THREE
        assert len(server.requests) == 1


async def test_the_secret_may_be_in_another_namespace() -> None:
    async with ufm_server() as server, cluster_with(server, controller()) as cluster:
        secret = await cluster.client.get(SECRET, Key("net", "ufm"))
        assert secret["metadata"]["namespace"] != SYSTEM
        await configure(cluster, ufm(server))
        await until(cluster, lambda: len(server.requests) == 1)
        assert await tree(cluster) == ALL_THREE
