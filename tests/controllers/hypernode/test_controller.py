"""HyperNodes know how many nodes are below them, and what is wrong with their place in the tree."""

from itertools import count
from typing import Any

from tests.cluster import SmallCluster
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.kube.api.kinds import EVENT, HYPER_NODE, NODE
from volcano.kube.api.manifest import Manifest, condition_of


def controller() -> HyperNodeController:
    numbers = count()
    return HyperNodeController(lambda: f"{next(numbers):05d}")


async def make_nodes(cluster: SmallCluster, *names: str, **labels: str) -> None:
    for name in names:
        await cluster.create(NODE, name, metadata={"labels": labels}, spec={})


def spec(tier: int, *members: Any, **fields: Any) -> dict[str, Any]:
    """A spec whose members are selectors of nodes, or names of HyperNodes."""
    listed = [
        {"type": "HyperNode", "selector": {"exactMatch": {"name": member}}}
        if isinstance(member, str)
        else {"type": "Node", "selector": member}
        for member in members
    ]
    return {"tier": tier, "members": listed, **fields}


def named(name: str) -> dict[str, Any]:
    return {"exactMatch": {"name": name}}


async def node_count(cluster: SmallCluster, name: str) -> int:
    found: int = (await cluster.get(HYPER_NODE, name))["status"]["nodeCount"]
    return found


async def ready(cluster: SmallCluster, name: str) -> tuple[str, str, str]:
    condition = condition_of(await cluster.get(HYPER_NODE, name), "Ready")
    assert condition is not None
    return (condition["status"], condition["reason"], condition["message"])


async def events(cluster: SmallCluster, name: str) -> list[Manifest]:
    return [e for e in await cluster.all(EVENT) if e["involvedObject"]["name"] == name]


async def test_node_count_follows_every_way_of_selecting() -> None:
    async with SmallCluster(controller()) as cluster:
        await make_nodes(cluster, "n1", "n2", rack="r1")
        await make_nodes(cluster, "m1", rack="r2")
        selectors = (
            named("m1"),
            {"regexMatch": {"pattern": "^n"}},
            {"labelMatch": {"matchLabels": {"rack": "r2"}}},
        )
        await cluster.create(HYPER_NODE, "h", spec=spec(1, *selectors))
        assert await node_count(cluster, "h") == 3
        await make_nodes(cluster, "n3", rack="r1")
        assert await node_count(cluster, "h") == 4
        await make_nodes(cluster, "k1", rack="r1")
        assert await node_count(cluster, "h") == 4
        await cluster.patch(NODE, "k1", {"metadata": {"labels": {"rack": "r2"}}})
        assert await node_count(cluster, "h") == 5
        await cluster.delete(NODE, "n3")
        assert await node_count(cluster, "h") == 4


async def test_node_count_is_of_existing_nodes_below() -> None:
    async with SmallCluster(controller()) as cluster:
        await make_nodes(cluster, "n0", "n1", "n2", "n3")
        await cluster.create(HYPER_NODE, "s0", spec=spec(1, named("n0"), named("n1"), named("n9")))
        await cluster.create(HYPER_NODE, "s1", spec=spec(1, named("n2"), named("n3")))
        await cluster.create(HYPER_NODE, "top", spec=spec(2, "s0", "s1"))
        counts = [await node_count(cluster, name) for name in ("s0", "s1", "top")]
        assert counts == [2, 2, 4]
        await cluster.delete(NODE, "n2")
        assert [await node_count(cluster, name) for name in ("s0", "s1", "top")] == [2, 1, 3]
        await cluster.delete(HYPER_NODE, "s0")
        assert await node_count(cluster, "top") == 1
        assert await ready(cluster, "top") == ("True", "InTree", "part of the topology tree")


async def test_an_empty_hypernode_has_a_count_of_zero() -> None:
    async with SmallCluster(controller()) as cluster:
        await cluster.create(HYPER_NODE, "h", spec=spec(1, named("n9")))
        assert await node_count(cluster, "h") == 0


