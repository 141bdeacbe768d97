"""What the forecast of expected starts takes into account: reservations of nodes, and jobs that arrive later."""

import pytest

from tests.analysis.test_estimates import CONFIG, HOUR, made, running, runs, state_of
from tests.builders import START
from tests.scenario import config
from volcano.analysis.estimates import estimate
from volcano.analysis.run_history import Arrival, RunHistory, key_of_job
from volcano.analysis.state import ClusterState

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
