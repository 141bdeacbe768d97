"""HyperNodes linked into a tree: members, tiers, bad links, and the lowest and common domains."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.api.selectors import NOTHING, from_object
from volcano.model.hypernodes.hypernode import HyperNode, Member
from volcano.model.hypernodes.tree import ROOT, HyperNodeTree

NODES: Mapping[str, Mapping[str, str]] = {f"n{i}": {} for i in range(8)}


def leaf(name: str, *nodes: str, tier: int = 1, tier_name: str = "") -> HyperNode:
    return HyperNode(name, tier, tier_name, tuple(Member("Node", node) for node in nodes))


def over(name: str, tier: int, *members: str) -> HyperNode:
    return HyperNode(name, tier, "", tuple(Member("HyperNode", member) for member in members))


LEAVES = [leaf(f"s{i}", f"n{2 * i}", f"n{2 * i + 1}") for i in range(4)]
THREE_TIERS = [*LEAVES, over("s4", 2, "s0", "s1"), over("s5", 2, "s2", "s3"), over("s6", 3, "s4", "s5")]


def test_nodes_below_a_domain_are_those_of_all_its_members() -> None:
    tree = HyperNodeTree.build(THREE_TIERS, NODES)
    assert tree.domains["s4"].nodes == {"n0", "n1", "n2", "n3"}
    assert tree.domains["s6"].nodes == set(NODES)
    assert [domain.name for domain in tree.ancestors("s1")] == ["s1", "s4", "s6", ROOT]
    assert tree.common("s0", "s3").name == "s6"
    assert tree.common("s0", "s0").name == "s0"
    assert not tree.problems


def test_the_root_is_one_tier_above_all_and_contains_nodes_without_hypernode() -> None:
    tree = HyperNodeTree.build(LEAVES, {**NODES, "n8": {}})
    assert tree.root.tier == 2
    assert tree.root.children == ("s0", "s1", "s2", "s3")
    assert "n8" in tree.root.nodes
    assert tree.lowest("n8") is tree.root
    assert HyperNodeTree.build([], NODES).root.tier == 1


def test_the_order_of_creation_does_not_matter() -> None:
    up = HyperNodeTree.build(THREE_TIERS, NODES)
    down = HyperNodeTree.build(reversed(THREE_TIERS), NODES)
    assert up.domains == down.domains


def test_the_lowest_domain_of_a_node_may_be_of_any_tier() -> None:
    tree = HyperNodeTree.build([*LEAVES[:2], leaf("wide", "n4", "n5", tier=2)], NODES)
    assert tree.lowest("n4").name == "wide"
    assert tree.lowest("n0").name == "s0"


def test_a_node_that_does_not_exist_is_ignored() -> None:
    assert HyperNodeTree.build([leaf("s0", "n0", "n9")], NODES).domains["s0"].nodes == {"n0"}


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        pytest.param(Member("Node", pattern="^n[01]$"), {"n0", "n1"}, id="anchored pattern"),
        pytest.param(Member("Node", pattern="n1"), {"n1", "n10"}, id="a pattern may match anywhere in the name"),
        pytest.param(Member("Node", pattern="(?!n)"), set(), id="a pattern that RE2 does not have"),
        pytest.param(Member("Node", labels=from_object({"matchLabels": {"rack": "a"}})), {"n0"}, id="labels"),
        pytest.param(Member("Node", labels=from_object({})), set(), id="an empty selector"),
        pytest.param(Member("Node", labels=NOTHING), set(), id="a selector that is not valid"),
        pytest.param(Member("HyperNode", pattern="n"), set(), id="a pattern for hypernodes"),
    ],
)  # fmt: skip
def test_members_select_nodes(member: Member, expected: set[str]) -> None:
    nodes = {**NODES, "n10": {}, "n0": {"rack": "a"}}
    assert HyperNodeTree.build([HyperNode("h", 1, "", (member,))], nodes).domains["h"].nodes == expected


def test_a_member_that_can_select_nothing_is_reported() -> None:
    bad = HyperNode("bad", 2, "", (Member("HyperNode", pattern="s.*"),))
    worse = HyperNode("worse", 1, "", (Member("Node", pattern="n["),))
    problems = HyperNodeTree.build([bad, worse], NODES).problems
    assert problems["bad"].reason == "UnsupportedMember"
    assert problems["worse"].reason == "InvalidMember"
    assert "missing closing ]" in problems["worse"].message


def test_nodes_and_hypernodes_may_be_mixed() -> None:
    mixed = HyperNode("mixed", 2, "", (Member("HyperNode", "s0"), Member("Node", pattern="^n7$")))
    tree = HyperNodeTree.build([LEAVES[0], mixed], NODES)
    assert tree.domains["mixed"].nodes == {"n0", "n1", "n7"}
    assert tree.lowest("n7").name == "mixed"


def test_a_cycle_leaves_out_only_the_link_that_closes_it() -> None:
    closed = [*LEAVES, over("s4", 2, "s0", "s1", "s6"), over("s5", 2, "s2", "s3"), over("s6", 3, "s4", "s5")]
    tree = HyperNodeTree.build(closed, NODES)
    assert tree.problems["s4"].reason == "Cycle"
    assert tree.problems["s4"].message.endswith("s4 -> s6 -> s4")
    assert list(tree.problems) == ["s4"]
    assert tree.domains == HyperNodeTree.build(THREE_TIERS, NODES).domains


def test_a_hypernode_that_lists_itself_is_a_cycle() -> None:
    tree = HyperNodeTree.build([over("s4", 2, "s0", "s4"), LEAVES[0]], NODES)
    assert tree.problems["s4"].reason == "Cycle"
    assert tree.domains["s4"].children == ("s0",)


def test_a_second_parent_gets_nothing_of_the_member() -> None:
    shared = [*LEAVES, over("s4", 2, "s0", "s1"), over("s5", 2, "s0", "s2", "s3")]
    tree = HyperNodeTree.build(shared, NODES)
    assert tree.problems["s5"].reason == "SecondParent"
    assert "s0 already has the parent s4" in tree.problems["s5"].message
    assert tree.domains["s5"].nodes == {"n4", "n5", "n6", "n7"}
    dropped = [*LEAVES, over("s4", 2, "s1"), over("s5", 2, "s0", "s2", "s3")]
    assert HyperNodeTree.build(dropped, NODES).domains["s0"].parent == "s5"


def test_the_tier_of_a_parent_must_be_higher() -> None:
    tree = HyperNodeTree.build([LEAVES[0], over("low", 1, "s0")], NODES)
    assert tree.problems["low"].reason == "TierNotAboveMember"
    assert tree.domains["s0"].parent == ROOT


def test_a_tier_name_with_two_tiers_means_the_higher_one() -> None:
    tree = HyperNodeTree.build(
        [leaf("a", "n0", tier_name="rack"), leaf("b", "n1", tier=2, tier_name="rack")], NODES
    )
    assert tree.tier_names == {"rack": 2}
    assert tree.problems["a"].reason == "TierNameConflict"
    assert "a" in tree.domains


@st.composite
def hypernodes(draw: st.DrawFn) -> list[HyperNode]:
    """HyperNodes with arbitrary links: cycles, second parents, wrong tiers, members that do not exist."""
    names = [f"h{i}" for i in range(draw(st.integers(1, 8)))]
    member = st.one_of(
        st.sampled_from([f"n{i}" for i in range(10)]).map(lambda name: Member("Node", name)),
        st.sampled_from(["n1", "^n[0-3]$", "x", "["]).map(lambda pattern: Member("Node", pattern=pattern)),
        st.sampled_from([*names, "unknown"]).map(lambda name: Member("HyperNode", name)),
    )
    return [
        HyperNode(name, draw(st.integers(0, 4)), "", tuple(draw(st.lists(member, max_size=4))))
        for name in names
    ]


@given(hypernodes())
@settings(max_examples=200, deadline=None)
def test_any_hypernodes_form_a_tree(found: list[HyperNode]) -> None:
    tree = HyperNodeTree.build(found, NODES)
    assert set(tree.domains) == {each.name for each in found}
    listed = [child for domain in (*tree.domains.values(), tree.root) for child in domain.children]
    assert sorted(listed) == sorted(tree.domains)  # each has exactly one parent
    for domain in tree.domains.values():
        parent = tree.get(domain.parent)
        assert parent is not None
        assert parent.tier > domain.tier
        assert domain.nodes <= parent.nodes
        assert [*tree.ancestors(domain.name)][-1] is tree.root
    for node in NODES:
        containing = [domain.tier for domain in tree.domains.values() if node in domain.nodes]
        assert tree.lowest(node).tier == min(containing, default=tree.root.tier)


@given(hypernodes())
@settings(max_examples=200, deadline=None)
def test_a_link_is_either_used_or_reported(found: list[HyperNode]) -> None:
    tree = HyperNodeTree.build(found, NODES)
    for each in found:
        for member in each.members:
            if member.kind == "HyperNode" and member.name in tree.domains:
                linked = tree.domains[member.name].parent == each.name
                assert linked or each.name in tree.problems
