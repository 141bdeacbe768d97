"""Explanations and plans as typed objects."""

import pytest

from volcano.sdk import Cluster, Job, SdkError, Task, explain, plan


def waits(name: str) -> Job:
    return Job.new(name, [Task("worker", 1, ["true"], cpus="100000", memory="32Mi")])


def test_a_job_that_cannot_start_is_explained(cluster: Cluster) -> None:
    cluster.jobs.create(waits("stuck"))
    try:
        found = explain("stuck", details=["nodes"], cluster=cluster)
        assert found.state == "waiting"
        assert found.diagnosis is not None
        assert (found.diagnosis.code, found.diagnosis.class_) == ("ClusterTooSmall", "NEVER")
        assert [step.step for step in found.steps][:2] == ["admission", "gang"]
        assert "nodes" in found.details
        assert explain(cluster=cluster).jobs.waiting == 1
        assert explain(queue="default", cluster=cluster).reasons[0].code == "ClusterTooSmall"
    finally:
        cluster.jobs.delete("stuck")


def test_a_node_is_explained(cluster: Cluster) -> None:
    small = Job.new("small", [Task("worker", 1, ["true"], cpus="50m")])
    (placed,) = plan(small, cluster=cluster).jobs[0].placements
    assert explain(node=placed.node, cluster=cluster).schedulable


def test_what_does_not_exist_is_said_with_a_similar_name(cluster: Cluster) -> None:
    with pytest.raises(SdkError, match="did you mean 'default'"):
        explain(queue="defaul", cluster=cluster)
    with pytest.raises(SdkError, match="nothing is recorded about it"):
        explain(pod="absent", cluster=cluster)


def test_a_plan_says_why_a_job_would_not_start_and_creates_nothing(cluster: Cluster) -> None:
    found = plan(waits("large"), cluster=cluster)
    assert not found.starts
    (job,) = found.jobs
    assert (job.job, job.min_available) == ("Job default/large", 1)
    assert job.why_not is not None
    assert job.why_not.code == "ClusterTooSmall"
    assert "large" not in [each.name for each in cluster.jobs.list()]
