"""Pods that the controller deletes itself are not lost: no policy about evictions applies to them."""

from tests.controllers.job.world import change, job, policy, running, task

EVICTED = policy("PodEvicted", "RestartJob", timeout="15s")


def test_a_timer_is_not_started_by_a_pod_that_another_policy_replaces() -> None:
    cluster = running(job(policies=[policy(action="RestartPod", exitCode=3), EVICTED]))
    cluster.finish("j-main-0", phase="Failed", exit_code=3)
    cluster.advance(60)  # the replacement does not run
    status = cluster.job("j")["status"]
    assert status["retryCount"] == 1
    messages = [event["message"] for event in cluster.events("ExecuteAction")]
    assert not any("RestartJob" in message for message in messages)


def test_pods_removed_by_scaling_down_are_not_evicted_when_the_job_is_scaled_up_again() -> None:
    cluster = running(job(tasks=[task(replicas=3)], minAvailable=1, policies=[EVICTED]))
    change(cluster, {"spec": {"tasks": [task(replicas=1)]}})
    cluster.reap()
    change(cluster, {"spec": {"tasks": [task(replicas=3)]}})
    cluster.advance(60)
    status = cluster.job("j")["status"]
    assert (status["state"]["phase"], status.get("retryCount", 0)) == ("Running", 0)


def test_a_pod_that_a_user_deletes_starts_the_timer() -> None:
    cluster = running(job(policies=[EVICTED]))
    cluster.evict("j-main-0")
    cluster.advance(10)
    assert cluster.job("j")["status"].get("retryCount", 0) == 0
    cluster.advance(10)
    assert cluster.job("j")["status"]["retryCount"] == 1
