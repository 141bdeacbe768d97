"""Policies: what happens, and what is done about it."""

from typing import Any

import pytest

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import command, controller, job, policy, running, submit, task, world
from volcano.controllers.job.policies import matches, resolve
from volcano.controllers.job.spec import Policy
from volcano.controllers.job.types import Action
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key


def phases_of(cluster: FakeCluster, name: str = "j") -> list[str]:
    """The phases a job has been in, from the writes that put it there."""
    states = [
        operation.patch.get("status", {}).get("state", {}).get("phase")
        for operation in cluster.log
        if operation.kind.kind == "Job" and operation.key.name == name and hasattr(operation, "patch")
    ]
    return [phase for phase in states if phase]


def test_a_failed_pod_may_restart_the_whole_job() -> None:
    cluster = running(job(tasks=[task("good"), task("bad")], policies=[policy("PodFailed", "RestartJob")]))
    cluster.finish("j-bad-0", phase="Failed", exit_code=1)
    assert phases_of(cluster)[:3] == ["Pending", "Running", "Restarting"]
    assert cluster.job("j")["status"]["retryCount"] == 1


@pytest.mark.parametrize(
    ("action", "through", "end"),
    [
        pytest.param("TerminateJob", "Terminating", "Terminated", id="TerminateJob"),
        pytest.param("AbortJob", "Aborting", "Aborted", id="AbortJob"),
        pytest.param("CompleteJob", "Completing", "Completed", id="complete"),
    ],
)
def test_a_failed_pod_stops_the_job_in_two_steps(action: str, through: str, end: str) -> None:
    cluster = running(job(policies=[policy("PodFailed", action)]))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == through
    cluster.settle()
    assert phases_of(cluster) == ["Pending", "Running", through, end]
    assert cluster.pod_names() == ["j-main-0"]


def test_restarting_a_pod_is_not_taken_for_its_eviction() -> None:
    policies = [policy("PodFailed", "RestartPod"), policy("PodEvicted", "TerminateJob", timeout="5m")]
    cluster = running(job(tasks=[task(replicas=1)], policies=policies))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.settle()
    cluster.advance(1000)
    assert phases_of(cluster) == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert cluster.job("j")["status"]["retryCount"] == 1


@pytest.mark.parametrize(
    "event", [pytest.param("PodEvicted", id="PodEvicted"), pytest.param("*", id="any event")]
)
def test_a_pod_deleted_by_a_user_restarts_the_job(event: str) -> None:
    cluster = running(job(policies=[policy(event, "RestartJob")]))
    cluster.evict("j-main-1")
    cluster.settle()
    assert phases_of(cluster) == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert cluster.job("j")["status"]["retryCount"] == 1


@pytest.mark.parametrize(
    "event", [pytest.param("Unknown", id="Unknown"), pytest.param("JobUnknown", id="alias")]
)
def test_a_gang_whose_state_is_unknown_restarts_the_job(event: str) -> None:
    cluster = running(job(policies=[policy(event, "RestartJob")]))
    cluster.set_group("j", "Unknown")
    assert cluster.phase("j") == "Restarting"
    cluster.settle()
    assert cluster.phase("j") == "Running"


def test_a_completed_task_may_complete_the_job() -> None:
    tasks = [task("short"), task("endless")]
    cluster = running(job(tasks=tasks, policies=[policy("TaskCompleted", "CompleteJob")]))
    cluster.finish("j-short-0")
    assert cluster.phase("j") == "Running"
    cluster.finish("j-short-1")
    assert cluster.phase("j") == "Completing"
    cluster.settle()
    assert cluster.phase("j") == "Completed"
    assert cluster.pod_names() == ["j-short-0", "j-short-1"]


def test_containers_that_restart_too_often_fail_their_task() -> None:
    cluster = running(job(tasks=[task(maxRetry=3)], policies=[policy("TaskFailed", "TerminateJob")]))
    statuses = [{"name": "main", "ready": True, "restartCount": 2}]
    cluster.set_pod("j-main-0", "Running", containerStatuses=statuses)
    cluster.run()
    assert cluster.phase("j") == "Running"
    statuses = [{"name": "main", "ready": True, "restartCount": 4}]
    cluster.set_pod("j-main-0", "Running", containerStatuses=statuses)
    cluster.settle()
    assert phases_of(cluster)[-2:] == ["Terminating", "Terminated"]


def test_an_exit_code_may_restart_the_job() -> None:
    cluster = running(job(policies=[policy(action="RestartJob", exitCode=3)]))
    cluster.finish("j-main-0", phase="Failed", exit_code=2)
    assert cluster.phase("j") == "Running"
    cluster.finish("j-main-1", phase="Failed", exit_code=3)
    assert cluster.phase("j") == "Restarting"


