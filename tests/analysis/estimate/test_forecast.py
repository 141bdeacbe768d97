"""What the forecast of expected starts takes into account: reservations of nodes, and jobs that arrive later."""

import pytest

from tests.analysis.estimate.test_estimates import CONFIG, HOUR, made, running, runs, state_of
from tests.builders import START
from tests.scenario import config
from volcano.analysis.estimate.estimates import FEWEST_ARRIVALS, arrivals, estimate
from volcano.analysis.estimate.run_history import Arrival, RunHistory, key_of_job
from volcano.analysis.estimate.run_times import ExpectedRunTimes
from volcano.analysis.rerun.state import ClusterState

NO_RESERVATIONS = config(plugins=("priority", "gang", "predicates"))


def test_a_small_job_uses_the_nodes_that_are_not_kept_for_a_gang() -> None:
    state = state_of(
        *(running(f"a{i}", f"n{i}", since=HOUR) for i in range(1, 5)),
        made("gang", 2, age=900),
        made("small", age=10),
        nodes=4,
    )
    history = runs(state, "default/a1", *(2 * HOUR + 180 * i for i in range(60)))
    found = estimate(state, CONFIG, history, START)
    assert found["default/small"].earliest < found["default/gang"].earliest


def test_a_job_that_would_outlast_the_start_of_a_gang_does_not_pass_it() -> None:
    state = state_of(
        running("soon", "n1", "1h", since=0.9 * HOUR),
        running("late", "n2", "1h"),
        made("gang", 2, "1h", age=60),
        made("short", walltime="10m", age=20),
        made("long", walltime="5h", age=10),
        nodes=2,
    )
    found = estimate(state, CONFIG, RunHistory(), START)
    assert found["default/short"].earliest <= START + 0.1 * HOUR
    assert found["default/long"].earliest > found["default/gang"].earliest
    assert found["default/gang"].latest <= START + HOUR + 1


def with_arrivals(state: ClusterState, priority: int) -> RunHistory:
    """A history in which a job of an hour arrived every hour and a half."""
    known = state.snapshot().jobs["default/a"]
    history, key = RunHistory(), key_of_job(known, known.tasks.values())
    history.arrivals = [Arrival(START - 5400 * i, key, HOUR, priority) for i in range(30, 0, -1)]
    return history


@pytest.mark.parametrize(("priority", "delayed"), [(10, True), (0, False)])
def test_jobs_that_will_arrive_delay_those_of_lower_priority(priority: int, delayed: bool) -> None:
    state = state_of(running("a", "n1", "1h"), made("next"))
    alone = estimate(state, NO_RESERVATIONS, RunHistory(), START)["default/next"]
    found = estimate(state, NO_RESERVATIONS, with_arrivals(state, priority), START)
    assert found.get("default/next") == alone if not delayed else found.get("default/next") != alone
    if delayed and "default/next" in found:
        assert found["default/next"].latest > alone.latest


def test_small_jobs_that_will_arrive_delay_a_gang_without_reservations() -> None:
    state = state_of(running("a", "n1", "1h"), running("b", "n2", "1h"), made("gang", 2), nodes=2)
    alone = estimate(state, NO_RESERVATIONS, RunHistory(), START)["default/gang"]
    found = estimate(state, NO_RESERVATIONS, with_arrivals(state, 0), START).get("default/gang")
    assert found is None or found.latest > alone.latest
    kept = estimate(state, CONFIG, with_arrivals(state, 0), START)["default/gang"]
    assert kept.latest <= START + HOUR + 1


def test_the_estimate_of_a_job_does_not_depend_on_which_others_are_asked_for() -> None:
    state = state_of(
        running("a", "n1", "1h"), made("first", walltime="1h", age=20), made("second", walltime="1h", age=10)
    )
    whole = estimate(state, CONFIG, RunHistory(), START)
    for uid, expected in whole.items():
        assert estimate(state, CONFIG, RunHistory(), START, only=(uid,)) == {uid: expected}


@pytest.mark.parametrize("has_minimum", [True, False])
def test_jobs_that_will_arrive_wait_for_admission_only_if_jobs_do_that_arrived(has_minimum: bool) -> None:
    waiting = made("next", min_resources={"cpu": "4"} if has_minimum else None)
    state = state_of(running("a", "n1", "1h"), waiting)
    snapshot, history = state.snapshot(), RunHistory()
    known = snapshot.jobs["default/next"]
    for _ in range(FEWEST_ARRIVALS):
        history.arrived(known, known.tasks.values())
    run_times = ExpectedRunTimes(runs(state, "default/a", HOUR, HOUR, HOUR))
    found = arrivals(snapshot, history, run_times, START + HOUR)
    assert [example.minimum is not None for example in found.examples] == [has_minimum] * FEWEST_ARRIVALS


def test_a_job_of_unknown_run_time_is_expected_to_end_as_jobs_of_all_kinds() -> None:
    state = state_of(
        running("a", "n1", "1h"), made("strange", user="bob", age=20), made("next", walltime="1h", age=10)
    )
    history = runs(state, "default/a", *(HOUR + 10 * n for n in range(10)))
    found = estimate(state, NO_RESERVATIONS, history, START)
    assert found["default/next"].earliest > found["default/strange"].latest
    assert START + HOUR < found["default/next"].latest < START + 5 * HOUR


def test_nothing_is_claimed_where_run_times_of_most_that_runs_are_unknown() -> None:
    state = state_of(running("a", "n1", user="bob"), made("next"))
    other = state_of(running("a", "n1"), made("next"))
    assert not estimate(state, NO_RESERVATIONS, runs(other, "default/a", HOUR, HOUR, HOUR), START)
