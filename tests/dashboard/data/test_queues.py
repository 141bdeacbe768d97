"""Rows of the tree of queues."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.data.builders import node, objects, queue
from volcano.analysis.explain.queue import ShareRow
from volcano.cli.queue.tree import nested
from volcano.dashboard.data.queues import (
    SHARE_TITLES,
    QueueRow,
    find_queue,
    queue_rows,
    share_row,
    top_level,
    visible_rows,
)
from volcano.dashboard.objects import Objects

GPU = "nvidia.com/gpu"


def cluster() -> Objects:
    """Ten GPUs: `research` with `vision` and `nlp` has weight 3, `prod` weight 1 and `default` weight 1."""
    return objects(
        NODE=[node("node-0", {"cpu": "20", "memory": "100Gi", GPU: "10"})],
        QUEUE=[
            queue("root", allocated={GPU: "8"}),
            queue("default"),
            queue("prod", allocated={GPU: "1"}, guarantee={"resource": {GPU: "1"}}, capability={GPU: "5"}),
            queue("research", weight=3, allocated={GPU: "7"}),
            queue("vision", parent="research", allocated={GPU: "7"}),
            queue("nlp", parent="research"),
        ],
    )


def test_a_bar_has_the_amounts_of_the_queue() -> None:
    bar = next(bar for bar in found("prod").bars if bar.resource == GPU)
    assert (bar.allocated, bar.deserved, bar.guarantee, bar.capability, bar.total) == (
        1.0,
        2.0,
        1.0,
        5.0,
        10.0,
    )
    assert bar.text() == "1/2"
    assert bar.sentence() == (
        "gpu: 1 allocated, 2 deserved by weight, guarantee 1, capability 5, 0.3 lent, cluster 10"
    )


def test_a_queue_borrows_what_it_holds_beyond_its_share() -> None:
    assert found("vision").balance() == "borrows 4 gpu"
    assert found("research").balance() == "borrows 1 gpu"


def test_siblings_lend_in_proportion_to_what_they_do_not_use() -> None:
    assert found("default").balance() == "lends 0.7 gpu"
    assert found("nlp").balance() == "lends 3 gpu"


def test_no_queue_lends_when_none_borrows() -> None:
    idle = objects(
        NODE=[node("node-0", {"cpu": "4"})],
        QUEUE=[queue("root"), queue("a"), queue("b", allocated={"cpu": "2"})],
    )
    assert [row.balance() for row in queue_rows(idle)] == ["", "", ""]


def test_borrowing_inside_a_queue_is_not_lending_of_that_queue() -> None:
    inside = objects(
        NODE=[node("node-0", {"cpu": "10"})],
        QUEUE=[queue("root"), queue("a", allocated={"cpu": "4"}), queue("x", parent="a", allocated={"cpu": "4"}),
               queue("y", parent="a"), queue("z", parent="a"), queue("b")],
    )  # fmt: skip
    row = find_queue(inside, "a")
    assert row is not None
    assert row.balance() == ""


def test_rows_agree_with_the_command_line() -> None:
    given_objects = cluster()
    top = nested(given_objects.board.queues, given_objects.board.total)
    printed = {}
    pending = list(top)
    while pending:
        each = pending.pop()
        printed[each["name"]] = each
        pending += each["children"]
    rows = queue_rows(given_objects)
    assert {row.name for row in rows} == set(printed)
    for row in rows:
        assert round(row.share, 4) == printed[row.name]["share"]
        for bar in row.bars:
            assert bar.allocated == printed[row.name]["allocated"].get(bar.resource, 0.0)
            assert bar.deserved == printed[row.name]["deserved"].get(bar.resource)


def test_without_nodes_bars_show_what_queues_hold() -> None:
    rows = queue_rows(objects(QUEUE=[queue("root"), queue("a", allocated={GPU: "2"})]))
    assert [bar.text() for bar in rows[1].bars if bar.resource == GPU] == ["2"]


@pytest.mark.parametrize(
    ("collapsed", "text", "state", "names"),
    [
        pytest.param((), "", "", ["root", "default", "prod", "research", "nlp", "vision"], id="all"),
        pytest.param(("research",), "", "", ["root", "default", "prod", "research"], id="collapsed"),
        pytest.param(("root",), "", "", ["root"], id="everything collapsed"),
        pytest.param(("root",), "VIS", "", ["root", "research", "vision"], id="a match with its ancestors"),
        pytest.param((), "", "Closed", [], id="no match"),
    ],
)  # fmt: skip
def test_rows_are_hidden_below_collapsed_queues_and_by_filters(
    collapsed: tuple[str, ...], text: str, state: str, names: list[str]
) -> None:
    rows = queue_rows(cluster())
    assert [row.name for row in visible_rows(rows, collapsed=collapsed, text=text, state=state)] == names


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 40))
def test_siblings_lend_together_what_is_borrowed(held: list[int], cpus: int) -> None:
    queues = [queue(f"q{index}", allocated={"cpu": str(each)}) for index, each in enumerate(held)]
    rows = queue_rows(objects(NODE=[node("n", {"cpu": str(cpus)})], QUEUE=[queue("root"), *queues]))
    bars = [row.bars[0] for row in rows if row.name != "root"]
    unused = sum(max((bar.deserved or 0.0) - bar.allocated, 0.0) for bar in bars)
    assert sum(bar.lent for bar in bars) == pytest.approx(min(sum(bar.borrowed for bar in bars), unused))
    assert not any(bar.lent > 1e-9 and bar.borrowed > 1e-9 for bar in bars)


def test_a_queue_that_lends_to_others_has_children_that_lend() -> None:
    lending = objects(
        NODE=[node("node-0", {"cpu": "12"})],
        QUEUE=[queue("root"), queue("a", allocated={"cpu": "2"}), queue("x", parent="a", allocated={"cpu": "2"}),
               queue("y", parent="a"), queue("b", allocated={"cpu": "8"})],
    )  # fmt: skip
    assert {row.name: row.balance() for row in queue_rows(lending)} == {
        "root": "", "a": "lends 2 cpu", "x": "lends 0.5 cpu", "y": "lends 1.5 cpu", "b": "borrows 2 cpu",
    }  # fmt: skip


def found(name: str) -> QueueRow:
    row = find_queue(cluster(), name)
    assert row is not None
    return row


def test_the_top_level_is_what_divides_the_cluster() -> None:
    assert [row.name for row in top_level(queue_rows(cluster()))] == ["default", "prod", "research"]


def test_amounts_of_an_explanation_are_those_of_the_bars() -> None:
    zeros = dict.fromkeys((field.name for field in fields(ShareRow)), "0")
    row = ShareRow(**zeros | {"resource": GPU, "weight": "2/5", "by_weight": "102400m", "limit": "none"})
    texts = dict(zip(SHARE_TITLES, share_row(row), strict=True))
    assert (texts["Resource"], texts["Weight"], texts["By weight"], texts["Limit"]) == (
        "gpu", "2/5", "102", "none",
    )  # fmt: skip
    memory = share_row(replace(row, resource="memory", by_weight="7036874417766"))
    assert memory[3] == "6.4Ti"