async def test_a_cycle_is_reported_and_resolved_when_repaired() -> None:
    async with SmallCluster(controller()) as cluster:
        await make_nodes(cluster, "n0")
        await cluster.create(HYPER_NODE, "s0", spec=spec(1, named("n0")))
        await cluster.create(HYPER_NODE, "s4", spec=spec(2, "s0", "s6"))
        await cluster.create(HYPER_NODE, "s6", spec=spec(3, "s4"))
        status, reason, message = await ready(cluster, "s4")
        assert (status, reason) == ("False", "Cycle")
        assert "s6" in message
        assert (await ready(cluster, "s0"))[0] == "True"
        assert await node_count(cluster, "s6") == 1  # the rest works
        warning = (await events(cluster, "s4"))[0]
        assert (warning["type"], warning["reason"], warning["message"]) == ("Warning", "Cycle", message)
        await cluster.patch(HYPER_NODE, "s4", {"spec": spec(2, "s0")})
        assert await ready(cluster, "s4") == ("True", "InTree", "part of the topology tree")
        assert len(await events(cluster, "s4")) == 1


async def test_a_second_parent_is_reported_until_one_gives_the_member_up() -> None:
    async with SmallCluster(controller()) as cluster:
        await make_nodes(cluster, "n0")
        await cluster.create(HYPER_NODE, "s0", spec=spec(1, named("n0")))
        await cluster.create(HYPER_NODE, "s4", spec=spec(2, "s0"))
        await cluster.create(HYPER_NODE, "s5", spec=spec(2, "s0"))
        assert (await ready(cluster, "s5"))[:2] == ("False", "SecondParent")
        assert (await ready(cluster, "s4"))[0] == "True"
        assert [await node_count(cluster, name) for name in ("s4", "s5")] == [1, 0]
        await cluster.patch(HYPER_NODE, "s4", {"spec": spec(2, named("n7"))})
        assert (await ready(cluster, "s5"))[0] == "True"
        assert [await node_count(cluster, name) for name in ("s4", "s5")] == [0, 1]


async def test_the_time_of_a_condition_is_that_of_its_last_change() -> None:
    async with SmallCluster(controller()) as cluster:
        await cluster.create(HYPER_NODE, "s0", spec=spec(1, named("n0")))
        first = condition_of(await cluster.get(HYPER_NODE, "s0"), "Ready")
        await cluster.pass_time(5)
        await cluster.patch(HYPER_NODE, "s0", {"spec": {"tier": 2}})
        await make_nodes(cluster, "n0")
        assert condition_of(await cluster.get(HYPER_NODE, "s0"), "Ready") == first


async def test_other_conditions_are_kept() -> None:
    other = {"type": "Cabled", "status": "True", "reason": "Yes", "message": "", "lastTransitionTime": None}
    other["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    async with SmallCluster(controller()) as cluster:
        await cluster.create(HYPER_NODE, "s0", spec=spec(1, named("n0")))
        await cluster.patch(HYPER_NODE, "s0", {"status": {"conditions": [other]}}, "status")
        conditions = (await cluster.get(HYPER_NODE, "s0"))["status"]["conditions"]
        assert [condition["type"] for condition in conditions] == ["Cabled", "Ready"]


async def test_trees_of_large_clusters_are_built_less_often() -> None:
    made = controller()
    async with SmallCluster(made) as cluster:
        names = [f"n{i:04d}" for i in range(1200)]
        for name in names:
            manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}}
            await cluster.client.create(NODE, manifest)
        await cluster.rest()
        await cluster.create(HYPER_NODE, "h", spec=spec(1, {"regexMatch": {"pattern": "^n"}}))
        await cluster.pass_time(1, step=0.1)
        assert await node_count(cluster, "h") == 1200
        await make_nodes(cluster, "n9999")
        assert await node_count(cluster, "h") == 1201
        await cluster.delete(NODE, "n0000")
        assert await node_count(cluster, "h") == 1201  # a tree was built a moment ago
        await cluster.pass_time(1, step=0.1)
        assert await node_count(cluster, "h") == 1200
