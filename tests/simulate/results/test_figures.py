"""Figures of results: distributions, levels over time and fairness."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.simulate.results import distribution
from volcano.simulate.results.distribution import Distribution
from volcano.simulate.results.fragmentation import fragmentation
from volcano.simulate.results.recorder import bounded_slowdown, fair_shares
from volcano.simulate.results.summary import jain
from volcano.simulate.results.timeline import INTERVALS, Timeline
from volcano.simulate.workload import Requests


def of(values: list[float]) -> Distribution:
    found = Distribution()
    for value in values:
        found.add(value)
    return found


def test_quantiles_are_exact_for_few_values() -> None:
    found = of([float(value) for value in range(1, 101)])
    assert (found.mean, found.quantile(0.5), found.quantile(0.95), found.quantile(0.99)) == (50.5, 50, 95, 99)
    assert Distribution().quantile(0.5) == 0


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=200))
def test_quantiles_of_many_values_are_close(values: list[float]) -> None:
    exact = of(values).quantiles((0.1, 0.5, 0.99))
    few, distribution.EXACT = distribution.EXACT, 0
    try:
        close = of(values).quantiles((0.1, 0.5, 0.99))
    finally:
        distribution.EXACT = few
    assert close == pytest.approx(exact, rel=0.011, abs=1e-5)


@given(st.lists(st.tuples(st.floats(0.01, 5000), st.floats(0, 10)), min_size=1, max_size=60))
def test_a_timeline_keeps_the_integral_whatever_the_steps(steps: list[tuple[float, float]]) -> None:
    line, now, total = Timeline(1), 0.0, 0.0
    for length, level in steps:
        line.add(now, now + length, np.array([level]))
        now, total = now + length, total + length * level
    assert line.totals()[0] == pytest.approx(total, rel=1e-6, abs=1e-6)
    ends, levels = line.averages()
    assert len(ends) <= INTERVALS
    assert ends[-1] == pytest.approx(now)
    lengths = np.diff(ends, prepend=0.0)
    assert float((levels[:, 0] * lengths).sum()) == pytest.approx(total, rel=1e-6, abs=1e-6)


def test_what_one_queue_does_not_need_goes_to_the_others() -> None:
    weights = np.array([1.0, 1.0, 2.0])
    assert fair_shares(weights, np.array([5.0, 5.0, 5.0])).tolist() == pytest.approx([0.25, 0.25, 0.5])
    assert fair_shares(weights, np.array([0.1, 5.0, 0.3])).tolist() == pytest.approx([0.1, 0.6, 0.3])
    assert fair_shares(weights, np.zeros(3)).tolist() == [0, 0, 0]


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 2)), min_size=1, max_size=8))
def test_nobody_deserves_more_than_its_demand_nor_all_more_than_the_cluster(
    given_queues: list[tuple[float, float]],
) -> None:
    weights, demand = (np.array(column) for column in zip(*given_queues, strict=True))
    shares = fair_shares(weights, demand)
    assert (shares <= demand + 1e-9).all()
    assert shares.sum() == pytest.approx(min(1.0, float(demand.sum())), abs=1e-6)


def test_free_cards_without_cores_are_fragmented() -> None:
    free = np.array([[4.0, 1e12, 2.0], [0.5, 1e12, 2.0], [8.0, 1e12, 0.0]])
    one, two = Requests(cpu=1, gpus=1), Requests(cpu=1, gpus=2)
    assert fragmentation(free, {one: 1}) == pytest.approx(0.5)
    assert fragmentation(free, {one: 1, Requests(cpu=5, gpus=1): 1}) == pytest.approx(0.75)
    assert fragmentation(np.array([[4.0, 1.0, 1.5]]), {two: 3}) == 1
    assert fragmentation(free, {Requests(cpu=1): 1}) == pytest.approx(0.5 / 12.5)
    assert fragmentation(free, {}) == 0


def test_jain_index() -> None:
    assert jain([2, 2, 2]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([]) == 1


def test_short_jobs_do_not_have_huge_slowdowns() -> None:
    assert bounded_slowdown(9, 10) == 1
    assert bounded_slowdown(90, 100) == 10
