"""vcctl queue tree: the hierarchy with its shares."""

import json

import pytest

from tests.cli.conftest import Embedded, Vcctl
from tests.views.pictures import queue
from volcano.cli.queue.tree import drawn, nested
from volcano.kube.api.kinds import QUEUE
from volcano.views.queues import queue_shares


def test_branches_join_where_siblings_follow() -> None:
    queues = [
        queue("root"), queue("a"), queue("b"), queue("a1", parent="a"), queue("a2", parent="a"),
        queue("a1x", parent="a1"), queue("c"),
    ]  # fmt: skip
    assert drawn(queue_shares(queues, {})) == [
        "root",
        "├─ a",
        "│  ├─ a1",
        "│  │  └─ a1x",
        "│  └─ a2",
        "├─ b",
        "└─ c",
    ]


def test_as_data_children_are_inside_their_parents() -> None:
    queues = [queue("root", allocated={"cpu": "2"}), queue("a", weight=3), queue("b", parent="a")]
    total = {"cpu": 8.0}
    (root,) = nested(queue_shares(queues, total), total)
    assert (root["name"], root["share"]) == ("root", 0.25)
    (a,) = root["children"]
    assert (a["weight"], a["deserved"], [child["name"] for child in a["children"]]) == (
        3,
        {"cpu": 8.0},
        ["b"],
    )


@pytest.fixture
def family(embedded: Embedded, namespace: str) -> str:
    """A queue and its child."""
    embedded.create(
        QUEUE,
        {"metadata": {"name": f"{namespace}-mother"}, "spec": {"weight": 5, "capability": {"cpu": "8"}}},
    )
    embedded.create(
        QUEUE,
        {"metadata": {"name": f"{namespace}-child"}, "spec": {"weight": 2, "parent": f"{namespace}-mother"}},
    )
    return namespace


def test_the_tree_shows_weight_state_and_share(vcctl: Vcctl, family: str) -> None:
    result = vcctl("queue", "tree")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0].split()[:4] == ["Queue", "State", "Weight", "Share"]
    assert result.lines[1].startswith("root")
    mother = next(index for index, line in enumerate(result.lines) if f"{family}-mother" in line)
    assert f"└─ {family}-child" in result.lines[mother + 1]
    words = result.lines[mother].split()
    assert words[words.index(f"{family}-mother") + 1 :][:2] == ["Open", "5"]
    assert words[-1] == "cpu=8"


def test_the_tree_as_json_and_yaml(vcctl: Vcctl, family: str) -> None:
    (root,) = json.loads(vcctl("queue", "tree", "-o", "json").out)
    mother = next(child for child in root["children"] if child["name"] == f"{family}-mother")
    assert mother["capability"] == {"cpu": 8.0}
    assert [child["name"] for child in mother["children"]] == [f"{family}-child"]
    assert f"name: {family}-child" in vcctl("queue", "tree", "-o", "yaml").out


def test_another_format_is_a_usage_error(vcctl: Vcctl) -> None:
    result = vcctl("queue", "tree", "-o", "wide")
    assert (result.code, result.out) == (2, "")
    assert "json, yaml" in result.err
