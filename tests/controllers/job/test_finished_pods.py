"""Pods that have succeeded count for ever, and none of them runs twice."""

from typing import Any

import pytest

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import change, command, controller, job, policy, running, submit, task, world
from volcano.kube.api.kinds import COMMAND, JOB
from volcano.kube.client.operations import Patch


def half_done(**spec: Any) -> FakeCluster:
    """A job of four pods, two of which have succeeded and are deleted with their node."""
    cluster = running(job(tasks=[task(replicas=4)], **spec))
    cluster.finish("j-main-0", "j-main-2")
    cluster.advance(6)
    cluster.evict("j-main-0")
    cluster.evict("j-main-2")
    cluster.advance(6)
    return cluster


def test_finished_pods_that_are_deleted_stay_counted_and_do_not_run_again() -> None:
    cluster = half_done()
    assert cluster.pod_names() == ["j-main-1", "j-main-3"]
    status = cluster.job("j")["status"]
    assert (status["succeeded"], status["running"]) == (2, 2)
    assert status["taskStatusCount"]["main"]["phase"] == {"Succeeded": 2, "Running": 2}
    assert status["controlledResources"]["finished/main"] == "0,2"
    cluster.finish("j-main-1", "j-main-3")
    assert (cluster.phase("j"), cluster.job("j")["status"]["succeeded"]) == ("Completed", 4)


def test_the_gang_is_complete_without_them() -> None:
    cluster = half_done()
    group = cluster.group("j")
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (2, {"main": 2})
    assert group["spec"]["minResources"]["cpu"] == "2"


def test_a_new_controller_knows_what_has_finished() -> None:
    cluster = running(job(tasks=[task(replicas=4)]))
    cluster.finish("j-main-0", "j-main-2")
    cluster.advance(6)
    cluster.kill()
    cluster.remove_pods("j-main-0", "j-main-2")
    cluster.start(controller())
    cluster.settle()
    assert cluster.pod_names() == ["j-main-1", "j-main-3"]
    assert cluster.job("j")["status"]["succeeded"] == 2


def test_a_pod_deleted_right_after_it_has_succeeded_does_not_run_again() -> None:
    cluster = running(job(tasks=[task(replicas=4)]))
    cluster.set_pod("j-main-0", "Succeeded")
    cluster._deliver()
    cluster.evict("j-main-0")
    cluster.settle()
    assert "j-main-0" not in cluster.pod_names()
    assert cluster.job("j")["status"]["succeeded"] == 1


def test_a_failed_pod_that_is_deleted_runs_again() -> None:
    cluster = running(job(tasks=[task(replicas=2)], minAvailable=1))
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.evict("j-main-0")
    cluster.settle()
    assert cluster.pod_names() == ["j-main-0", "j-main-1"]


def test_a_deleted_pod_that_has_succeeded_is_not_evicted() -> None:
    cluster = half_done(policies=[policy("PodEvicted", "RestartJob")])
    assert (cluster.phase("j"), cluster.job("j")["status"].get("retryCount")) == ("Running", None)


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask"])
def test_a_restart_runs_finished_pods_again(action: str) -> None:
    cluster = half_done(policies=[policy("PodFailed", action)])
    cluster.finish("j-main-1", phase="Failed", exit_code=1)
    cluster.settle()
    assert cluster.phase("j") == "Running"
    assert len(cluster.pod_names()) == 4
    status = cluster.job("j")["status"]
    assert status.get("succeeded", 0) == 0
    assert "controlledResources" not in status
    group = cluster.group("j")
    assert group is not None
    assert group["spec"]["minMember"] == 4


def test_a_restart_of_one_pod_keeps_what_others_have_finished() -> None:
    cluster = half_done(policies=[policy("PodFailed", "RestartPod")])
    cluster.finish("j-main-1", phase="Failed", exit_code=1)
    cluster.settle()
    assert cluster.pod_names() == ["j-main-1", "j-main-3"]
    assert cluster.job("j")["status"]["succeeded"] == 2


def test_a_resumed_job_does_not_run_finished_pods_again() -> None:
    cluster = half_done()
    command(cluster, "AbortJob")
    cluster.settle()
    assert cluster.phase("j") == "Aborted"
    command(cluster, "ResumeJob")
    cluster.settle()
    assert (cluster.phase("j"), cluster.pod_names()) == ("Running", ["j-main-1", "j-main-3"])
    assert cluster.objects[COMMAND] == {}


def test_a_task_that_others_wait_for_is_ready_though_its_pods_are_gone() -> None:
    tasks = [task("first", 1), task("second", 2, dependsOn={"name": ["first"]})]
    cluster = world()
    submit(cluster, job(tasks=tasks, minAvailable=1))
    cluster.admit()
    cluster.set_pod("j-first-0", "Succeeded")
    cluster._deliver()
    cluster.evict("j-first-0")
    assert cluster.pod_names() == ["j-second-0", "j-second-1"]


def test_a_task_is_completed_though_one_of_its_pods_is_gone() -> None:
    cluster = running(
        job(tasks=[task("a", 2, policies=[policy("TaskCompleted", "CompleteJob")]), task("b", 1)])
    )
    cluster.finish("j-a-0")
    cluster.advance(6)
    cluster.evict("j-a-0")
    cluster.finish("j-a-1")
    cluster.settle()
    assert cluster.phase("j") == "Completed"


def test_a_finished_job_keeps_no_record() -> None:
    cluster = half_done()
    cluster.finish("j-main-1", "j-main-3")
    assert "controlledResources" not in cluster.job("j")["status"]


def test_scaling_down_drops_the_record_of_pods_beyond() -> None:
    cluster = half_done()
    change(cluster, {"spec": {"minAvailable": 2, "tasks": [task(replicas=2)]}})
    cluster.settle()
    cluster.advance(6)
    assert cluster.job("j")["status"]["controlledResources"]["finished/main"] == "0"


def test_recording_costs_no_write_beside_the_counters() -> None:
    cluster = running(job(tasks=[task(replicas=50)]))
    before = len(cluster.log)
    for index in range(40):
        cluster.finish(f"j-main-{index}")
    cluster.advance(2)
    writes = [op for op in cluster.log[before:] if isinstance(op, Patch) and op.kind is JOB]
    assert len(writes) == 1
    assert cluster.job("j")["status"]["controlledResources"]["finished/main"] == "0-39"
