"""A missing lease is created; an existing one is no error."""

import logging

import pytest

from tests.cluster import SmallCluster
from volcano.base.clock import Instant
from volcano.kube.api.kinds import LEASE, NODE
from volcano.kube.client.operations import perform
from volcano.nodes.heartbeats import renewal
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes


async def test_a_lease_is_made_found_and_renewed() -> None:
    async with SmallCluster() as cluster:
        node = await cluster.create(NODE, "n")
        first, later = Instant(1_800_000_000.0, 0.0), Instant(1_800_000_100.0, 100.0)
        made = await perform(cluster.client, renewal(node, first, exists=False))
        assert made["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        assert await perform(cluster.client, renewal(node, later, exists=False)) == made
        renewed = await perform(cluster.client, renewal(node, later, exists=True))
        assert renewed["spec"]["renewTime"] == later.micro_timestamp()


async def test_restarted_nodes_find_their_leases_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    def nodes() -> SimulatedNodes:
        return SimulatedNodes(nodes_of(parse_pools([2], ["cpu=4"])))

    async with SmallCluster() as cluster:
        running = cluster.start(nodes())
        await cluster.pass_time(11)
        running.cancel()
        before = (await cluster.get(LEASE, "node-1", "kube-node-lease"))["spec"]["renewTime"]
        caplog.clear()
        cluster.start(nodes())
        await cluster.pass_time(21)
        assert (await cluster.get(LEASE, "node-1", "kube-node-lease"))["spec"]["renewTime"] > before
        assert [line for line in caplog.messages if "lease" in line.lower()] == []
