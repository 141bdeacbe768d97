"""Simulated nodes are grouped as `rack=8,spine=4` says; other texts get an error that says what is right."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.cli.errors import CommandError
from volcano.cli.volcano import settings
from volcano.cli.volcano.parser import build_parser
from volcano.model.hypernodes.tree import HyperNodeTree
from volcano.model.parse_auxiliary import hyper_node
from volcano.nodes.pools import PoolError, nodes_of, parse_pools
from volcano.nodes.topology import Level, Topology, parse_topology


def test_racks_of_nodes_and_spines_of_racks() -> None:
    topology = parse_topology("rack=8,spine=4")
    nodes = topology.labelled(nodes_of(parse_pools([64], [])))
    assert dict(nodes[0].labels) == {
        "topology.volcano.sh/rack": "rack-0",
        "topology.volcano.sh/spine": "spine-0",
    }
    assert nodes[63].labels["topology.volcano.sh/rack"] == "rack-7"
    assert nodes[32].labels["topology.volcano.sh/spine"] == "spine-1"
    found = {m["metadata"]["name"]: m["spec"] for m in topology.hyper_nodes(nodes)}
    assert sorted(found) == sorted([*(f"rack-{i}" for i in range(8)), "spine-0", "spine-1"])
    assert (found["rack-0"]["tier"], found["rack-0"]["tierName"]) == (1, "rack")
    assert (found["spine-1"]["tier"], found["spine-1"]["tierName"]) == (2, "spine")
    names = [m["selector"]["exactMatch"]["name"] for m in found["rack-1"]["members"]]
    assert names == [f"node-{i}" for i in range(8, 16)]


@given(
    st.integers(1, 60),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_every_node_is_in_one_group_of_each_tier(count: int, sizes: list[int]) -> None:
    topology = Topology(tuple(Level(f"t{index}", size) for index, size in enumerate(sizes)))
    nodes = nodes_of(parse_pools([count], []))
    made = [hyper_node(manifest) for manifest in topology.hyper_nodes(nodes)]
    tree = HyperNodeTree.build(made, {node.name: {} for node in nodes})
    assert tree.problems == {}
    for tier in range(1, len(sizes) + 1):
        groups = [domain.nodes for domain in tree.domains.values() if domain.tier == tier]
        assert sorted(name for group in groups for name in group) == sorted(node.name for node in nodes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rack", "--topology 'rack': 'rack' is not of the form name=size"),
        ("rack=", "rack='' must be the number of nodes in a rack, 1 or more"),
        ("rack=0", "rack='0' must be the number of nodes in a rack, 1 or more"),
        ("rack=8,spine=x", "spine='x' must be the number of racks in a spine, 1 or more"),
        ("rack=8,rack=4", "rack is listed twice"),
        ("Rack=8", "'Rack=8' is not of the form name=size with a name of lower-case"),
        ("rack=8,", "'' is not of the form name=size"),
        (",".join(f"t{i}=1" for i in range(9)), "has 9 tiers; at most 8 are possible"),
    ],
)
def test_other_texts_are_errors(text: str, message: str) -> None:
    with pytest.raises(PoolError) as error:
        parse_topology(text)
    assert message in str(error.value)


def test_a_topology_needs_simulated_nodes() -> None:
    parsed: argparse.Namespace = build_parser().parse_args(["up", "--topology", "rack=8"])
    with pytest.raises(CommandError, match="no simulated nodes to group; add such as --nodes 64"):
        settings.cluster_options(parsed, default_duration=1.0)
    parsed = build_parser().parse_args(["up", "--nodes", "4", "--topology", "rack=0"])
    with pytest.raises(CommandError, match="must be the number of nodes in a rack"):
        settings.cluster_options(parsed, default_duration=1.0)
    parsed = build_parser().parse_args(["up", "--nodes", "4", "--topology", "rack=2"])
    assert settings.cluster_options(parsed, default_duration=1.0).topology == parse_topology("rack=2")
