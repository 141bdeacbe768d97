"""HyperNodes with a contradicting tier name are refused; members that select nothing get a warning."""

from typing import Any

from tests.webhooks.reviews import found, review
from volcano.kube.api.kinds import HYPER_NODE
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.rules import warnings


def hyper_node(name: str, tier: int, tier_name: str = "", **fields: Any) -> Manifest:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]
    spec = {"tier": tier, "members": members, **fields}
    return {"metadata": {"name": name}, "spec": {**spec, "tierName": tier_name} if tier_name else spec}


RACKS = {HYPER_NODE: [hyper_node("s0", 1, "rack"), hyper_node("c0", 2, "spine")]}


def test_a_tier_name_has_one_tier() -> None:
    refused = found(review(HYPER_NODE, hyper_node("s1", 2, "rack"), objects=RACKS))
    assert refused == {
        "spec.tierName": "'rack' is the name of tier 1 in HyperNode s0 and cannot name tier 2 too; "
        "use another name or that tier"
    }
    assert found(review(HYPER_NODE, hyper_node("s1", 1, "rack"), objects=RACKS)) == {}
    assert found(review(HYPER_NODE, hyper_node("s1", 2), objects=RACKS)) == {}


def test_the_only_hypernode_of_a_tier_name_may_change_its_tier() -> None:
    old, new = hyper_node("s0", 1, "rack"), hyper_node("s0", 3, "rack")
    assert found(review(HYPER_NODE, new, old, objects=RACKS)) == {}


def test_an_existing_conflict_does_not_prevent_other_changes() -> None:
    old = hyper_node("s9", 3, "rack")
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
    new = hyper_node("s9", 3, "rack", members=[member])
    assert found(review(HYPER_NODE, new, old, objects=RACKS)) == {}


def test_a_member_that_selects_nothing_is_a_warning() -> None:
    member = {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s.*"}}}
    (text,) = warnings(review(HYPER_NODE, hyper_node("c1", 2, members=[member])))
    assert text.startswith("spec.members[0]: selects nothing")
