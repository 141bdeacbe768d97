"""Typed clients for jobs, queues and pod groups."""

import pytest

from volcano.sdk import ApiError, Cluster, Job, PodGroup, Queue, SdkError, Task


def test_a_queue_is_created_changed_closed_and_deleted(cluster: Cluster) -> None:
    created = cluster.queues.create(Queue.new("vision", weight=3, capability={"cpu": "8"}))
    assert (created.weight, created.capability, created.namespace) == (3, {"cpu": "8"}, "")
    assert cluster.queues.patch("vision", {"spec": {"weight": 5}}).weight == 5
    cluster.queues.close("vision")
    assert cluster.queues.get("vision").state in ("Closed", "Closing")
    cluster.queues.close("vision")  # nothing to do
    cluster.queues.open("vision")
    cluster.queues.close("vision")
    cluster.queues.delete("vision")
    with pytest.raises(SdkError, match="vision"):
        cluster.queues.get("vision")


def test_apply_keeps_the_fields_that_others_set(cluster: Cluster) -> None:
    cluster.queues.apply(Queue.new("applied", weight=2))
    cluster.queues.patch("applied", {"spec": {"reclaimable": False}})
    again = cluster.queues.apply(Queue.new("applied", weight=4))
    assert (again.weight, again.spec["reclaimable"]) == (4, False)
    cluster.queues.delete("applied")


def test_a_job_of_tasks_is_created_listed_suspended_and_resumed(cluster: Cluster) -> None:
    tasks = [Task("worker", 2, ["sleep", "60"], cpus="50m", memory="32Mi")]
    created = cluster.jobs.create(Job.new("typed", tasks))
    assert (created.min_available, created.replicas, created.queue) == (2, 2, "default")
    for event, job in cluster.jobs.watch():
        if job.name == "typed" and job.running == 2:
            assert event in ("ADDED", "MODIFIED")
            break
    assert [job.name for job in cluster.jobs.list() if job.phase == "Running"] == ["typed"]
    cluster.jobs.suspend("typed")
    assert cluster.jobs.get("typed").phase in ("Aborting", "Aborted")
    cluster.jobs.resume("typed")
    cluster.jobs.delete("typed")


def test_a_pod_group_says_what_it_is(cluster: Cluster) -> None:
    created = cluster.pod_groups.create(PodGroup.new("gang", 4, min_resources={"cpu": "2000"}))
    assert (created.min_member, created.queue) == (4, "default")
    assert repr(created) == "<PodGroup default/gang Pending in queue default, 4 pods>"
    for _, group in cluster.pod_groups.watch():
        if group.name == "gang" and group.reason:
            assert "cpu" in group.reason
            break
    cluster.pod_groups.delete("gang")


def test_the_servers_error_is_raised(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="weight"):
        cluster.queues.create(Queue.new("negative", weight=-1))
