"""Recorded runs tell how long jobs run that are no longer in the cluster."""

from typing import Any

from tests.accounting.builders import run as recorded
from tests.analysis.estimate.test_estimates import CONFIG, HOUR, made, running, state_of
from tests.builders import START
from volcano.accounting.api import Outcome, Run
from volcano.analysis.estimate.estimates import estimate
from volcano.analysis.estimate.recorded_runs import add_recorded
from volcano.analysis.estimate.run_history import RunHistory, key_of_job
from volcano.analysis.rerun.state import ClusterState

STATE = state_of(running("a", "n1"), made("next", walltime="3h"))


def past(number: int, seconds: float, pods: int = 1, **fields: Any) -> list[Run]:
    """Runs of the pods of a deleted job like those of the state, in the units of accounting."""
    usual = {"namespace": "default", "queue": "default", "user": "ann", "requests": {"cpu": 4.0}}
    return [
        recorded(
            f"u{number}-{pod}",
            at=START - 10 * HOUR + number,
            hours=seconds / HOUR,
            **{**usual, "job": f"past-{number}", "job_uid": f"j{number}", **fields},
        )
        for pod in range(pods)
    ]


def history_of(*jobs: list[Run], state: ClusterState = STATE) -> RunHistory:
    history = RunHistory()
    add_recorded(history, [run for runs in jobs for run in runs], state.snapshot())
    return history


def test_recorded_runs_are_those_of_similar_jobs_in_the_cluster() -> None:
    present = STATE.snapshot().jobs["default/a"]
    history = history_of(past(1, HOUR), past(2, 2 * HOUR), past(3, HOUR, pods=2))
    assert history.runs[key_of_job(present, present.tasks.values())] == [HOUR, 2 * HOUR]
    assert [len(found) for found in history.runs.values()] == [2, 1]


def test_a_start_is_expected_although_no_finished_pod_is_left() -> None:
    assert estimate(STATE, CONFIG, RunHistory(), START).get("default/next") is None
    found = estimate(STATE, CONFIG, history_of(*(past(n, HOUR + n) for n in range(10))), START)
    assert START + 0.4 * HOUR < found["default/next"].earliest < found["default/next"].latest
    assert found["default/next"].basis == "history"


def test_jobs_that_did_not_end_by_themselves_only_arrived() -> None:
    evicted = past(1, HOUR, outcome=Outcome.EVICTED)
    running_yet = past(2, HOUR, ended=None, outcome=Outcome.RUNNING)
    guessed = past(3, HOUR, estimated=True)
    history = history_of(evicted, running_yet, guessed)
    assert not history.runs
    assert len(history.arrivals) == 3


def test_jobs_that_are_still_in_the_cluster_are_not_counted_twice() -> None:
    history = history_of(past(1, HOUR, job="a"), past(2, HOUR, job="other"))
    assert len(history.arrivals) == 1


def test_arrivals_have_the_walltime_of_similar_jobs_of_the_cluster() -> None:
    history = history_of(past(1, HOUR))
    assert [arrival.walltime for arrival in history.arrivals] == [3 * HOUR]


def test_jobs_with_resources_that_the_cluster_does_not_know_are_left_out() -> None:
    history = history_of(past(1, HOUR, requests={"cpu": 4.0, "example.com/gone": 1.0}))
    assert not history.runs
    assert not history.arrivals
