"""The interval of the benchmark of recording contains the true median as often as it claims."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.recording import Pair, median_interval


@pytest.mark.parametrize("number", [6, 7, 12, 13, 20, 31])
def test_the_interval_covers_the_median_in_95_of_100_samples_and_not_in_many_more(number: int) -> None:
    low, _ = median_interval(list(range(number)))
    skipped = int(low)

    def coverage(beyond: int) -> float:
        # The median is missed when at most `beyond` of the values are on one side of it.
        return float(1 - 2 * sum(comb(number, count) for count in range(beyond + 1)) / 2**number)

    assert coverage(skipped) >= 0.95 > coverage(skipped + 1)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_the_interval_lies_within_the_values_around_their_median(values: list[float]) -> None:
    low, high = median_interval(values)
    ordered = sorted(values)
    assert ordered[0] <= low <= ordered[len(values) // 2] <= high <= ordered[-1]


def test_the_cost_is_a_part_of_the_cpu_with_recording() -> None:
    assert Pair(without=0.95, recorded=1.0).percent == pytest.approx(5.0)
