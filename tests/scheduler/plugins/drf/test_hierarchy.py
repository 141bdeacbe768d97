"""Hierarchical fairness: the order of queues in a tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.scheduler.plugins.drf.hierarchy import Hierarchy, parse_path


def fill_by_fairness(
    pods: dict[str, tuple[float, float]], paths: dict[str, tuple[str, str]]
) -> dict[str, int]:
    """Ten pods per queue on 10 cpus and 10 G: always the queue that goes first gets one, until nothing fits."""
    total = np.array([10.0, 10.0])
    tree = Hierarchy(total)
    for queue, (path, weights) in paths.items():
        tree.add_queue(queue, *parse_path(queue, 1, path, weights))
        tree.add_job(queue, queue, 10 * np.array(pods[queue]), np.zeros(2))
    tree.recompute()
    free, placed, waiting = total.copy(), dict.fromkeys(pods, 0), set(pods)
    while waiting:
        first = min(sorted(waiting), key=tree.key)
        request = np.array(pods[first])
        if placed[first] == 10 or (request > free).any():
            waiting.discard(first)
            continue
        free -= request
        placed[first] += 1
        tree.update(first, placed[first] * request)
    return placed


def test_unused_resources_of_a_group_do_not_cost_its_members() -> None:
    placed = fill_by_fairness(
        pods={"sci": (1, 1), "dev": (1, 0), "prod": (0, 1)},
        paths={
            "sci": ("root/sci", "100/50"),
            "dev": ("root/eng/dev", "100/50/50"),
            "prod": ("root/eng/prod", "100/50/50"),
        },
    )
    assert all(abs(count - 5) <= 1 for count in placed.values()), placed


def test_a_heavier_branch_gets_more() -> None:
    placed = fill_by_fairness(
        pods={"a": (1, 0), "b": (1, 0)}, paths={"a": ("root/a", "100/60"), "b": ("root/b", "100/20")}
    )
    assert abs(placed["a"] - 7.5) <= 1
    assert placed["a"] + placed["b"] == 10


@pytest.mark.parametrize(
    ("hierarchy", "weights", "expected"),
    [
        pytest.param("root/sci/dev", "100/50/20", (["root", "sci", "dev"], [100, 50, 20]), id="as annotated"),
        pytest.param("root/sci", "100/0.5", (["root", "sci"], [100, 1]), id="below one counts as one"),
        pytest.param("root/sci", "100/many", (["root", "sci"], [100, 1]), id="not a number counts as one"),
        pytest.param(
            "root/sci/dev", "100", (["root", "sci", "dev"], [100, 1, 1]), id="missing levels count as one"
        ),
        pytest.param("sci", "5", (["root", "sci"], [1, 5]), id="the root may be left out"),
        pytest.param("", "", (["root", "q"], [1, 7]), id="no annotation: under the root by its own weight"),
    ],
)
def test_paths(hierarchy: str, weights: str, expected: tuple[list[str], list[float]]) -> None:
    assert parse_path("q", 7, hierarchy, weights) == expected


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_updating_one_job_agrees_with_recomputing_everything(steps: list[tuple[int, int, int]]) -> None:
    def tree() -> Hierarchy:
        made = Hierarchy(np.array([12.0, 12.0]))
        for queue, path in (("a", "root/x/a"), ("b", "root/x/b"), ("c", "root/c"), ("d", "root/x/y/d")):
            made.add_queue(queue, *parse_path(queue, 1, path, "1/2/1/1"))
            made.add_job(queue, queue, np.array([6.0, 6.0]), np.zeros(2))
        made.recompute()
        return made

    updated, recomputed = tree(), tree()
    for job, cpu, memory in steps:
        updated.update("abcd"[job], np.array([cpu, memory], dtype=float))
        recomputed.update("abcd"[job], np.array([cpu, memory], dtype=float))
        recomputed.recompute()
    assert [updated.share(queue) for queue in "abcd"] == pytest.approx(
        [recomputed.share(queue) for queue in "abcd"]
    )
