"""The walltime of a job: passed on to its PodGroup, and enforced where the queue asks for it."""

from typing import Any

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import change, job, policy, submit, task, world
from volcano.kube.api.kinds import QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import ENFORCE_WALLTIME, WALLTIME


def limited(text: str = "100s", **options: Any) -> Manifest:
    return job(metadata={"annotations": {WALLTIME: text}}, **options)


def enforce(cluster: FakeCluster) -> None:
    cluster.change(QUEUE, Key("", "default"), {"metadata": {"annotations": {ENFORCE_WALLTIME: "true"}}})


def running(manifest: Manifest, *, enforced: bool) -> FakeCluster:
    cluster = world()
    if enforced:
        enforce(cluster)
    submit(cluster, manifest)
    cluster.settle()
    assert cluster.phase("j") == "Running"
    return cluster


def group_walltime(cluster: FakeCluster) -> str:
    group = cluster.group("j")
    assert group is not None
    found: str = group["metadata"]["annotations"].get(WALLTIME, "")
    return found


def test_the_pod_group_gets_the_walltime_of_its_job() -> None:
    cluster = world()
    submit(cluster, limited("2h"))
    assert group_walltime(cluster) == "2h"
    change(cluster, {"metadata": {"annotations": {WALLTIME: "3h"}}})
    assert group_walltime(cluster) == "3h"


def test_a_policy_that_ends_the_job_earlier_is_its_walltime() -> None:
    cluster = world()
    submit(cluster, limited("2h", policies=[policy("PodRunning", "TerminateJob", timeout="30m")]))
    assert group_walltime(cluster) == "30m0s"


def test_a_policy_that_only_restarts_pods_does_not_limit_the_job() -> None:
    cluster = world()
    submit(cluster, job(policies=[policy("PodRunning", "RestartPod", timeout="30m")]))
    assert group_walltime(cluster) == ""


def test_an_annotation_ends_no_job_unless_the_queue_enforces_it() -> None:
    cluster = running(limited(), enforced=False)
    cluster.advance(1000)
    assert cluster.phase("j") == "Running"
    assert cluster.events("WalltimeEnding") == []


def test_a_queue_that_enforces_walltimes_warns_and_then_terminates_the_job() -> None:
    cluster = running(limited(), enforced=True)
    cluster.advance(85)
    assert cluster.events("WalltimeEnding") == []
    cluster.advance(8)
    (warning,) = cluster.events("WalltimeEnding")
    assert warning["type"] == "Warning"
    assert "is terminated in 10s: its walltime is 1m40s, and queue default enforces it" in warning["message"]
    assert cluster.phase("j") == "Running"
    cluster.advance(10)
    cluster.settle()
    assert cluster.phase("j") == "Terminated"
    assert any(
        "the walltime of 1m40s is over" in found["message"] for found in cluster.events("ExecuteAction")
    )


def test_a_queue_that_begins_to_enforce_walltimes_ends_running_jobs() -> None:
    cluster = running(limited(), enforced=False)
    cluster.advance(200)
    enforce(cluster)
    cluster.run()
    cluster.advance(110)  # these pods do not say since when they run
    cluster.settle()
    assert cluster.phase("j") == "Terminated"


def test_pods_with_deadlines_of_their_own_are_not_ended_with_the_whole_job() -> None:
    element = task(replicas=2, spec={"activeDeadlineSeconds": 100})
    cluster = running(limited(tasks=[element]), enforced=True)
    cluster.advance(300)
    assert cluster.phase("j") == "Running"
