"""Preemption inside a queue: one tier of conformance, gang, priority and proportion."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup, priority_class, queue, resources
from tests.scenario import Result, schedule
from volcano.kube.api.manifest import Manifest

TIER = [["conformance", "gang", "priority", "predicates", "proportion"]]
CLASSES = [priority_class("low", 10), priority_class("high", 1000)]


def preempt(
    nodes: Sequence[Manifest],
    jobs: Sequence[JobManifests] = (),
    *,
    capability: dict[str, str] | None = None,
    queues: Sequence[Manifest] | None = None,
    **options: Any,
) -> Result:
    options.setdefault("tiers", TIER)
    return schedule(
        nodes=nodes,
        jobs=jobs,
        queues=queues or [queue("q1", capability=capability)],
        others=CLASSES,
        actions=["preempt"],
        **options,
    )


def low(replicas: int, on: str, **options: Any) -> JobManifests:
    return job("low", replicas, on=on, queue="q1", priority_class="low", phase="Running", **options)


def high(replicas: int = 1, **options: Any) -> JobManifests:
    return job("high", replicas, queue="q1", priority_class="high", **options)


def low_pods(*pods: Manifest, min_member: int = 1) -> JobManifests:
    return JobManifests(
        podgroup("low", queue="q1", min_member=min_member, priority_class="low", phase="Running"), pods
    )


def test_no_pod_is_evicted_if_the_task_fits() -> None:
    train = job("train", 3, queue="q1", on=["n1", "n1"])
    assert preempt([node("n1", cpu=10)], [train]).evicted() == set()


def test_jobs_that_have_their_minimum_do_not_preempt() -> None:
    jobs = [low(1, "n1"), job("high", 2, min_available=1, queue="q1", priority_class="high", on=["n1"])]
    assert preempt([node("n1", cpu=2)], jobs).evicted() == set()


def test_only_preemptable_pods_are_evicted() -> None:
    victims = low_pods(
        pod("yes", group="low", node="n1", preemptable=True),
        pod("no", group="low", node="n1", preemptable=False),
    )
    result = preempt([node("n1", cpu=2)], [victims, high(2, min_available=1)])
    assert result.evicted() == {"yes"}


def test_as_many_as_the_request_needs_are_evicted() -> None:
    victims = low_pods(
        pod("a", group="low", node="n1", preemptable=True),
        pod("b", group="low", node="n1", preemptable=True),
        pod("c", group="low", node="n1", preemptable=False),
    )
    assert preempt([node("n1", cpu=6)], [victims, high(cpu=5)]).evicted() == {"a", "b"}


@pytest.mark.parametrize(
    ("limit", "evicted"),
    [
        pytest.param(4, {"low-worker-0"}, id="to make room in the queue"),
        pytest.param(6, set(), id="queue and node both have room"),
    ],
)
def test_the_queue_needs_room_as_well_as_the_node(limit: int, evicted: set[str]) -> None:
    jobs = [low(1, "n1", min_available=0, cpu=3), high(cpu=3)]
    assert preempt([node("n1", cpu=12)], jobs, capability=resources(cpu=limit)).evicted() == evicted


def test_the_pod_of_lower_priority_is_evicted() -> None:
    victims = low_pods(
        pod("fixed", group="low", node="n1", preemptable=False),
        pod("meek", group="low", node="n1", preemptable=True),
        pod("proud", group="low", node="n1", preemptable=True, priority=100_000),
    )
    result = preempt([node("n1", cpu=12)], [victims, high()], capability=resources(cpu=3))
    assert result.evicted() == {"meek"}


@pytest.mark.parametrize("asked", [3, None], ids=["for a pod with requests", "for one without"])
def test_a_best_effort_pod_is_evicted_for_the_number_of_pods(asked: int | None) -> None:
    jobs = [low(1, "n1", cpu=None, min_available=0), high(cpu=asked)]
    assert preempt([node("n1", cpu=12, pods=1)], jobs).evicted() == {"low-worker-0"}


def test_a_pod_that_asks_for_nothing_takes_only_from_its_like() -> None:
    assert preempt([node("n1", pods=1)], [low(1, "n1", min_available=0), high(cpu=None)]).evicted() == set()


def test_a_pod_with_preemption_policy_never_evicts_no_pod() -> None:
    jobs = [low(1, "n1", min_available=0), high(spec={"preemptionPolicy": "Never"})]
    assert preempt([node("n1", cpu=1)], jobs).evicted() == set()


def test_no_pod_is_evicted_if_the_task_would_still_not_fit() -> None:
    jobs = [low(2, "n1", min_available=1), high(cpu=4)]
    assert preempt([node("n1", cpu=12)], jobs, capability=resources(cpu=3)).evicted() == set()


def test_the_node_where_eviction_helps_is_found() -> None:
    victims = low_pods(
        pod("small", cpu=1, group="low", node="n1"), pod("large", cpu=4, group="low", node="n2"), min_member=0
    )
    nodes = [node("n1", cpu=3), node("n2", cpu=4)]
    result = preempt(nodes, [victims, high(cpu=3)], capability=resources(cpu=6))
    assert result.evicted() == {"large"}
    assert result.nominated() == {"high-worker-0": "n2"}


@pytest.mark.parametrize("first", ["q1", "q2"])
def test_every_queue_is_served(first: str) -> None:
    satisfied = job("calm", 1, queue="q1", on="n1", phase="Running")
    jobs = [
        satisfied,
        job("low", 1, queue="q2", on="n1", min_available=0, priority_class="low", phase="Running"),
        job("high", 1, queue="q2", priority_class="high"),
    ]
    queues = [queue("q1", age=10 if first == "q1" else 0), queue("q2", age=10 if first == "q2" else 0)]
    assert preempt([node("n1", cpu=2)], jobs, queues=queues).evicted() == {"low-worker-0"}


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


@pytest.mark.parametrize("pods", [110, 2], ids=["room for both", "no room for a third"])
def test_pods_with_anti_affinity_are_evicted_although_resources_suffice(pods: int) -> None:
    victims = low_pods(
        pod("quiet", group="low", node="n1"),
        pod("noisy", group="low", node="n1", labels={"app": "noisy"}),
        min_member=0,
    )
    result = preempt([node("n1", cpu=12, pods=pods)], [victims, high(spec={"affinity": APART})])
    assert result.evicted() == {"noisy"}
    assert result.nominated() == {"high-worker-0": "n1"}


def test_a_disabled_hook_has_no_effect() -> None:
    tiers = [[{"name": "priority", "enablePreemptable": False}]]
    jobs = [low(1, "n1", min_available=0), high()]
    assert preempt([node("n1", cpu=1)], jobs, tiers=tiers).evicted() == set()


def test_pods_of_other_queues_are_not_preempted() -> None:
    other = job("low", 1, queue="q2", on="n1", min_available=0, priority_class="low", phase="Running")
    queues = [queue("q1"), queue("q2")]
    assert preempt([node("n1", cpu=1)], [other, high()], queues=queues).evicted() == set()


def test_a_job_that_is_not_admitted_does_not_preempt() -> None:
    jobs = [low(1, "n1", min_available=0), high(phase="Pending")]
    assert preempt([node("n1", cpu=1)], jobs).evicted() == set()


def test_a_gated_pod_does_not_preempt() -> None:
    jobs = [low(1, "n1", min_available=0), high(gates=["example.com/wait"])]
    assert preempt([node("n1", cpu=1)], jobs).evicted() == set()


def test_no_pod_is_evicted_from_unresolvable_nodes() -> None:
    jobs = [low(1, "n1", min_available=0), high(spec={"nodeSelector": {"disk": "ssd"}})]
    assert preempt([node("n1", cpu=1)], jobs).evicted() == set()


PREEMPTING = ["enqueue", "allocate", "preempt", "reclaim", "backfill"]


def with_seed_tiers(jobs: Sequence[JobManifests], nodes: Sequence[Manifest]) -> Result:
    return schedule(nodes=nodes, jobs=jobs, queues=[queue("q1")], others=CLASSES, actions=PREEMPTING)


def test_surplus_members_go_before_a_gang_is_broken() -> None:
    elastic = job(
        "elastic", 3, min_available=1, queue="q1", on="n1", priority_class="low", phase="Running", age=60
    )
    gang = job("gang", 3, queue="q1", on="n1", priority_class="low", phase="Running")
    result = with_seed_tiers([gang, elastic, high(2)], [node("n1", cpu=6)])
    assert result.evicted() == {"elastic-worker-1", "elastic-worker-2"}


def test_a_gang_at_its_minimum_is_preempted_as_a_whole() -> None:
    gang = job("gang", 4, queue="q1", on=["n1", "n1", "n2", "n2"], priority_class="low", phase="Running")
    result = with_seed_tiers([gang, high(1)], [node("n1", cpu=2), node("n2", cpu=2)])
    assert result.evicted() == {f"gang-worker-{i}" for i in range(4)}


def test_no_pod_is_evicted_for_a_gang_that_would_still_not_fit() -> None:
    gang = job("gang", 2, queue="q1", on="n1", priority_class="low", phase="Running")
    result = with_seed_tiers([gang, high(3)], [node("n1", cpu=2)])
    assert result.evicted() == set()


def test_equals_do_not_preempt_each_other() -> None:
    first = job("first", 2, queue="q1", on="n1", priority_class="high", phase="Running")
    assert with_seed_tiers([first, high(2)], [node("n1", cpu=2)]).evicted() == set()


def test_inside_a_job_important_tasks_take_the_place_of_others() -> None:
    members = JobManifests(
        podgroup("mixed", queue="q1", min_member=1, phase="Running"),
        (
            pod("worker", group="mixed", node="n1", role="worker", priority=1),
            pod("master", group="mixed", role="master", priority=10),
        ),
    )
    tiers = [["priority", "predicates"]]
    assert preempt([node("n1", cpu=1)], [members], tiers=tiers).evicted() == {"worker"}
