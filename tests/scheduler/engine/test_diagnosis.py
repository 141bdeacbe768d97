"""Why a job waits: nodes are named where nodes are the obstacle, the queue where it is; need and have are data."""

from tests.builders import job, node, queue, resources
from tests.scenario import schedule
from volcano.scheduler.engine.diagnosis import Diagnosis


def cluster(cpu: int = 2, nodes: int = 3) -> list[dict[str, object]]:
    return [node(f"n{i}", cpu=cpu) for i in range(nodes)]


def test_a_gang_larger_than_the_cluster_is_told_about_nodes_although_its_queue_has_no_more_either() -> None:
    result = schedule(nodes=cluster(), jobs=[job("big", 20)])
    diagnosis = result.diagnosis("big")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.resource, diagnosis.need, diagnosis.have) == (
        "resources",
        "cpu",
        1000,
        0,
    )
    assert diagnosis.reasons == {"Insufficient cpu": 3}
    assert "0/3 nodes are available: 3 Insufficient cpu." in result.condition("big")
    assert "queue" not in result.condition("big")
    assert result.said("big-worker-0") == "0/3 nodes are available: 3 Insufficient cpu."


def test_a_pod_larger_than_any_node_is_told_what_the_largest_has() -> None:
    diagnosis = schedule(nodes=cluster(), jobs=[job("big", 1, cpu=5)]).diagnosis("big")
    assert diagnosis == Diagnosis(
        "default/big",
        "resources",
        "0/3 nodes are available: 3 Insufficient cpu.",
        resource="cpu",
        need=5000,
        have=2000,
        task="big-worker-0",
        nodes=3,
        reasons={"Insufficient cpu": 3},
    )


def test_where_nodes_are_free_the_queue_is_named_with_need_and_have() -> None:
    limited = queue("default", capability=resources(cpu=2))
    result = schedule(nodes=cluster(), queues=[limited], jobs=[job("big", 5)])
    diagnosis = result.diagnosis("big")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.plugin, diagnosis.resource) == ("queue", "proportion", "cpu")
    assert (diagnosis.need, diagnosis.have) == (3000, 2000)
    assert "queue default has what it deserves: insufficient cpu (needs cpu 3, has 2)" in result.condition(
        "big"
    )
