"""Run times that are drawn for a forecast: as uncertain as few finished jobs leave them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.estimate.test_estimates import HOUR, estimates, made, running, runs, state_of
from tests.builders import START
from volcano.analysis.estimate.run_history import RunHistory, RunKey
from volcano.analysis.estimate.run_times import Draws, Expected, ExpectedRunTimes, RunTimes

KEY = RunKey("default", "ann", ((1, 4000.0),))
FUTURES = 120


def history_of(*seconds: float, walltime: float | None = None, key: RunKey = KEY) -> RunHistory:
    history = RunHistory()
    for each in seconds:
        history.add(key, each, walltime)
    return history


def expected_of(history: RunHistory, limit: float | None = None) -> Expected:
    found = ExpectedRunTimes(history).of(KEY, limit)
    assert found is not None
    return found


def drawn(expected: Expected, limit: float | None = None, seed: int = 1) -> list[float]:
    """One run time in each of many futures."""
    return [Draws(np.random.default_rng((seed, n))).run_time(expected, limit) for n in range(FUTURES)]


@pytest.mark.parametrize("finished", [3, 5, 20])
def test_the_next_job_runs_as_long_as_drawn_in_about_eight_of_ten_cases(finished: int) -> None:
    truth = np.random.default_rng(finished)
    inside = 0
    for trial in range(300):
        middle, spread = truth.uniform(300, 7200), truth.uniform(0.2, 0.8)
        *before, following = (middle * np.exp(spread * truth.standard_normal(finished + 1))).tolist()
        low, high = np.quantile(drawn(expected_of(history_of(*before)), seed=trial), (0.1, 0.9))
        inside += low <= following <= high
    assert 0.7 <= inside / 300 <= 0.9


def test_jobs_run_longer_than_the_longest_of_few_and_shorter_than_the_shortest() -> None:
    found = drawn(expected_of(history_of(1000.0, 1000.0, 1000.0)))
    assert min(found) < 1000 < max(found)
    assert max(found) < 3000


def test_the_spread_of_other_jobs_tells_that_of_a_job_with_few_runs() -> None:
    alike, varied = history_of(900.0, 1000.0, 1100.0), history_of(900.0, 1000.0, 1100.0)
    for number in range(40):
        alike.add(KEY._replace(user="bob"), 500.0 + number % 2)
        varied.add(KEY._replace(user="bob"), 500.0 * 8 ** (number % 3))
    assert np.std(np.log(drawn(expected_of(alike)))) < 0.6 * np.std(np.log(drawn(expected_of(varied))))


def test_similar_jobs_share_the_uncertainty_of_their_mean_in_one_future() -> None:
    expected = expected_of(history_of(500.0, 1000.0, 2000.0))
    means = []
    for number in range(FUTURES):
        draws = Draws(np.random.default_rng(number))
        means.append(np.mean([np.log(draws.run_time(expected, None)) for _ in range(50)]))
    assert np.std(means) > 0.2  # it would be near 0.1 if each job were drawn independently


def test_a_job_that_runs_longer_than_all_before_goes_on_in_proportion_to_its_age() -> None:
    expected = expected_of(history_of(*(1000.0 + n for n in range(20))))
    rest = [
        Draws(np.random.default_rng(n)).run_time_after(4 * HOUR, expected, None) - 4 * HOUR
        for n in range(FUTURES)
    ]
    assert min(rest) > 0
    assert 60 < np.quantile(rest, 0.9) < 4 * HOUR


@given(
    elapsed=st.floats(0, 1e5),
    limit=st.none() | st.floats(1, 1e5),
    values=st.lists(st.floats(1, 1e5), min_size=1, max_size=8),
    noise=st.floats(0.01, 2),
    seed=st.integers(0, 1000),
)
def test_a_running_job_ends_after_now_and_within_its_walltime(
    elapsed: float, limit: float | None, values: list[float], noise: float, seed: int
) -> None:
    expected = Expected(RunTimes(np.array(values), noise, noise), 1.0, by_history=True)
    found = Draws(np.random.default_rng(seed)).run_time_after(elapsed, expected, limit)
    assert found >= elapsed
    if limit is not None:
        assert found <= max(limit, elapsed + 1)
        assert Draws(np.random.default_rng(seed)).run_time(expected, limit) <= limit


def test_shares_of_the_walltime_tell_where_no_similar_job_ran() -> None:
    other = history_of(500.0, 500.0, 500.0, walltime=1000.0, key=KEY._replace(shape=((2, 4000.0),)))
    found = expected_of(other, limit=8000.0)
    assert not found.by_history
    assert 3000 < np.median(drawn(found, 8000.0)) < 5000


def test_the_interval_of_few_finished_jobs_is_wider_than_their_range() -> None:
    state = state_of(running("a", "n1"), made("next"))
    found = estimates(state, runs(state, "default/a", HOUR, HOUR + 60, HOUR + 120))["default/next"]
    assert START < found.earliest < START + HOUR < START + HOUR + 120 < found.latest
