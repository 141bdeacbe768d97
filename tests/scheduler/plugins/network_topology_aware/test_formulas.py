"""The formulas, on numbers that can be checked by hand, and against a scalar form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.model.resources import Vector
from volcano.scheduler.plugins.network_topology_aware.formulas import (
    filled,
    nearness,
    tier_weights,
    with_members,
)


def vector(*values: float) -> Vector:
    return np.array(values, dtype=float)


def test_a_domain_scores_by_its_usage_with_the_request() -> None:
    used = np.array([[2.0, 8.0], [0.0, 0.0], [14.0, 0.0]])
    allocatable = np.array([[16.0, 64.0]] * 3)
    found = filled(used, vector(4, 16), allocatable, vector(1, 1))
    assert found.tolist() == pytest.approx([(6 / 16 + 24 / 64) / 2, (4 / 16 + 16 / 64) / 2, 0.0])


def test_weights_decide_and_resources_without_weight_do_not_count() -> None:
    used, allocatable = np.array([[0.0, 8.0, 99.0]]), np.array([[8.0, 8.0, 1.0]])
    assert filled(used, vector(4, 0, 0), allocatable, vector(5, 1, 1)).tolist() == [0.5]
    assert filled(used, vector(0, 0, 1), allocatable, vector(5, 1, 0)).tolist() == [0.0]
    assert filled(np.array([[0.0, 0.0]]), vector(4, 2), np.array([[8.0, 8.0]]), vector(3, 1)).tolist() == [
        0.4375
    ]


def test_a_full_domain_still_counts_and_one_beyond_does_not() -> None:
    allocatable = np.array([[16.0], [16.0]])
    assert filled(np.array([[8.0], [9.0]]), vector(8), allocatable, vector(1)).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("fading", "weights"),
    [(0.5, [1.0, 0.5, 0.25]), (1.0, [1.0, 1.0, 1.0]), (0.0, [1.0, 0.0, 0.0])],
)
def test_higher_tiers_count_less(fading: float, weights: list[float]) -> None:
    assert tier_weights([1, 2, 3], fading).tolist() == weights


def test_nearness_falls_with_the_tier_in_common() -> None:
    assert nearness(np.array([1, 2, 3]), 1, 3).tolist() == [1.0, 0.5, 0.0]
    assert nearness(np.array([1, 1]), 1, 1).tolist() == [1.0, 1.0]


def test_members_decide_among_the_best_only() -> None:
    assert with_members(vector(0.5, 0.5, 0.2), vector(0.25, 0.75, 1)).tolist() == [0.75, 1.25, 0.2]
    assert with_members(vector(0.6, 0.5), vector(0.1, 0.9)).tolist() == [0.6, 0.5]


amounts = st.lists(st.integers(0, 20), min_size=2, max_size=2)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4), amounts, amounts)
def test_usage_equals_its_scalar_form(
    rows: list[tuple[list[int], list[int]]], request: list[int], weights: list[int]
) -> None:
    used, allocatable = (np.array([row[i] for row in rows], dtype=float) for i in range(2))
    found = filled(used, vector(*request), allocatable, vector(*weights))
    for row, score in zip(rows, found, strict=True):
        asked = [i for i in range(2) if request[i] and weights[i]]
        shares = [(row[0][i] + request[i]) / row[1][i] if row[1][i] else float("inf") for i in asked]
        fits = bool(asked) and all(share <= 1 + 1e-9 for share in shares)
        total = sum(weights[i] for i in asked)
        wanted = sum(s * weights[i] for s, i in zip(shares, asked, strict=True)) / total if fits else 0.0
        assert score == pytest.approx(wanted)
