"""Why a job waits: nodes are named where nodes are the obstacle, the queue where it is; need and have are data."""

import pytest

from tests.builders import START, job, node, queue, resources
from tests.scenario import schedule
from volcano.scheduler.engine.diagnosis import Amount, Diagnosis, FitError, diagnoses, from_fit_error
from volcano.scheduler.engine.diagnosis.codes import Code


def cluster(cpu: int = 2, nodes: int = 3) -> list[dict[str, object]]:
    return [node(f"n{i}", cpu=cpu) for i in range(nodes)]


def test_a_gang_larger_than_the_cluster_is_told_about_nodes_although_its_queue_has_no_more_either() -> None:
    result = schedule(nodes=cluster(), jobs=[job("big", 20)])
    diagnosis = result.diagnosis("big")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.resource, diagnosis.need, diagnosis.have) == (
        "resources",
        "cpu",
        20000,
        6000,
    )
    assert diagnosis.reasons == {"Insufficient cpu": 3}
    assert "impossible: the job needs cpu 20, the cluster has 6" in result.condition("big")
    assert "queue" not in result.condition("big")
    assert result.said("big-worker-6") == "0/3 nodes are available: 3 Insufficient cpu."


def test_a_pod_larger_than_any_node_is_told_what_the_largest_has() -> None:
    diagnosis = schedule(nodes=cluster(), jobs=[job("big", 1, cpu=5)]).diagnosis("big")
    assert diagnosis == Diagnosis(
        "default/big",
        "resources",
        "0/3 nodes are available: 3 Insufficient cpu. The pod requests cpu 5, the largest node has 2.",
        resource="cpu",
        need=5000,
        have=2000,
        task="big-worker-0",
        nodes=3,
        reasons={"Insufficient cpu": 3},
        code=Code.NODE_TOO_SMALL,
        causes={Code.NODE_TOO_SMALL: 3},
        amounts=(Amount("cpu", 5000, 2000, 2000),),
        since=START,
    )


def test_a_gang_larger_than_the_capability_of_its_queue_is_told_so() -> None:
    limited = queue("default", capability=resources(cpu=2))
    result = schedule(nodes=cluster(), queues=[limited], jobs=[job("big", 5)])
    diagnosis = result.diagnosis("big")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.resource) == ("queue", "cpu")
    assert (diagnosis.need, diagnosis.have) == (5000, 2000)
    text = "impossible: the job needs cpu 5, the capability of queue default is 2"
    assert text in result.condition("big")
    # The first two fit; the others would exceed the capability.
    assert "can possibly be assigned" in result.said("big-worker-0")


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_queue_at_its_capability_is_named_with_resource_and_numbers(plugin: str) -> None:
    limited = queue("default", capability=resources(cpu=3))
    running = job("first", 2, on="n0", phase="Running")
    result = schedule(
        nodes=cluster(),
        queues=[limited],
        jobs=[running, job("next", 2)],
        plugins=["gang", "predicates", plugin],
    )
    diagnosis = result.diagnosis("next")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.plugin, diagnosis.resource) == ("queue", plugin, "cpu")
    assert diagnosis.message == "queue default has reached its capability: cpu 3 in all, the pod requests 1"
    assert "overused" not in result.condition("next")


def test_a_full_cluster_is_not_reported_as_an_overused_queue() -> None:
    running = [job(f"r{i}", 2, on=f"n{i}", phase="Running") for i in range(3)]
    result = schedule(nodes=cluster(), jobs=[*running, job("next", 1)])
    diagnosis = result.diagnosis("next")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.message) == (
        "resources",
        "0/3 nodes are available: 3 Insufficient cpu.",
    )
    assert result.said("next-worker-0") == "0/3 nodes are available: 3 Insufficient cpu."


def test_a_queue_with_all_that_it_deserves_is_named_with_resource_and_numbers() -> None:
    queues = [queue("a", 1), queue("b", 1)]
    running = job("r", 3, queue="a", on="n0", phase="Running")
    jobs = [running, job("more", 1, queue="a"), job("theirs", 9, queue="b", min_available=9)]
    diagnosis = schedule(nodes=cluster(), queues=queues, jobs=jobs).diagnosis("more")
    assert diagnosis is not None
    assert diagnosis.message == "queue a has all that it deserves: cpu 3 in all, the pod requests 1"


def test_a_request_beyond_the_cluster_is_impossible_not_a_matter_of_quota() -> None:
    nodes = [node(f"n{i}", cpu=64, gpu=8) for i in range(4)]
    huge = job("huge", 8, cpu=1, gpu=8, phase="Pending", min_resources=resources(gpu=64))
    result = schedule(nodes=nodes, jobs=[huge])
    assert result.condition("huge") == "impossible: the job needs nvidia.com/gpu 64, the cluster has 32"
    assert result.phase("huge") == "Pending"


def test_jobs_with_pods_of_one_shape_are_diagnosed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []

    def count(job: str, task: str, fit_error: FitError) -> Diagnosis:
        described.append(task)
        return from_fit_error(job, task, fit_error)

    monkeypatch.setattr(diagnoses, "from_fit_error", count)
    result = schedule(nodes=cluster(cpu=8), jobs=[job(f"j{i}", 1, cpu=9) for i in range(40)])
    found = [result.diagnosis(f"j{i}") for i in range(40)]
    assert len(described) == 1
    assert [each and each.job for each in found] == [f"default/j{i}" for i in range(40)]
    assert [each and each.task for each in found] == [f"j{i}-worker-0" for i in range(40)]
    assert all(each is not None and "the largest node has 8" in each.message for each in found)
