"""The tree of HyperNodes kept up to date by events, and its arrays over the rows of a snapshot."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.hypernodes.test_tree import LEAVES, THREE_TIERS, hypernodes
from volcano.kube.api.selectors import from_object
from volcano.model.hypernodes.cache import HyperNodeCache
from volcano.model.hypernodes.hypernode import HyperNode, Member
from volcano.model.hypernodes.members import literal_prefix
from volcano.model.hypernodes.tree import HyperNodeTree
from volcano.model.hypernodes.view import TopologyView

NODES: Mapping[str, Mapping[str, str]] = {f"n{i}": {} for i in range(8)}


def cache_of(*found: HyperNode, nodes: Mapping[str, Mapping[str, str]] = NODES) -> HyperNodeCache:
    cache = HyperNodeCache()
    for hypernode in found:
        cache.put(hypernode)
    for name, labels in nodes.items():
        cache.put_node(name, labels)
    return cache


def rack(name: str, value: str, tier: int = 1) -> HyperNode:
    return HyperNode(name, tier, "", (Member("Node", labels=from_object({"matchLabels": {"rack": value}})),))


def test_the_tree_is_the_same_object_while_nothing_changes() -> None:
    cache = cache_of(*THREE_TIERS)
    tree = cache.tree()
    cache.put_node("n0", {})
    assert cache.tree() is tree
    cache.put_node("n0", {"unrelated": "label"})
    assert cache.tree() is tree
    rows = {name: i for i, name in enumerate(NODES)}
    assert cache.view(rows) is cache.view(rows)


def test_a_node_that_is_added_or_deleted_enters_and_leaves_all_its_domains() -> None:
    cache = cache_of(HyperNode("s0", 1, "", (Member("Node", pattern="^n[01]$"),)), nodes={"n0": {}})
    cache.put(HyperNode("s4", 2, "", (Member("HyperNode", "s0"),)))
    cache.tree()
    cache.put_node("n1", {})
    assert cache.tree().domains["s4"].nodes == {"n0", "n1"}
    cache.remove_node("n1")
    assert cache.tree().domains["s4"].nodes == {"n0"}


def test_a_relabelled_node_leaves_the_domain_of_its_old_label() -> None:
    cache = cache_of(rack("a", "a"), rack("b", "b"), nodes={"n0": {"rack": "a"}, "n1": {"rack": "a"}})
    assert cache.tree().domains["a"].nodes == {"n0", "n1"}
    cache.put_node("n1", {"rack": "b"})
    assert cache.tree().domains["a"].nodes == {"n0"}
    assert cache.tree().domains["b"].nodes == {"n1"}


def test_a_domain_of_nodes_and_hypernodes_is_updated_by_node_events() -> None:
    mixed = HyperNode("mixed", 2, "", (Member("HyperNode", "s0"), *rack("x", "spare").members))
    cache = cache_of(LEAVES[0], mixed)
    cache.tree()
    cache.put_node("n7", {"rack": "spare"})
    assert cache.tree().domains["mixed"].nodes == {"n0", "n1", "n7"}


def test_a_deleted_hypernode_leaves_its_members_to_the_root() -> None:
    cache = cache_of(*THREE_TIERS)
    cache.tree()
    cache.remove("s4")
    tree = cache.tree()
    assert tree.domains["s0"].parent == tree.root.name
    assert tree.domains["s6"].nodes == {"n4", "n5", "n6", "n7"}


def test_the_beginning_of_a_pattern_is_known_only_where_every_match_has_it() -> None:
    known = {"^rack7-n[0-9]+$": "rack7-n", "^ab?c": "a", "^ab|c": "", "ab": "", "^(ab)": "", "^ab{2}": "a"}
    assert {pattern: literal_prefix(pattern) for pattern in known} == known


LABELS = st.fixed_dictionaries({}, optional={"rack": st.sampled_from("ab"), "zone": st.sampled_from("ab")})
EVENTS: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(sorted(NODES)), LABELS),
    st.tuples(st.just("no node"), st.sampled_from(sorted(NODES)), st.just({})),
    st.tuples(st.just("hypernodes"), st.just(""), hypernodes()),
    st.tuples(
        st.just("hypernodes"),
        st.just(""),
        st.builds(lambda name, value, tier: [rack(name, value, tier)], st.sampled_from(["h0", "h9"]),
                  st.sampled_from("ab"), st.integers(1, 3)),
    ),
    st.tuples(st.just("no hypernode"), st.sampled_from([f"h{i}" for i in range(8)]), st.just({})),
)  # fmt: skip


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=12))
@settings(max_examples=150, deadline=None)
def test_after_any_events_the_tree_equals_one_built_from_scratch(events: list[tuple[Any, bool]]) -> None:
    cache = HyperNodeCache()
    nodes: dict[str, Mapping[str, str]] = {}
    found: dict[str, HyperNode] = {}
    for (what, name, value), read in events:
        if what == "node":
            nodes[name] = value
            cache.put_node(name, value)
        elif what == "no node":
            nodes.pop(name, None)
            cache.remove_node(name)
        elif what == "hypernodes":
            for hypernode in value:
                found[hypernode.name] = hypernode
                cache.put(hypernode)
        else:
            found.pop(name, None)
            cache.remove(name)
        if read:
            cache.tree()
    kept, built = cache.tree(), HyperNodeTree.build(found.values(), nodes)
    assert kept.domains == built.domains
    assert kept.root == built.root
    assert kept.problems == built.problems
    assert {node: kept.lowest(node).name for node in nodes} == {
        node: built.lowest(node).name for node in nodes
    }


@given(hypernodes(), st.sets(st.sampled_from(range(8)), min_size=1))
@settings(max_examples=100, deadline=None)
def test_the_arrays_agree_with_the_tree(found: list[HyperNode], some: set[int]) -> None:
    tree = HyperNodeTree.build(found, NODES)
    rows = {name: i for i, name in enumerate(NODES)}
    view = TopologyView(tree, rows)
    values = np.arange(16.0).reshape(8, 2)
    sums = view.sums(values)
    for number, domain in enumerate(view.domains):
        inside = sorted(rows[name] for name in domain.nodes)
        assert view.rows_of(number).tolist() == inside
        assert sums[number].tolist() == values[inside].sum(axis=0).tolist()
        below = {view.domains[i].name for i in np.flatnonzero(view.below(number))}
        expected = {each.name for each in view.domains if domain in tree.ancestors(each.name)}
        assert below == expected
    names = {f"n{row}" for row in some}
    lowest = view.domains[view.lowest_containing(np.array(sorted(some)))]
    assert lowest.tier == min(each.tier for each in view.domains if names <= each.nodes)
