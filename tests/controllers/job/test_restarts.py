"""Restarts, retries and how a job ends."""

from typing import Any

import pytest

from tests.controllers.job.test_policies import phases_of
from tests.controllers.job.world import command, job, policy, running, task
from volcano.base.clock import Instant
from volcano.controllers.job.phases import next_phase
from volcano.controllers.job.spec import parse_job
from volcano.controllers.job.status import Counts, Status, transition
from volcano.controllers.job.types import Phase
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.operations import Patch


def stand(phase: Phase, counts: dict[str, int], **fields: Any) -> Status:
    tasks = {"main": {name: count for name, count in counts.items() if name != "Terminating"}}
    return Status(phase=phase, counts=Counts(counts, tasks), **fields)


def spec(replicas: int = 5, minimum: int = 3, **fields: Any) -> Any:
    manifest = job(tasks=[task(replicas=replicas, minAvailable=0)], minAvailable=minimum, **fields)
    return parse_job(manifest, scheduler_name="volcano")


def test_a_job_that_keeps_failing_ends_failed_with_its_last_try_left_for_inspection() -> None:
    tasks = [task("endless", 1), task("failing", 1)]
    cluster = running(job(tasks=tasks, maxRetry=2, policies=[policy("PodFailed", "RestartJob")]))
    cluster.finish("j-failing-0", phase="Failed", exit_code=1)
    cluster.settle()
    assert cluster.phase("j") == "Running"
    cluster.finish("j-failing-0", phase="Failed", exit_code=1)
    cluster.settle()
    status = cluster.job("j")["status"]
    assert (cluster.phase("j"), status["retryCount"], status["failed"]) == ("Failed", 2, 1)
    (left,) = cluster.pods()
    assert left["metadata"]["name"] == "j-failing-0"
    assert "deletionTimestamp" not in left["metadata"]


def test_completing_by_policy_costs_no_retry_and_keeps_what_succeeded() -> None:
    tasks = [task("short", 1, policies=[policy("TaskCompleted", "CompleteJob")]), task("endless", 1)]
    cluster = running(job(tasks=tasks))
    cluster.finish("j-short-0")
    cluster.settle()
    assert cluster.phase("j") == "Completed"
    assert "retryCount" not in cluster.job("j")["status"]
    assert cluster.pod_names() == ["j-short-0"]


def test_enough_successes_complete_a_job_though_others_still_run() -> None:
    cluster = running(job(tasks=[task("short", 3), task("endless")], minSuccess=2))
    cluster.finish("j-short-0")
    assert cluster.phase("j") == "Running"
    cluster.finish("j-short-1")
    assert cluster.phase("j") == "Completed"
    cluster.settle()
    assert cluster.pod_names() == ["j-short-0", "j-short-1"]


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        pytest.param({"Pending": 5}, "Pending", id="all pending"),
        pytest.param({"Pending": 3, "Running": 2}, "Pending", id="too many pending"),
        pytest.param(
            {"Pending": 2, "Running": 1, "Succeeded": 1, "Failed": 1}, "Running", id="few enough pending"
        ),
    ],
)
def test_a_running_job_with_too_many_pending_pods_is_pending_again(
    counts: dict[str, int], phase: str
) -> None:
    assert next_phase(spec(), stand(Phase.RUNNING, counts)) == phase


@pytest.mark.parametrize("minimum", [0, 1, 2])
def test_all_pods_succeeded_is_completed(minimum: int) -> None:
    assert next_phase(spec(2, minimum), stand(Phase.RUNNING, {"Succeeded": 2})) == "Completed"
    assert next_phase(spec(2, minimum), stand(Phase.RUNNING, {"Succeeded": 1, "Running": 1})) == "Running"


@pytest.mark.parametrize(
    ("fields", "counts", "phase"),
    [
        pytest.param({"minSuccess": 3}, {"Succeeded": 3, "Running": 2}, "Completed", id="enough succeeded"),
        pytest.param({"minSuccess": 4}, {"Succeeded": 3, "Failed": 2}, "Failed", id="too few succeeded"),
        pytest.param({}, {"Succeeded": 3, "Failed": 2}, "Completed", id="the minimum succeeded"),
        pytest.param({}, {"Succeeded": 2, "Failed": 3}, "Failed", id="less than the minimum succeeded"),
    ],
)
def test_how_a_job_ends_when_its_pods_have(fields: Any, counts: dict[str, int], phase: str) -> None:
    assert next_phase(spec(**fields), stand(Phase.RUNNING, counts)) == phase


def test_a_task_that_misses_its_own_minimum_fails_the_job() -> None:
    tasks = [task("a", 2, minAvailable=2), task("b", 2, minAvailable=1)]
    parsed = parse_job(job(tasks=tasks, minAvailable=3), scheduler_name="volcano")
    by_task = {"a": {"Succeeded": 1, "Failed": 1}, "b": {"Succeeded": 2}}
    status = Status(phase=Phase.RUNNING, counts=Counts({"Succeeded": 3, "Failed": 1}, by_task))
    assert next_phase(parsed, status) == "Failed"


def test_a_job_without_pods_to_have_keeps_its_phase() -> None:
    assert next_phase(spec(0, 0), stand(Phase.RUNNING, {})) == "Running"


def test_a_job_that_has_used_up_its_retries_fails() -> None:
    assert next_phase(spec(maxRetry=2), stand(Phase.RESTARTING, {}, retries=2)) == "Failed"


