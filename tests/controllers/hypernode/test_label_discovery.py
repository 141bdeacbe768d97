"""HyperNodes are discovered from the labels of nodes, and follow them."""

from typing import Any

import yaml

from tests.cluster import SmallCluster
from tests.controllers.hypernode.test_controller import controller, events, named, spec
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, HYPER_NODE, NAMESPACE, NODE
from volcano.kube.api.manifest import Manifest, labels_of

SYSTEM, CONFIG = "volcano-system", "volcano-controller-configmap"
LEVELS = [{"nodeLabel": "hypercluster"}, {"nodeLabel": "hypernode"}, {"nodeLabel": "kubernetes.io/hostname"}]
SOURCE = "volcano.sh/network-topology-source"


def entry(types: dict[str, Any] | None = None, *, enabled: bool = True) -> dict[str, Any]:
    return {
        "source": "label",
        "enabled": enabled,
        "config": {"networkTopologyTypes": {"A3": LEVELS} if types is None else types},
    }


async def configure(cluster: SmallCluster, *sources: dict[str, Any]) -> None:
    data = {"volcano-controller.conf": yaml.safe_dump({"networkTopologyDiscovery": list(sources)})}
    if CONFIG in await cluster.names(CONFIG_MAP):
        await cluster.patch(CONFIG_MAP, CONFIG, {"data": data}, namespace=SYSTEM)
        return
    await cluster.create(NAMESPACE, SYSTEM)
    await cluster.create(CONFIG_MAP, CONFIG, namespace=SYSTEM, data=data)


async def eight_nodes(cluster: SmallCluster) -> None:
    for index in range(8):
        labels = {"hypernode": f"s{index // 2}", "hypercluster": f"c{index // 4}"}
        await cluster.create(NODE, f"n{index}", metadata={"labels": labels}, spec={})


async def tree(cluster: SmallCluster) -> dict[str, list[str]]:
    """Members by the value of the label; HyperNodes among them by theirs."""
    found = await cluster.all(HYPER_NODE)
    values = {h["metadata"]["name"]: value_of(h) for h in found}
    return {
        value_of(h): sorted(
            values.get(name, name)
            for m in h["spec"]["members"]
            for name in [m["selector"]["exactMatch"]["name"]]
        )
        for h in found
    }


def value_of(hyper_node: Manifest) -> str:
    return next((v for k, v in labels_of(hyper_node).items() if k != SOURCE), hyper_node["metadata"]["name"])


async def test_tiers_follow_the_labels_of_nodes() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, entry())
        assert await tree(cluster) == {
            "s0": ["n0", "n1"],
            "s1": ["n2", "n3"],
            "s2": ["n4", "n5"],
            "s3": ["n6", "n7"],
            "c0": ["s0", "s1"],
            "c1": ["s2", "s3"],
        }
        found = await cluster.all(HYPER_NODE)
        names = {h["metadata"]["name"].rsplit("-", 1)[0] for h in found}
        assert names == {"hypernode-a3-tier1", "hypernode-a3-tier2"}
        assert {(h["spec"]["tier"], h["spec"]["tierName"]) for h in found} == {
            (1, "hypernode"),
            (2, "hypercluster"),
        }
        assert {labels_of(h)[SOURCE] for h in found} == {"label"}
        before = {value_of(h): h["metadata"]["name"] for h in found}
        gone = {"metadata": {"labels": {"hypernode": None, "hypercluster": None}}}
        for name in ("n6", "n7"):
            await cluster.patch(NODE, name, gone)
        assert await tree(cluster) == {
            "s0": ["n0", "n1"],
            "s1": ["n2", "n3"],
            "s2": ["n4", "n5"],
            "c0": ["s0", "s1"],
            "c1": ["s2"],
        }
        kept = {value_of(h): h["metadata"]["name"] for h in await cluster.all(HYPER_NODE)}
        assert all(before[value] == name for value, name in kept.items())


async def test_a_deleted_hypernode_comes_back_with_its_members() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, entry())
        before = await tree(cluster)
        victim = next(h for h in await cluster.all(HYPER_NODE) if value_of(h) == "s1")
        await cluster.delete(HYPER_NODE, victim["metadata"]["name"])
        assert await tree(cluster) == before