def test_an_event_named_twice_in_one_policy_does_no_harm() -> None:
    policies = [{"events": ["PodEvicted", "PodFailed", "PodEvicted"], "action": "TerminateJob"}]
    cluster = running(job(policies=policies))
    cluster.evict("j-main-0")
    cluster.settle()
    assert cluster.phase("j") == "Terminated"


def test_a_tasks_policy_goes_before_its_jobs() -> None:
    tasks = [task("bad", policies=[policy("PodFailed", "RestartJob")]), task("other")]
    cluster = running(job(tasks=tasks, policies=[policy("PodFailed", "AbortJob")]))
    cluster.finish("j-bad-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == "Restarting"


def test_an_event_a_task_says_nothing_about_is_its_jobs_business() -> None:
    tasks = [task("bad", policies=[policy("TaskCompleted", "CompleteJob")]), task("other")]
    cluster = running(job(tasks=tasks, policies=[policy("PodFailed", "AbortJob")]))
    cluster.finish("j-bad-0", phase="Failed", exit_code=1)
    assert cluster.phase("j") == "Aborting"


def test_a_command_does_not_ask_policies() -> None:
    cluster = running(job(policies=[policy("*", "RestartJob")]))
    command(cluster, "AbortJob")
    cluster.settle()
    assert cluster.phase("j") == "Aborted"


def test_pods_that_start_and_run_trigger_no_policy() -> None:
    cluster = running(job(policies=[policy("*", "RestartJob")]))
    cluster.set_pod("j-main-0", "Running", hostIP="10.0.0.1")
    cluster.run()
    assert phases_of(cluster) == ["Pending", "Running"]


def test_pods_of_an_earlier_job_of_the_same_name_trigger_nothing() -> None:
    cluster = running(job(policies=[policy("PodFailed", "AbortJob"), policy("PodEvicted", "AbortJob")]))
    cluster.delete_job("j")
    submit(cluster, job(policies=[policy("PodFailed", "AbortJob"), policy("PodEvicted", "AbortJob")]))
    cluster.set_pod("j-main-0", "Failed", exit_code=1)
    cluster.settle()
    assert cluster.phase("j") == "Running"


def test_a_pod_of_an_earlier_round_triggers_nothing() -> None:
    cluster = running(job(policies=[policy("PodFailed", "AbortJob")]))
    command(cluster, "RestartJob")
    cluster.set_pod("j-main-0", "Failed", exit_code=1)
    cluster.settle()
    assert phases_of(cluster) == ["Pending", "Running", "Restarting", "Pending", "Running"]


def test_a_pod_may_be_pending_for_so_long_and_no_longer() -> None:
    cluster = world()
    submit(cluster, job(policies=[policy("PodPending", "RestartJob", timeout="10s")]))
    cluster.admit()
    (said,) = cluster.events("ExecuteAction")
    assert said["message"] == "Execute action RestartJob after 10s"
    cluster.advance(9.5)
    assert cluster.phase("j") == "Pending"
    cluster.advance(2)
    assert cluster.job("j")["status"]["retryCount"] == 1


def test_a_pod_that_runs_in_time_cancels_the_timeout() -> None:
    cluster = world()
    submit(cluster, job(policies=[policy("PodPending", "RestartJob", timeout="10s")]))
    cluster.admit()
    cluster.advance(9)
    cluster.start_pods()
    cluster.advance(100)
    assert phases_of(cluster) == ["Pending", "Running"]


def test_a_pending_pod_without_a_timeout_is_left_alone() -> None:
    cluster = world()
    submit(cluster, job(policies=[policy("PodPending", "TerminateJob")]))
    cluster.admit()
    cluster.advance(1000)
    assert phases_of(cluster) == ["Pending"]


def test_a_lost_pod_that_runs_again_in_time_cancels_the_timeout() -> None:
    cluster = running(job(policies=[policy("PodEvicted", "TerminateJob", timeout="60s")]))
    cluster.evict("j-main-0")
    cluster.advance(50)
    cluster.settle()
    cluster.advance(1000)
    assert cluster.phase("j") == "Running"


def test_a_lost_pod_that_does_not_come_back_in_time_is_acted_on() -> None:
    cluster = running(job(policies=[policy("PodEvicted", "TerminateJob", timeout="60s")]))
    cluster.evict("j-main-0")
    cluster.advance(59)
    assert cluster.phase("j") != "Terminating"
    cluster.advance(2)
    assert cluster.phase("j") == "Terminating"


def test_a_failed_pod_is_acted_on_after_the_policys_timeout() -> None:
    cluster = running(job(policies=[policy("PodFailed", "AbortJob", timeout="1m30s")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.advance(89)
    assert cluster.phase("j") == "Running"
    cluster.advance(3)
    assert cluster.phase("j") == "Aborting"


def test_a_timeout_goes_on_running_while_the_controller_is_away() -> None:
    cluster = running(job(policies=[policy("PodFailed", "AbortJob", timeout="60s")]))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.kill()
    cluster.clock.advance(50)
    cluster.start(controller())
    cluster.advance(15)
    assert cluster.phase("j") == "Aborting"


def test_a_pod_evicted_by_its_node_raises_podevicted_and_not_podfailed() -> None:
    policies = [policy("PodFailed", "AbortJob"), policy("PodEvicted", "RestartJob")]
    cluster = running(job(policies=policies))
    cluster.set_pod("j-main-0", "Failed", exit_code=137, reason="Evicted")
    cluster.run()
    assert cluster.phase("j") == "Restarting"


def test_restarting_a_task_replaces_its_pods_only() -> None:
    tasks = [task("a", policies=[policy("PodFailed", "RestartTask")]), task("b")]
    cluster = running(job(tasks=tasks, minAvailable=2))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.finish("j-a-0", phase="Failed", exit_code=1)
    cluster.settle()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    assert {name for name in before if before[name] != after[name]} == {"j-a-0", "j-a-1"}
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)


def test_restarting_a_partition_replaces_its_pods_only() -> None:
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    tasks = [task("a", 4, partitionPolicy=partitions, policies=[policy("PodFailed", "RestartPartition")])]
    cluster = running(job(tasks=tasks, minAvailable=2))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.finish("j-a-3", phase="Failed", exit_code=1)
    cluster.settle()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    assert {name for name in before if before[name] != after[name]} == {"j-a-2", "j-a-3"}


def test_an_evicted_pod_may_restart_its_task() -> None:
    cluster = running(job(tasks=[task("a"), task("b")], policies=[policy("PodEvicted", "RestartTask")]))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.evict("j-a-1")
    cluster.settle()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    assert {name for name in before if before[name] != after[name]} == {"j-a-0", "j-a-1"}
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)


def test_several_pods_that_fail_at_once_cost_one_retry() -> None:
    cluster = running(
        job(tasks=[task(replicas=4)], minAvailable=1, policies=[policy("PodFailed", "RestartPod")])
    )
    for index in range(3):
        cluster.set_pod(f"j-main-{index}", "Failed", exit_code=1)
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 1)
    assert {pod["status"]["phase"] for pod in cluster.pods()} == {"Running"}


def test_when_a_task_completes_as_another_fails_the_job_completes() -> None:
    policies = [policy("PodFailed", "RestartJob"), policy("TaskCompleted", "CompleteJob")]
    cluster = running(job(tasks=[task("master", 1), task("worker")], policies=policies))
    cluster.set_pod("j-worker-0", "Failed", exit_code=137)
    cluster.set_pod("j-master-0", "Succeeded")
    cluster.settle()
    assert cluster.phase("j") == "Completed"


@pytest.mark.parametrize(
    ("given", "event", "exit_code", "expected"),
    [
        ({"events": {"PodFailed"}}, "PodFailed", 0, True),
        ({"events": {"PodFailed"}}, "PodEvicted", 0, False),
        ({"events": {"*"}}, "TaskFailed", 0, True),
        ({"events": {"*"}}, "PodPending", 0, False),
        ({"events": {"*"}, "timeout": 5.0}, "PodPending", 0, True),
        ({"exit_code": 3}, "PodFailed", 3, True),
        ({"exit_code": 3}, "PodFailed", 4, False),
        ({"exit_code": 3}, "PodFailed", 0, False),
    ],
)
def test_what_a_policy_speaks_about(given: Any, event: str, exit_code: int, expected: bool) -> None:
    rule = Policy(
        Action.ABORT, frozenset(given.get("events", ())), given.get("exit_code"), given.get("timeout")
    )
    assert matches(rule, event, exit_code) is expected


def test_the_first_policy_that_speaks_about_an_event_decides() -> None:
    rules = [
        Policy(Action.ABORT, frozenset({"PodEvicted"})),
        Policy(Action.RESTART_JOB, exit_code=3),
        Policy(Action.TERMINATE, frozenset({"PodFailed"})),
    ]
    assert resolve(rules, "PodFailed", 3) is rules[1]
    assert resolve(rules, "PodFailed", 1) is rules[2]
    assert resolve(rules, "TaskCompleted") is None


def test_a_pod_that_vanishes_while_a_job_restarts_is_answered_for_afterwards() -> None:
    cluster = running(job(policies=[policy("PodEvicted", "RestartJob")]))
    cluster.evict("j-main-0")
    cluster.admit()
    cluster.reap()
    assert cluster.find(POD, "j-main-0") is not None
    cluster.remove(POD, Key("default", "j-main-0"), now=True)
    cluster.settle()
    assert (cluster.phase("j"), cluster.job("j")["status"]["retryCount"]) == ("Running", 2)
