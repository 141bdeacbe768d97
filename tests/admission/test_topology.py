"""HyperNodes with a contradicting tier name are refused; topologies that cannot work as written get a warning."""

from typing import Any

import pytest

from tests.admission.reviews import found, job, review, task
from volcano.admission.rules import warnings
from volcano.kube.kinds import HYPER_NODE, JOB, POD_GROUP
from volcano.kube.manifest import Manifest


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


UNKNOWN = "no HyperNode has the tier name 'zone', so the pods will wait; the tier names are rack, spine"


def test_an_unknown_tier_name_is_a_warning_that_names_the_known_ones() -> None:
    wanted = {"mode": "hard", "highestTierName": "zone"}
    policy: dict[str, Any] = {
        "partitionPolicy": {"totalPartitions": 1, "partitionSize": 2, "networkTopology": wanted}
    }
    made = job(task(**policy), networkTopology=wanted)
    assert warnings(review(JOB, made, objects=RACKS)) == [
        f"spec.networkTopology.highestTierName: {UNKNOWN}",
        f"spec.tasks[0].partitionPolicy.networkTopology.highestTierName: {UNKNOWN}",
    ]
    group = {
        "metadata": {"name": "g", "namespace": "d"},
        "spec": {"networkTopology": wanted, "subGroupPolicy": [{"networkTopology": wanted}]},
    }
    assert warnings(review(POD_GROUP, group, objects=RACKS)) == [
        f"spec.networkTopology.highestTierName: {UNKNOWN}",
        f"spec.subGroupPolicy[0].networkTopology.highestTierName: {UNKNOWN}",
    ]


@pytest.mark.parametrize(
    "topology",
    [
        {"mode": "hard", "highestTierName": "rack"},
        {"mode": "hard", "highestTierAllowed": 0},
        {"mode": "soft"},
        {},
        None,
    ],
)
def test_a_topology_that_works_has_no_warning(topology: dict[str, Any] | None) -> None:
    assert warnings(review(JOB, job(networkTopology=topology), objects=RACKS)) == []


def test_hard_without_a_limit_is_a_warning() -> None:
    (text,) = warnings(review(JOB, job(networkTopology={"mode": "hard"}), objects=RACKS))
    assert text.startswith("spec.networkTopology: mode hard without highestTierAllowed or highestTierName")


def test_a_member_that_selects_nothing_is_a_warning() -> None:
    member = {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s.*"}}}
    (text,) = warnings(review(HYPER_NODE, hyper_node("c1", 2, members=[member])))
    assert text.startswith("spec.members[0]: selects nothing")


def test_warnings_are_not_repeated_when_only_the_status_changes() -> None:
    made = job(networkTopology={"mode": "hard"})
    assert warnings(review(JOB, made, made, objects=RACKS)) == []