async def test_a_changed_spec_is_restored() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, entry())
        before = await tree(cluster)
        victim = next(h for h in await cluster.all(HYPER_NODE) if value_of(h) == "s1")
        await cluster.patch(HYPER_NODE, victim["metadata"]["name"], {"spec": spec(1, named("n7"))})
        assert await tree(cluster) == before


async def test_a_node_without_the_narrow_label_is_in_no_hypernode() -> None:
    async with SmallCluster(controller()) as cluster:
        await cluster.create(NODE, "n0", metadata={"labels": {"hypercluster": "c0"}}, spec={})
        await configure(cluster, entry())
        assert await tree(cluster) == {}


async def test_an_empty_value_is_a_value() -> None:
    async with SmallCluster(controller()) as cluster:
        await cluster.create(NODE, "n0", metadata={"labels": {"hypernode": ""}}, spec={})
        await configure(cluster, entry())
        assert await tree(cluster) == {"": ["n0"]}


async def test_types_with_the_same_label_share_its_hypernodes() -> None:
    types = {"A": LEVELS, "B": [{"nodeLabel": "room"}, *LEVELS[1:]]}
    async with SmallCluster(controller()) as cluster:
        labels = {"hypernode": "s0", "hypercluster": "c0", "room": "r0"}
        await cluster.create(NODE, "n0", metadata={"labels": labels}, spec={})
        await configure(cluster, entry(types))
        assert await tree(cluster) == {"s0": ["n0"], "c0": ["s0"], "r0": ["s0"]}


async def test_a_list_with_only_the_host_yields_nothing() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, entry({"t": [{"nodeLabel": "hypernode"}]}))
        assert await tree(cluster) == {}


async def test_names_of_types_become_parts_of_names() -> None:
    async with SmallCluster(controller()) as cluster:
        await cluster.create(NODE, "n0", metadata={"labels": {"hypernode": "s0"}}, spec={})
        await configure(cluster, entry({"Rail_Opt 2.5": LEVELS}))
        assert [name[:-6] for name in await cluster.names(HYPER_NODE)] == ["hypernode-rail-opt-2.5-tier1"]
        await configure(cluster, entry({"x._y.": LEVELS}))
        assert [name[:-6] for name in await cluster.names(HYPER_NODE)] == ["hypernode-x--y--tier1"]


async def test_own_hypernodes_are_never_touched() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await cluster.create(HYPER_NODE, "own", spec=spec(1, named("n0")))
        await configure(cluster, entry({}))
        assert await tree(cluster) == {"own": ["n0"]}


async def test_a_disabled_source_leaves_its_hypernodes_and_says_how_to_delete_them() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, entry())
        names = await cluster.names(HYPER_NODE)
        await configure(cluster, entry(enabled=False))
        assert await cluster.names(HYPER_NODE) == names
        for name in names:
            told = [e for e in await events(cluster, name) if e["reason"] == "DiscoveryDisabled"]
            assert len(told) == 1
            assert "kubectl delete hn -l volcano.sh/network-topology-source=label" in told[0]["message"]
        await cluster.delete(NODE, "n0")
        assert len([e for e in await cluster.all(EVENT) if e["reason"] == "DiscoveryDisabled"]) == len(names)


async def test_an_unknown_source_is_named_and_the_others_work() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, {"source": "roce", "enabled": True}, entry())
        assert len(await cluster.names(HYPER_NODE)) == 6
        warning = (await events(cluster, CONFIG))[0]
        assert (warning["type"], warning["reason"]) == ("Warning", "DiscoveryConfigRejected")
        text = "networkTopologyDiscovery[0].source: 'roce' is unknown; choose from label, ufm"
        assert warning["message"] == text


async def test_a_configuration_that_cannot_be_parsed_changes_nothing() -> None:
    async with SmallCluster(controller()) as cluster:
        await eight_nodes(cluster)
        await configure(cluster, entry())
        await cluster.patch(
            CONFIG_MAP, CONFIG, {"data": {"volcano-controller.conf": "a: ["}}, namespace=SYSTEM
        )
        assert len(await cluster.names(HYPER_NODE)) == 6
        assert {e["reason"] for e in await cluster.all(EVENT)} == {"DiscoveryConfigRejected"}
