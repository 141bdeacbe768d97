"""Flags of vc-scheduler that select nodes and provisioners."""

import pytest

from tests.builders import START, job, node, queue
from tests.scenario import cluster_of, config, event
from tests.scheduler.plugins.predicates.test_volumes import GROUP, claim, csi_node, using, volume
from volcano.cmd.scheduler import label_pairs
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule
from volcano.scheduler.snapshot_file import load, save

SELECTOR = (("pool", "batch"), ("pool", "spare"))


def test_only_nodes_with_one_of_the_labels_are_used() -> None:
    nodes = [node("a", labels={"pool": "batch"}), node("b", labels={"pool": "web"}), node("c", cpu=9)]
    cluster = cluster_of(nodes=nodes, jobs=[job("j", 6, min_available=1)], node_selector=SELECTOR)
    snapshot = cluster.snapshot(START, 1)
    assert [found.name for found in snapshot.nodes] == ["a"]
    bound = [each.node for each in schedule(snapshot, config()).decisions if isinstance(each, Bind)]
    assert bound == ["a"] * 4


def test_a_node_comes_and_goes_with_its_label() -> None:
    cluster = cluster_of(nodes=[node("a")], node_selector=SELECTOR)

    def names() -> list[str]:
        return [found.name for found in cluster.snapshot(START, 1).nodes]

    before = cluster.revision
    cluster.apply(event(node("a", cpu=5), cluster, EventType.MODIFIED))
    assert cluster.revision == before, "ignored nodes do not change the revision"
    cluster.apply(event(node("a", labels={"pool": "spare"}), cluster, EventType.MODIFIED))
    assert names() == ["a"]
    cluster.apply(event(node("a"), cluster, EventType.MODIFIED))
    assert names() == []


@pytest.mark.parametrize(("ignored", "expected"), [((), 2), (("disk.example.com",), 4)])
def test_volumes_of_ignored_provisioners_are_not_counted(ignored: tuple[str, ...], expected: int) -> None:
    driver = "disk.example.com"
    claims = [(claim(f"c{i}", f"v{i}"), volume(f"v{i}", driver=driver, owner=f"c{i}")) for i in range(4)]
    cluster = cluster_of(
        nodes=[node("n", cpu=10)],
        queues=[queue("default")],
        podgroups=[GROUP],
        pods=[using(f"p{i}", f"c{i}") for i in range(4)],
        others=[*(each for pair in claims for each in pair), csi_node("n", driver, 2)],
        ignored_provisioners=ignored,
    )
    snapshot = cluster.snapshot(START, 1)
    replayed, _ = load(save(snapshot, ""))
    for each in (snapshot, replayed):
        outcome = schedule(each, config(["predicates"]))
        assert sum(isinstance(decision, Bind) for decision in outcome.decisions) == expected


def test_what_flags_say() -> None:
    assert label_pairs(["pool:batch", "zone : a ", "bare", "empty:", ":x"]) == (
        ("pool", "batch"),
        ("zone", "a"),
    )
