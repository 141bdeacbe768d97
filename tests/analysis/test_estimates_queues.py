"""Expected starts of jobs that wait because of their queue: its capability is foreseen, other rules are not."""

from typing import Any

import pytest

from tests.analysis.estimate.test_estimates import HOUR, made, running
from tests.builders import START, JobManifests, node, queue, resources
from tests.scenario import cluster_of, config
from volcano.analysis.estimate.estimates import Estimate, estimate
from volcano.analysis.estimate.run_history import RunHistory
from volcano.analysis.explain.case import Case
from volcano.analysis.explain.outlook import estimated, is_estimated
from volcano.analysis.rerun.state import ClusterState
from volcano.base.clock import parse_timestamp
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import BUDGET_ACTION, BUDGET_EXHAUSTED
from volcano.scheduler.engine.config import Config

PROPORTION = config()
CAPACITY = config(plugins=("priority", "gang", "predicates", "capacity"))


def state_of(*jobs: JobManifests, queues: list[Manifest], others: tuple[Manifest, ...] = ()) -> ClusterState:
    nodes = [node(f"n{i + 1}") for i in range(4)]
    cluster = cluster_of(nodes=nodes, jobs=jobs, queues=[queue("default"), *queues], others=others)
    return ClusterState(cluster, START)


def estimates(state: ClusterState, used: Config = PROPORTION) -> dict[str, Estimate]:
    """Estimates, after checking that `vcctl explain` says the same."""
    found = dict(estimate(state, used, RunHistory(), START))
    case = Case(state, used)
    for uid in case.diagnoses:
        shown = estimated(case, uid, RunHistory()) if is_estimated(case, uid) else None
        assert (shown is not None) == (uid in found)
        if shown is not None:
            assert abs(parse_timestamp(shown.latest) - found[uid].latest) <= 1
    return found


@pytest.mark.parametrize("used", [PROPORTION, CAPACITY], ids=["proportion", "capacity"])
def test_a_job_behind_the_capability_of_its_queue_waits_until_its_queue_holds_less(used: Config) -> None:
    state = state_of(
        running("a", "n1", "2h", since=HOUR, queue="small"),
        running("other", "n2", "1h", since=0.99 * HOUR),
        made("next", queue="small"),
        queues=[queue("small", capability=resources(cpu=4))],
    )
    found = estimates(state, used)["default/next"]
    assert found.latest > START + 600
    assert found.waits_for == ("default/a",)


def test_the_capability_of_a_queue_above_counts() -> None:
    state = state_of(
        running("a", "n1", "2h", since=HOUR, queue="left"),
        made("next", queue="right"),
        queues=[
            queue("team", capability=resources(cpu=4)),
            queue("left", parent="team"),
            queue("right", parent="team"),
        ],
    )
    hierarchy = config(
        plugins=("priority", "gang", "predicates", {"name": "capacity", "enabledHierarchy": True})
    )
    assert estimates(state, hierarchy)["default/next"].waits_for == ("default/a",)


def test_jobs_of_one_queue_wait_for_each_other() -> None:
    state = state_of(
        running("a", "n1", "1h", queue="small"),
        made("first", walltime="1h", age=20, queue="small"),
        made("second", walltime="1h", age=10, queue="small"),
        queues=[queue("small", capability=resources(cpu=4))],
    )
    found = estimates(state)
    assert found["default/first"].latest < found["default/second"].latest


def test_a_job_that_its_queue_may_never_take_has_no_start() -> None:
    state = state_of(
        running("a", "n1", "1h", queue="small"),
        made("next", 2, queue="small"),
        queues=[queue("small", capability=resources(cpu=4))],
    )
    assert "default/next" not in estimates(state)


def exhausted(name: str) -> Manifest:
    found = queue(name, annotations={BUDGET_ACTION: "block"})
    found["status"]["conditions"] = [
        {"type": BUDGET_EXHAUSTED, "status": "True", "message": "budget 10 is used up"}
    ]
    return found


@pytest.mark.parametrize("name", ["closed", "exhausted"])
def test_nothing_is_claimed_for_jobs_of_a_closed_queue_or_one_without_budget(name: str) -> None:
    state = state_of(
        *(running(f"run-{i}", f"n{i}", "1h") for i in range(1, 5)),
        made("next", queue=name, age=20, phase="Pending"),
        made("behind", walltime="1h", age=10),
        queues=[queue("closed", state="Closed"), exhausted("exhausted")],
    )
    found = estimates(state, config(plugins=("priority", "gang", "predicates")))
    assert "default/next" not in found
    assert "default/behind" in found


def test_nothing_is_claimed_for_a_job_that_exceeds_a_quota() -> None:
    quota: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default", "uid": "q", "resourceVersion": "1"},
        "spec": {"hard": {"cpu": "4"}},
        "status": {"hard": {"cpu": "4"}, "used": {"cpu": "4"}},
    }
    state = state_of(
        *(running(f"run-{i}", f"n{i}", "1h") for i in range(1, 5)),
        made("next", min_resources=resources(cpu=4), phase="Pending"),
        queues=[],
        others=(quota,),
    )
    used = config(plugins=("priority", "gang", "predicates", "resourcequota"))
    assert "default/next" not in estimates(state, used)
    assert "default/next" in estimates(state)
