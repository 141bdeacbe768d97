"""vcctl job describe: the HyperNode that a gang holds, or which one comes closest and what it lacks."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Embedded, Vcctl, eventually
from tests.cli.jobs import job, start
from volcano.kube.api.kinds import HYPER_NODE, NODE
from volcano.kube.api.manifest import Key, key_of

HARD = {"mode": "hard", "highestTierAllowed": 1}


@pytest.fixture
def racks(embedded: Embedded) -> Iterator[list[str]]:
    """Two HyperNodes of one node each."""
    nodes = sorted(key_of(found).name for found in embedded.run(embedded.client.list(NODE)).items)[:2]
    for name in nodes:
        member = {"type": "Node", "selector": {"exactMatch": {"name": name}}}
        spec = {"tier": 1, "members": [member]}
        embedded.create(HYPER_NODE, {"metadata": {"name": f"rack-{name}"}, "spec": spec})
    yield [f"rack-{name}" for name in nodes]
    for name in nodes:
        embedded.delete(HYPER_NODE, Key("", f"rack-{name}"))


def test_a_gang_that_no_hypernode_takes_says_which_comes_closest(
    embedded: Embedded, vcctl: Vcctl, namespace: str, racks: list[str]
) -> None:
    start(embedded, job("far", namespace, replicas=3, cpu="150", networkTopology=HARD), "Pending")

    def screen() -> str:
        return " ".join(vcctl("job", "describe", "far").out.split())

    assert eventually(lambda: "0/2 hypernodes of tier ≤ 1 have room: rack-" in screen())
    assert "has room for 2 of 3 pods; cpu short by" in screen()
    assert "Network: hard, highest tier 1" in screen()
    assert eventually(lambda: "FailedScheduling" in screen())


def test_a_running_gang_says_which_hypernode_it_holds(
    embedded: Embedded, vcctl: Vcctl, namespace: str, racks: list[str]
) -> None:
    start(embedded, job("near", namespace, networkTopology=HARD), "Running")
    assert eventually(lambda: "HyperNode:" in vcctl("job", "describe", "near").out)
    told = json.loads(vcctl("job", "describe", "near", "-o", "json").out)
    assert told["gang"]["hyperNode"] in racks
    assert told["spec"]["networkTopology"] == HARD
