"""Reclaim across queues, also with the default tiers."""

from collections.abc import Sequence
from typing import Any

from tests.builders import JobManifests, job, node, pod, podgroup, queue
from tests.scenario import Result, schedule
from volcano.kube.api.manifest import Manifest

TIER = [["conformance", "gang", "proportion", "priority", "predicates"]]
ALL = ["enqueue", "allocate", "preempt", "reclaim", "backfill"]


def reclaim(nodes: Sequence[Manifest], jobs: Sequence[JobManifests], **options: Any) -> Result:
    options.setdefault("queues", [queue("q1"), queue("q2")])
    options.setdefault("tiers", TIER)
    return schedule(nodes=nodes, jobs=jobs, actions=["reclaim"], **options)


def running(name: str, replicas: int, queue_name: str, on: str = "n1", **options: Any) -> JobManifests:
    options.setdefault("min_available", 1)
    return job(name, replicas, queue=queue_name, on=on, phase="Running", **options)


def test_a_job_with_preemption_policy_never_reclaims_nothing() -> None:
    jobs = [running("a", 3, "q1"), job("b", 1, queue="q2", spec={"preemptionPolicy": "Never"})]
    assert reclaim([node("n1", cpu=3)], jobs).evicted() == set()


def test_a_task_with_preemption_policy_never_does_not_block_the_others() -> None:
    mixed = JobManifests(
        podgroup("b", queue="q2", min_member=1),
        (
            pod("b-never-0", group="b", role="never", spec={"preemptionPolicy": "Never"}),
            pod("b-normal-1", group="b", role="normal"),
        ),
    )
    assert reclaim([node("n1", cpu=3)], [running("a", 3, "q1"), mixed]).evicted() == {"a-worker-2"}


def test_no_pod_is_evicted_if_the_task_fits() -> None:
    jobs = [running("a", 1, "q1", cpu=2), job("b", 1, queue="q2", cpu=3)]
    result = reclaim([node("n1", cpu=10)], jobs)
    assert result.evicted() == set()


def test_no_pod_is_evicted_for_a_task_larger_than_any_node() -> None:
    nodes = [node(f"n{i}", cpu=1) for i in range(4)]
    jobs = [job("a", 4, min_available=1, queue="q1", on=["n0", "n1", "n2", "n3"], phase="Running")]
    result = reclaim(nodes, [*jobs, job("b", 1, queue="q2", cpu=4)])
    assert result.evicted() == set()
    assert result.phase("b") == "Inqueue"


def test_a_job_of_a_missing_queue_is_ignored() -> None:
    jobs = [running("a", 3, "q1"), job("b", 1, queue="nowhere")]
    assert reclaim([node("n1", cpu=3)], jobs).evicted() == set()


def test_borrowed_resources_are_reclaimed_when_the_owner_submits() -> None:
    jobs = [running("a", 4, "q1", memory="1Gi"), job("b", 2, queue="q2", memory="1Gi")]
    result = schedule(
        nodes=[node("n1", cpu=4, memory="4Gi")], jobs=jobs, queues=[queue("q1"), queue("q2")], actions=ALL
    )
    assert result.evicted() == {"a-worker-2", "a-worker-3"}


def test_no_pod_is_reclaimed_below_the_deserved_share() -> None:
    jobs = [running("a", 2, "q1", memory="2Gi", cpu=2), job("b", 2, queue="q2", cpu=2, memory="2Gi")]
    result = schedule(
        nodes=[node("n1", cpu=4, memory="4Gi")], jobs=jobs, queues=[queue("q1"), queue("q2")], actions=ALL
    )
    assert result.evicted() == set()  # the gang of two would need more than q2 deserves


def test_kube_system_is_never_reclaimed() -> None:
    system = job("a", 4, min_available=1, queue="q1", namespace="kube-system", on="n1", phase="Running")
    jobs = [system, job("b", 2, queue="q2")]
    queues = [queue("q1"), queue("q2")]
    assert schedule(nodes=[node("n1", cpu=4)], jobs=jobs, queues=queues, actions=ALL).evicted() == set()
