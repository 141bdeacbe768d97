"""The minimum of admitted gangs is kept free until their pods exist, for a limited time."""

from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, podgroup, priority_class, queue, resources
from tests.scenario import Result, cluster_of, config, event, schedule
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule as run

JOB = {"min_available": 2, "min_resources": resources(cpu=2)}


def elastic(name: str, **options: Any) -> JobManifests:
    """A job of 16 pods that starts with two."""
    return job(name, 16, **{**JOB, **options})


def without_pods(name: str, cpu: int = 2, members: int = 2, **options: Any) -> Any:
    return podgroup(name, min_member=members, min_resources=resources(cpu=cpu), **options)


def cycle(*, podgroups: Any, nodes: int = 1, **options: Any) -> Result:
    options.setdefault("jobs", [elastic("first")])
    machines = [node(f"n{i}", cpu=16 // nodes) for i in range(nodes)]
    return schedule(nodes=machines, podgroups=podgroups, **options)


def test_pods_beyond_the_minimum_leave_admitted_gangs_theirs() -> None:
    assert len(cycle(podgroups=[without_pods("second"), without_pods("third")]).bound()) == 12
    assert len(cycle(podgroups=[]).bound()) == 16


def test_gangs_admitted_in_the_same_cycle_count() -> None:
    pending = [without_pods(name, phase="Pending") for name in ("second", "third")]
    assert len(cycle(podgroups=pending).bound()) == 12


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_gangs_of_other_queues_count(plugin: str) -> None:
    result = cycle(
        jobs=[elastic("first", queue="a")],
        podgroups=[without_pods("second", queue="b"), without_pods("third", queue="c")],
        queues=[queue("a"), queue("b"), queue("c")],
        tiers=[["priority", "gang", "conformance"], ["drf", "predicates", plugin, "nodeorder"]],
    )
    assert len(result.bound()) == 12


def test_whole_nodes_are_kept_for_large_pods() -> None:
    """One pod of eight cpus is awaited; the pods of the other job would fit beside each other on both nodes."""
    first = elastic("first", min_available=1, min_resources=resources(cpu=1))
    result = cycle(jobs=[first], podgroups=[without_pods("large", cpu=8, members=1)], nodes=2)
    assert sorted(result.bound_per_node().values()) == [8]


def test_minimums_are_placed_although_gangs_are_awaited() -> None:
    """Other gangs whose pods exist are not delayed."""
    gangs = [job(f"gang-{i}", 8, min_resources=resources(cpu=8)) for i in range(2)]
    assert len(cycle(jobs=gangs, podgroups=[without_pods("late", cpu=8, members=8)]).bound()) == 16


def test_more_important_jobs_do_not_wait_for_less_important_gangs() -> None:
    classes = [priority_class("low", 1), priority_class("high", 9)]
    high: dict[str, Any] = {"priority_class": "high"}
    low: dict[str, Any] = {"priority_class": "low"}
    late = [without_pods("late", **low)]
    assert len(cycle(jobs=[elastic("first", **high)], podgroups=late, others=classes).bound()) == 16
    late = [without_pods("late", **high)]
    assert len(cycle(jobs=[elastic("first", **low)], podgroups=late, others=classes).bound()) == 14


def test_a_gang_that_would_not_fit_reserves_nothing() -> None:
    assert len(cycle(podgroups=[without_pods("huge", cpu=99, members=9)]).bound()) == 16


def test_gangs_without_min_resources_reserve_nothing() -> None:
    assert len(cycle(podgroups=[podgroup("unknown", min_member=2)]).bound()) == 16


def test_a_timeout_of_zero_turns_it_off() -> None:
    off = {"allocate": {"admittedGangTimeout": "0s"}}
    assert len(cycle(podgroups=[without_pods("second")], configurations=off).bound()) == 16


def bound_later(seconds: float) -> list[int]:
    """Number of pods bound in cycles at the start and later; the second gang's pods never come."""
    first = elastic("first")
    cluster = cluster_of(nodes=[node("n0", cpu=16)], jobs=[first], podgroups=[without_pods("second")])
    chosen, memory, counts = config(), None, []
    for number, now in enumerate((START, START + seconds)):
        outcome = run(cluster.snapshot(now, number, memory), chosen)
        memory = outcome.memory
        counts.append(sum(isinstance(each, Bind) for each in outcome.decisions))
        cluster.assume(outcome.decisions)
    return counts


def test_pods_that_do_not_come_are_waited_for_only_for_a_while() -> None:
    assert bound_later(29) == [14, 0]
    assert bound_later(31) == [14, 2]


def test_a_gang_is_served_as_soon_as_its_pods_exist() -> None:
    second = elastic("second")
    cluster = cluster_of(nodes=[node("n0", cpu=16)], jobs=[elastic("first")], podgroups=[second.group])
    outcome = run(cluster.snapshot(START, 1, None), config())
    cluster.assume(outcome.decisions)
    for manifest in second.pods:
        cluster.apply(event(manifest, cluster, EventType.ADDED))
    result = Result(run(cluster.snapshot(START + 1, 2, outcome.memory), config()), cluster.snapshot())
    assert set(result.bound()) == {"second-worker-0", "second-worker-1"}
    assert "awaited-gangs" not in result.outcome.memory
