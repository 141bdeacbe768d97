"""Division by weight: exact shares, minimums, maximums, and trees of queues."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.model.shares.division import (
    QueueDemand,
    divide_by_weight,
    subtree_demands,
    weighted_shares,
)


def shares_of(total: float, rows: list[tuple[float, float, float]]) -> list[float]:
    """Shares of one resource for rows of (weight, minimum, maximum)."""
    weights, minimums, maximums = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    shares: list[float] = weighted_shares(np.array([total]), weights, minimums[:, None], maximums[:, None])[
        :, 0
    ].tolist()
    return shares


@pytest.mark.parametrize(
    ("total", "rows", "shares"),
    [
        pytest.param(
            100, [(3, 0, 99), (1, 0, 99), (1, 0, 99)], [60, 20, 20], id="all request more: weight over total"
        ),
        pytest.param(
            12, [(1, 0, 2), (1, 0, 20)], [2, 10], id="what one queue does not ask for goes to the other"
        ),
        pytest.param(12, [(1, 0, 2), (1, 0, 6)], [2, 6], id="a capability leaves the rest unassigned"),
        pytest.param(10, [(1, 6, 6), (1, 0, 9), (1, 0, 9)], [6, 2, 2], id="a guarantee comes first"),
        pytest.param(10, [(1, 0, 0), (4, 0, 99)], [0, 10], id="an idle queue's share is borrowed"),
        pytest.param(10, [(0, 0, 99), (1, 0, 99)], [0, 10], id="no weight, no share"),
        pytest.param(
            10, [(1, 8, 8), (1, 8, 20)], [8, 8], id="guarantees beyond the cluster are promised all the same"
        ),
    ],
)
def test_shares(total: float, rows: list[tuple[float, float, float]], shares: list[float]) -> None:
    assert shares_of(total, rows) == pytest.approx(shares)


def shares_by_bisection(total: float, rows: list[tuple[float, float, float]]) -> list[float]:
    """The scalar twin: raise one level by halving steps until the shares spend the total."""

    def at(level: float) -> list[float]:
        return [min(max(level * weight, minimum), max(maximum, minimum)) for weight, minimum, maximum in rows]

    low, high = 0.0, 1e7
    if sum(at(high)) <= total:
        return at(high)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) <= total else (low, middle)
    return at(low)


ROWS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(0, 200)).map(
        lambda row: (float(row[0]), float(row[1]), float(row[2]))
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(total=st.integers(0, 500), rows=ROWS)
def test_shares_agree_with_bisection(total: int, rows: list[tuple[float, float, float]]) -> None:
    assert shares_of(total, rows) == pytest.approx(shares_by_bisection(total, rows), abs=1e-6)


@settings(deadline=None)
@given(total=st.integers(0, 500), rows=ROWS)
def test_no_more_is_given_than_there_is_except_by_guarantee(
    total: int, rows: list[tuple[float, float, float]]
) -> None:
    assert sum(shares_of(total, rows)) <= max(total, sum(minimum for _, minimum, _ in rows)) + 1e-6


DEPARTMENTS = {"root": ["dept-a", "dept-b"], "dept-a": ["team-a1", "team-a2"], "dept-b": ["team-b1"]}
WEIGHTS = {"dept-a": 3, "dept-b": 2, "team-a1": 2, "team-a2": 1, "team-b1": 1}


def departments(**requests: float) -> dict[str, float]:
    """Shares of 90 cpus of the documented tree when the teams request this much."""
    own = {
        name: QueueDemand(weight, np.zeros(1), np.array([requests.get(name.replace("-", "_"), 90.0)]))
        for name, weight in WEIGHTS.items()
    }
    demands = subtree_demands(own, DEPARTMENTS, "root")
    shares = divide_by_weight(np.array([90.0]), demands, DEPARTMENTS, "root")
    return {name: float(share[0]) for name, share in shares.items()}


def test_each_parent_divides_its_share_among_its_children() -> None:
    shares = departments()
    assert shares["dept-a"] == pytest.approx(90 * 3 / 5)
    assert shares["team-a1"] == pytest.approx(90 * 3 / 5 * 2 / 3)
    assert shares["team-a2"] == pytest.approx(90 * 3 / 5 * 1 / 3)
    assert shares["team-b1"] == pytest.approx(90 * 2 / 5)


def test_siblings_borrow_first() -> None:
    shares = departments(team_a2=0)
    assert shares["team-a1"] == pytest.approx(54), "the whole department's share"
    assert shares["team-b1"] == pytest.approx(36), "nothing leaves the department"


def test_what_a_department_leaves_goes_to_the_other() -> None:
    shares = departments(team_a1=10, team_a2=5)
    assert (shares["team-a1"], shares["team-a2"]) == pytest.approx((10, 5))
    assert shares["team-b1"] == pytest.approx(75)