def test_a_restarting_job_with_room_for_its_gang_is_pending() -> None:
    enough = stand(Phase.RESTARTING, {"Terminating": 2}, retries=1, min_available=3)
    short = stand(Phase.RESTARTING, {"Terminating": 3}, retries=1, min_available=3)
    assert next_phase(spec(), enough) == "Pending"
    assert next_phase(spec(), short) == "Restarting"


def test_an_aborting_job_is_aborted_when_the_last_pod_is_gone() -> None:
    cluster = running(job())
    command(cluster, "AbortJob")
    assert (cluster.phase("j"), cluster.job("j")["status"]["terminating"]) == ("Aborting", 2)
    cluster.evict("j-main-0")
    cluster.advance(1)
    assert (cluster.phase("j"), cluster.job("j")["status"]["terminating"]) == ("Aborting", 1)
    cluster.reap()
    assert cluster.phase("j") == "Aborted"


def test_an_aborted_job_is_resumed_by_way_of_restarting() -> None:
    cluster = running(job())
    command(cluster, "AbortJob")
    cluster.settle()
    command(cluster, "ResumeJob")
    cluster.settle()
    assert phases_of(cluster)[2:] == ["Aborting", "Aborted", "Restarting", "Pending", "Running"]


def test_a_completing_job_is_completed_when_the_last_pod_is_gone() -> None:
    cluster = running(job())
    command(cluster, "CompleteJob")
    assert cluster.phase("j") == "Completing"
    cluster.reap()
    assert cluster.phase("j") == "Completed"


def test_a_phase_that_comes_again_is_one_condition_and_the_last() -> None:
    parsed = spec()
    status = Status(phase=Phase.NONE)
    for second, phase in enumerate((Phase.PENDING, Phase.RUNNING, Phase.PENDING, Phase.RUNNING)):
        status = transition(status, phase, parsed, Instant(second, second))
    assert [c["status"] for c in status.conditions] == ["Pending", "Running"]
    assert [c["lastTransitionTime"][-3:-1] for c in status.conditions] == ["02", "03"]


def test_a_restarting_job_stays_so_until_its_new_podgroup_is_let_in() -> None:
    """Kept from the reference: the pods that are going are only counted afresh once the gang is let in."""
    cluster = running(job(policies=[policy("PodFailed", "RestartJob")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.reap()
    cluster.advance(60)
    assert (cluster.phase("j"), cluster.pods()) == ("Restarting", [])
    cluster.admit()
    assert cluster.phase("j") == "Pending"
    assert cluster.pod_names() == ["j-main-0", "j-main-1"]


def test_a_restart_leaves_nothing_of_the_round_before() -> None:
    cluster = running(job(tasks=[task(replicas=3)], policies=[policy("PodFailed", "RestartJob")]))
    before = {pod["metadata"]["uid"] for pod in cluster.pods()}
    group = cluster.group("j")
    cluster.finish("j-main-0")
    cluster.finish("j-main-1", phase="Failed", exit_code=1)
    cluster.settle()
    assert not before & {pod["metadata"]["uid"] for pod in cluster.pods()}
    new = cluster.group("j")
    assert group is not None
    assert new is not None
    assert group["metadata"]["name"] == new["metadata"]["name"]
    assert group["metadata"]["uid"] != new["metadata"]["uid"]


def test_a_failed_pod_without_a_policy_stays_and_counts() -> None:
    cluster = running(job())
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.settle()
    cluster.advance(1)
    assert (cluster.phase("j"), cluster.job("j")["status"]["failed"]) == ("Running", 1)
    cluster.finish("j-main-1")
    status = cluster.job("j")["status"]
    assert (cluster.phase("j"), status["succeeded"], status["failed"]) == ("Failed", 1, 1)


@pytest.mark.parametrize(
    ("action", "terminating", "still_running"),
    [("RestartPod", 1, 3), ("RestartTask", 2, 2), ("RestartJob", 4, 0)],
)
def test_a_restart_is_reported_with_its_terminating_pods_in_one_write(
    action: str, terminating: int, still_running: int
) -> None:
    tasks = [task("a", policies=[policy("PodFailed", action)]), task("b")]
    cluster = running(job(tasks=tasks, minAvailable=4))
    since = len(cluster.log)
    cluster.finish("j-a-0", phase="Failed", exit_code=1)
    (first, *_) = [
        op.patch["status"] for op in cluster.log[since:] if isinstance(op, Patch) and op.kind is JOB
    ]
    assert first["state"]["phase"] == "Restarting"
    assert first["terminating"] == terminating
    assert (first["running"] or 0) == still_running
    assert "failed" not in first


@pytest.mark.parametrize("action", ["RestartPod", "RestartTask", "RestartJob"])
def test_an_evicted_pod_counts_as_a_retry_until_the_job_fails(action: str) -> None:
    cluster = running(job(tasks=[task(replicas=1)], maxRetry=2, policies=[policy("PodEvicted", action)]))
    cluster.remove(POD, Key("default", "j-main-0"), now=True)
    cluster.run()
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)
    cluster.remove(POD, Key("default", "j-main-0"), now=True)
    cluster.run()
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Failed", 2)


def test_pods_evicted_while_the_job_restarts_belong_to_the_same_retry() -> None:
    policies = [policy("PodEvicted", "RestartPod"), policy("PodFailed", "RestartTask")]
    cluster = running(job(tasks=[task("a"), task("b")], minAvailable=4, policies=policies))
    cluster.finish("j-a-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == "Restarting"
    cluster.remove(POD, Key("default", "j-b-0"), now=True)
    cluster.run()
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)
    assert cluster.pod_names() == ["j-a-0", "j-a-1", "j-b-0", "j-b-1"]
