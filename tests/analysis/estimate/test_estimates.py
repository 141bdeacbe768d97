"""When jobs that wait are expected to start: from walltimes, from finished jobs, or nothing is claimed."""

from typing import Any

from tests.builders import START, JobManifests, job, node
from tests.scenario import cluster_of, config
from volcano.analysis.estimate.estimates import Estimate, estimate
from volcano.analysis.estimate.run_history import RunHistory, history_of_jobs, key_of_job, pod_ends
from volcano.analysis.rerun.state import ClusterState
from volcano.base.clock import timestamp
from volcano.kube.api.names import USER, WALLTIME
from volcano.model.snapshot import Snapshot

HOUR = 3600.0
CONFIG = config(plugins=("reservation", "priority", "gang", "predicates"))


def made(name: str, replicas: int = 1, walltime: str = "", user: str = "ann", **more: Any) -> JobManifests:
    annotations = {USER: user, **({WALLTIME: walltime} if walltime else {})}
    return job(name, replicas, cpu=4, group={"annotations": annotations}, **more)


def running(name: str, on: str, walltime: str = "", since: float = 0.0, **more: Any) -> JobManifests:
    found = made(name, 1, walltime, on=on, phase="Running", **more)
    found.pods[0]["status"]["startTime"] = timestamp(START - since)
    return found


def state_of(*jobs: JobManifests, nodes: int = 1) -> ClusterState:
    cluster = cluster_of(nodes=[node(f"n{i + 1}") for i in range(nodes)], jobs=jobs)
    return ClusterState(cluster, START)


def estimates(state: ClusterState, history: RunHistory | None = None) -> dict[str, Estimate]:
    return dict(estimate(state, CONFIG, history or RunHistory(), START))


def runs(state: ClusterState, uid: str, *seconds: float) -> RunHistory:
    """A history of jobs like one of the state."""
    history, found = RunHistory(), state.snapshot().jobs[uid]
    for each in seconds:
        history.add(key_of_job(found, found.tasks.values()), each)
    return history


def test_a_walltime_bounds_the_start_of_the_job_that_waits() -> None:
    found = estimates(state_of(running("a", "n1", "2h", since=HOUR), made("next")))["default/next"]
    assert START < found.earliest < found.latest <= START + HOUR + 1
    assert found.basis == "walltime"
    assert found.waits_for == ("default/a",)


def test_without_a_walltime_finished_jobs_of_the_same_queue_user_and_shape_tell() -> None:
    state = state_of(running("a", "n1", since=HOUR), made("next"))
    history = runs(state, "default/a", 2 * HOUR, 2.2 * HOUR, 2.1 * HOUR, 2.3 * HOUR)
    found = estimates(state, history)["default/next"]
    assert START + 0.6 * HOUR < found.earliest < found.latest < START + 2 * HOUR
    assert found.basis == "history"


def test_nothing_is_claimed_without_walltime_and_history() -> None:
    state = state_of(running("a", "n1"), made("next"))
    assert estimates(state) == {}
    other = state_of(running("b", "n1", user="bob"), made("next"))
    assert estimates(state, runs(other, "default/b", HOUR, HOUR, HOUR)) == {}


def test_a_second_job_waits_for_the_first_one_too() -> None:
    state = state_of(
        running("a", "n1", "1h"), made("first", walltime="1h", age=20), made("second", walltime="1h", age=10)
    )
    found = estimates(state)
    assert found["default/first"].latest < found["default/second"].latest
    assert found["default/second"].latest <= START + 2 * HOUR + 1


def test_a_gang_waits_until_all_of_its_pods_fit() -> None:
    state = state_of(
        running("short", "n1", "1h", since=0.999 * HOUR),
        running("long", "n2", "4h", since=3.9 * HOUR),
        made("gang", 2),
        nodes=2,
    )
    found = estimates(state)["default/gang"]
    assert START < found.latest <= START + 0.1 * HOUR + 1
    assert found.waits_for[0] == "default/long"


def test_a_job_that_fits_already_is_expected_now() -> None:
    found = estimates(state_of(made("next")))["default/next"]
    assert (found.earliest, found.latest) == (START, START)


def test_finished_pods_make_a_history() -> None:
    done = made("done", 2, "2h", phase="Completed", on=("n1", "n1"))
    for number, pod in enumerate(done.pods):
        pod["status"] = {
            "phase": "Succeeded",
            "startTime": timestamp(START - 2 * HOUR),
            "containerStatuses": [
                {"state": {"terminated": {"finishedAt": timestamp(START - HOUR + 60 * number)}}}
            ],
        }
    snapshot: Snapshot = cluster_of(nodes=[node("n1")], jobs=[done]).snapshot()
    history = history_of_jobs(snapshot.jobs.values(), pod_ends(done.pods))
    ((key, seconds),) = history.runs.items()
    assert (key.queue, key.user, seconds) == ("default", "ann", [HOUR + 60])
    assert history.shares["ann"] == [(HOUR + 60) / (2 * HOUR)]


def test_few_finished_jobs_are_not_enough() -> None:
    state = state_of(running("a", "n1"), made("next"))
    assert estimates(state, runs(state, "default/a", HOUR, HOUR)) == {}
    assert "default/next" in estimates(state, runs(state, "default/a", HOUR, HOUR, HOUR))
