"""vcctl topology: the tree as a table and as data."""

import json

import pytest

from tests.cli.conftest import Embedded, Vcctl
from volcano.kube.api.kinds import HYPER_NODE


@pytest.fixture
def rack(embedded: Embedded, namespace: str) -> str:
    """A HyperNode over one of the cluster's nodes."""
    name = f"{namespace}-rack"
    member = {"type": "Node", "selector": {"exactMatch": {"name": "node-0"}}}
    spec = {"tier": 1, "tierName": "rack", "members": [member]}
    embedded.create(HYPER_NODE, {"metadata": {"name": name}, "spec": spec})
    return name


def test_the_tree_shows_nodes_room_and_gangs(vcctl: Vcctl, rack: str) -> None:
    result = vcctl("topology", "--pod", "cpu=100")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0].split()[:3] == ["HyperNode", "Tier", "Nodes"]
    line = next(line for line in result.lines if rack in line).split()
    assert line[line.index(rack) + 1 :][:3] == ["1", "rack", "1"]


def test_one_part_of_the_tree_with_its_nodes(vcctl: Vcctl, rack: str) -> None:
    result = vcctl("topology", rack, "--nodes")
    assert [line.split()[0] for line in result.lines[1:]] == [rack, "└─"]
    assert "node-0" in result.lines[2]


def test_the_tree_as_json(vcctl: Vcctl, rack: str) -> None:
    data = json.loads(vcctl("topology", rack, "-o", "json").out)
    assert (data["resource"], data["pod"]) == ("cpu", {"cpu": 1.0})
    tree = data["tree"]
    assert (tree["name"], tree["tier"], tree["tierName"], tree["nodes"]) == (rack, 1, "rack", ["node-0"])
    # At most the pods of a node; other tests may have left some there.
    assert 0 < tree["largestGang"] <= min(int(tree["free"]), 110)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-o", "wide"), 2, "'wide' is none of json, yaml"),
        (("--pod", "gpu"), 2, "--pod: invalid argument syntax 'gpu'"),
        (("--pod", "cpu=0"), 2, "--pod: 'cpu=0' requests nothing"),
        (("--resource", "nvidia.com/gpus"), 2, "--resource: no node has 'nvidia.com/gpus'; there are cpu"),
        (("nowhere",), 3, "there is no HyperNode 'nowhere' in the tree"),
    ],
)
def test_bad_input_is_named(vcctl: Vcctl, rack: str, words: tuple[str, ...], code: int, message: str) -> None:
    result = vcctl("topology", *words)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
