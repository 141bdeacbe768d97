"""Trees of queues: paths, guarantees and limits."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.model.queue import Queue
from volcano.model.resources import ResourceIndex
from volcano.model.shares.tree import build_tree, capability, guarantees, real_capabilities
from volcano.scheduler.queue_shares.queue_usage import count_within, over_share

INDEX = ResourceIndex()
TOTAL = INDEX.vector({"cpu": 10_000.0, "memory": 100.0, "pods": 50.0})


def queues(**given: Any) -> dict[str, Queue]:
    return {name: Queue(name, **fields) for name, fields in given.items()}


def test_paths_lead_from_a_queue_up() -> None:
    tree = build_tree(queues(root={}, a={"parent": "root"}, b={"parent": "a"}, c={}))
    assert tree.path("b") == ("b", "a")
    assert tree.path("c") == ("c",)
    assert tree.path("root") == ()
    assert [tree.is_leaf(name) for name in ("a", "b", "c")] == [False, True, True]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param(
            {"a": {"parent": "gone"}}, "the parent 'gone' of queue 'a' does not exist", id="missing"
        ),
        pytest.param(
            {"a": {"parent": "b"}, "b": {"parent": "a"}}, "queue 'a' is its own ancestor", id="circle"
        ),
        pytest.param({"a": {"parent": "a"}}, "queue 'a' is its own ancestor", id="itself"),
    ],
)
def test_broken_parents_are_told_and_hang_under_the_root(given: dict[str, Any], problem: str) -> None:
    tree = build_tree(queues(**given))
    assert problem in tree.problems
    assert tree.path("a")[-1] == "a"


def test_a_flat_tree_knows_no_parents() -> None:
    tree = build_tree(queues(a={}, b={"parent": "a"}), flat=True)
    assert tree.path("b") == ("b",)


def test_a_parent_is_promised_at_least_what_its_children_are() -> None:
    tree = build_tree(
        queues(
            p={"guarantee": {"cpu": 3000.0}},
            a={"parent": "p", "guarantee": {"cpu": 2000.0}},
            b={"parent": "p", "guarantee": {"cpu": 2000.0}},
        )
    )
    assert guarantees(tree, INDEX)["p"][0] == 4000


def test_what_a_queue_may_have_is_its_parents_less_its_siblings_promises() -> None:
    tree = build_tree(
        queues(
            p={"capability": {"cpu": 6000.0}},
            a={"parent": "p"},
            b={"parent": "p", "guarantee": {"cpu": 2000.0}},
            q={"guarantee": {"cpu": 1000.0}},
        )
    )
    limits = real_capabilities(tree, INDEX, TOTAL, guarantees(tree, INDEX))
    assert [limits[name][0] for name in ("p", "a", "b", "q")] == [6000, 4000, 6000, 8000]


def test_no_cpu_in_a_capability_means_any_cpu() -> None:
    limit = capability(Queue("q", capability={"cpu": 0.0, "memory": 5.0, "pods": 0.0}), INDEX)
    assert (limit[0], limit[1], limit[2]) == (np.inf, 5, 0)


def counted_one_by_one(parts: tuple[tuple[int, float], ...], held: list[float], limit: list[float]) -> int:
    """The scalar twin: add one task after the other while it fits."""
    count = 0
    while count < 200 and all(held[c] + (count + 1) * amount <= limit[c] + 1e-6 for c, amount in parts):
        count += 1
    return count


@settings(deadline=None)
@given(
    amounts=st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 9)), min_size=1, max_size=2, unique_by=lambda p: p[0]
    ),
    held=st.lists(st.integers(0, 40), min_size=2, max_size=2),
    limit=st.lists(st.integers(0, 40), min_size=2, max_size=2),
)
def test_how_many_fit_agrees_with_adding_one_by_one(
    amounts: list[tuple[int, int]], held: list[int], limit: list[int]
) -> None:
    parts = tuple((column, float(amount)) for column, amount in amounts)
    found = count_within(parts, np.array(held, dtype=float), np.array(limit, dtype=float))
    assert found == counted_one_by_one(parts, [float(x) for x in held], [float(x) for x in limit])


@settings(deadline=None)
@given(held=st.integers(0, 30), deserved=st.integers(0, 20), tolerance=st.sampled_from((0.0, 0.2, 1.0)))
def test_a_queue_exceeds_its_share_by_more_than_it_tolerates(
    held: int, deserved: int, tolerance: float
) -> None:
    parts = ((0, 1.0),)
    over = over_share(np.array([held], float), parts, np.array([deserved], float), tolerance)
    assert over == (held > deserved * (1 + tolerance) + 0.1)
