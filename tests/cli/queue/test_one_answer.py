"""`vcctl queue tree`, `vcctl explain queue` and the dashboard show the same shares of queues."""

import json

import pytest

from tests.cli.golden.worlds import CAMPUS, SHARES, WEIGHTS
from tests.cli.test_golden_documents import printed
from tests.cli.test_screens import FixedSession
from tests.cluster import SmallCluster
from volcano.cli.top.feed import listed
from volcano.dashboard.data.queues import rows_of
from volcano.kube.api.kinds import NODE, QUEUE
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.views.amounts import amounts
from volcano.views.board import board

# Worlds and their leaf queues: with amounts by weight, some below what they request, and with declared amounts.
QUEUES = {
    "by weight": (WEIGHTS, ("heavy", "light", "modest", "default")),
    "declared": (SHARES, ("vision", "speech", "guests", "fixed")),
    "by weight of one queue": (CAMPUS, ("research", "teaching", "default")),
}


def text_of(explanation: Manifest, column: str) -> dict[str, str]:
    return {row["resource"]: row[column] for row in explanation["resources"]}


def flat(tree: list[Manifest]) -> dict[str, Manifest]:
    return {queue["name"]: queue for queue in tree} | {
        name: below for queue in tree for name, below in flat(queue["children"]).items()
    }


@pytest.mark.parametrize("case", QUEUES)
async def test_three_places_show_the_same_deserved_and_borrowed_amounts(case: str) -> None:
    world, names = QUEUES[case]
    async with SmallCluster() as cluster:
        await world.fill(cluster)
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for node in (await cluster.client.list(NODE)).items:
            await cluster.client.patch(NODE, key_of(node), ready, subresource="status")
        explained = {}
        for name in names:
            document = await printed(f"explain queue {name}", cluster.client, cluster.clock)
            explained[name] = json.loads(document)["document"]
            # The scheduler writes what queues hold.
            status = {"status": {"allocated": text_of(explained[name], "allocated")}}
            await cluster.client.patch(QUEUE, Key("", name), status, subresource="status")
        tree = flat(json.loads(await printed("queue tree", cluster.client, cluster.clock))["document"])
        seen = board((await listed(FixedSession(cluster.client, cluster.clock, None), ""))[0])
    rows = {row.name: {bar.resource: bar for bar in row.bars} for row in rows_of(seen)}
    for name in names:
        deserved = amounts(text_of(explained[name], "deserved"))
        borrowed = amounts(text_of(explained[name], "borrowed"))
        assert {r: tree[name]["deserved"][r] for r in deserved} == pytest.approx(deserved), name
        assert {r: rows[name][r].deserved for r in deserved} == pytest.approx(deserved), name
        assert {r: rows[name][r].borrowed for r in deserved} == pytest.approx(borrowed), name
