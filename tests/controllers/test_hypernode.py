"""HyperNodes know how many nodes they hold, and are discovered from the labels of nodes."""

from itertools import count

import yaml

from tests.cluster import SmallCluster
from volcano.controllers.hypernode import HyperNodeController
from volcano.kube.kinds import CONFIG_MAP, HYPER_NODE, NAMESPACE, NODE
from volcano.kube.manifest import labels_of


def controller() -> HyperNodeController:
    numbers = count()
    return HyperNodeController(lambda: f"{next(numbers):05d}")


async def nodes(cluster: SmallCluster, racks: dict[str, tuple[str, str]]) -> None:
    for name, (spine, rack) in racks.items():
        labels = {"spine": spine, "rack": rack, "kubernetes.io/hostname": name}
        await cluster.create(NODE, name, metadata={"labels": labels}, spec={})


async def test_node_count_follows_every_way_of_selecting() -> None:
    async with SmallCluster(controller()) as cluster:
        await nodes(cluster, {"n1": ("s1", "r1"), "n2": ("s1", "r1"), "m1": ("s1", "r2")})
        members = [
            {"type": "Node", "selector": {"exactMatch": {"name": "m1"}}},
            {"type": "Node", "selector": {"regexMatch": {"pattern": "^n"}}},
            {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r2"}}}},
        ]
        await cluster.create(HYPER_NODE, "h", spec={"tier": 1, "members": members})
        assert (await cluster.get(HYPER_NODE, "h"))["status"]["nodeCount"] == 3
        await nodes(cluster, {"n3": ("s1", "r1")})
        assert (await cluster.get(HYPER_NODE, "h"))["status"]["nodeCount"] == 4


async def test_tiers_are_discovered_from_labels_and_follow_them() -> None:
    levels = [{"nodeLabel": "spine"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    config = {
        "networkTopologyDiscovery": [
            {"source": "label", "enabled": True, "config": {"networkTopologyTypes": {"fabric": levels}}}
        ]
    }
    async with SmallCluster(controller()) as cluster:
        await cluster.create(NAMESPACE, "volcano-system")
        await nodes(cluster, {"n1": ("s1", "r1"), "n2": ("s1", "r1"), "n3": ("s1", "r2")})
        data = {"volcano-controller.conf": yaml.safe_dump(config)}
        await cluster.create(
            CONFIG_MAP, "volcano-controller-configmap", namespace="volcano-system", data=data
        )
        tiers = {labels_of(h).get("rack") or labels_of(h)["spine"]: h for h in await cluster.all(HYPER_NODE)}
        assert {value: h["spec"]["tier"] for value, h in tiers.items()} == {"r1": 1, "r2": 1, "s1": 2}
        assert [m["selector"]["exactMatch"]["name"] for m in tiers["r1"]["spec"]["members"]] == ["n1", "n2"]
        assert {m["selector"]["exactMatch"]["name"] for m in tiers["s1"]["spec"]["members"]} == {
            tiers["r1"]["metadata"]["name"],
            tiers["r2"]["metadata"]["name"],
        }
        await cluster.delete(NODE, "n3")
        assert {labels_of(h).get("rack") for h in await cluster.all(HYPER_NODE)} == {"r1", None}
        kept = tiers["r1"]["metadata"]["name"]
        assert kept in await cluster.names(HYPER_NODE)
