"""Reclaiming from queues, with the default tiers and the preempting configuration."""

from typing import Any

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup, queue, resources
from tests.scenario import DEFAULT_TIERS, Result, schedule
from volcano.kube.api.manifest import Manifest

ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
TOLERANCE = "volcano.sh/overuse-tolerance"


def cycle(queues: list[Manifest], jobs: list[JobManifests], cpus: int = 10, **more: Any) -> Result:
    """One cycle on nodes of one cpu each, n0, n1, …"""
    nodes = [node(f"n{i}", cpu=1, pods=10) for i in range(cpus)]
    return schedule(nodes=nodes, queues=queues, jobs=jobs, tiers=DEFAULT_TIERS, actions=ACTIONS, **more)


def holding(name: str, first: int, count: int, minimum: int = 0, **more: Any) -> JobManifests:
    """A running job of `count` one-cpu pods on the nodes from `first` on, in the queue of its name."""
    on = [f"n{i}" for i in range(first, first + count)]
    options = {"queue": name, "phase": "Running", **more}
    return job(f"run-{name}", count, min_available=minimum, on=on, **options)


def wanting(name: str, count: int, **more: Any) -> JobManifests:
    return job(f"want-{name}", count, queue=name, **{"min_available": 0, **more})


def test_a_borrower_gives_back_when_the_owner_comes() -> None:
    """Queue a (weight 3) holds all ten cpus; b and c request their fifths, two cpus each."""
    queues = [queue("a", 3), queue("b", 1), queue("c", 1)]
    result = cycle(queues, [holding("a", 0, 10), wanting("b", 2, min_available=2)])
    assert len(result.evicted()) == 2
    assert all(name.startswith("run-a") for name in result.evicted())


def test_a_queue_is_never_brought_below_its_share() -> None:
    """Thirds of ten: each deserves 3.33. A queue with 4 keeps them, because without one it would hold 3."""
    queues = [queue("a"), queue("b"), queue("c")]
    jobs = [
        holding("a", 0, 4),
        holding("b", 4, 3),
        holding("c", 7, 3),
        wanting("b", 5),
        wanting("a", 5),
        wanting("c", 5),
    ]
    assert cycle(queues, jobs).evicted() == set()


def test_overuse_tolerance_zero_takes_even_what_the_default_leaves() -> None:
    """Both deserve 4 of 8 cpus. Without its only pod a would hold nothing, less than the three quarters b holds."""
    nodes = [node("n1", cpu=5), node("n2", cpu=3)]
    jobs = [
        job("large", 1, min_available=0, cpu=5, queue="a", on="n1", phase="Running"),
        job("small", 3, min_available=0, queue="b", on="n2", phase="Running"),
        job("new", 1, queue="b"),
    ]

    def taken(a: Manifest) -> set[str]:
        queues = [a, queue("b")]
        return schedule(nodes=nodes, queues=queues, jobs=jobs, tiers=DEFAULT_TIERS, actions=ACTIONS).evicted()

    assert taken(queue("a")) == set()
    assert taken(queue("a", annotations={TOLERANCE: "0"})) == {"large-worker-0"}


def test_overuse_tolerance_lets_a_queue_stay_over_its_share() -> None:
    jobs = [holding("a", 0, 6), holding("b", 6, 4), wanting("a", 9), wanting("b", 1, min_available=1)]
    assert len(cycle([queue("a"), queue("b")], jobs).evicted()) == 1
    assert cycle([queue("a", annotations={TOLERANCE: "0.25"}), queue("b")], jobs).evicted() == set()
    assert len(cycle([queue("a", annotations={TOLERANCE: "0.1"}), queue("b")], jobs).evicted()) == 1
    assert len(cycle([queue("a", annotations={TOLERANCE: "soon"}), queue("b")], jobs).evicted()) == 1


def test_a_queue_that_is_not_reclaimable_keeps_its_excess() -> None:
    jobs = [holding("a", 0, 10), wanting("b", 1, min_available=1)]
    assert cycle([queue("a", reclaimable=False), queue("b")], jobs).evicted() == set()
    assert len(cycle([queue("a"), queue("b")], jobs).evicted()) == 1


def test_a_guarantee_is_never_touched() -> None:
    jobs = [holding("a", 0, 10), wanting("b", 2, min_available=2)]
    assert len(cycle([queue("a", guarantee=resources(cpu=8)), queue("b")], jobs).evicted()) == 2
    assert cycle([queue("a", guarantee=resources(cpu=9)), queue("b")], jobs).evicted() == set()


def test_what_a_department_is_promised_stays_in_the_department() -> None:
    """The parent has the guarantee; another department must not reclaim it from the child."""

    def taken(promised: int) -> int:
        queues = [
            queue("root"),
            queue("dept", parent="root", guarantee=resources(cpu=promised)),
            queue("team", parent="dept"),
            queue("other", parent="root"),
        ]
        return len(cycle(queues, [holding("team", 0, 10), wanting("other", 2, min_available=2)]).evicted())

    assert taken(8) == 2
    assert taken(9) == 0


def test_a_queue_at_its_share_reclaims_nothing() -> None:
    queues = [queue(f"q{i}") for i in range(3)]
    jobs = [holding(f"q{i}", i, 1, minimum=1) for i in range(3)] + [wanting("q2", 1, min_available=1)]
    assert cycle(queues, jobs, cpus=3).evicted() == set()


def test_a_closed_queue_reclaims_nothing() -> None:
    jobs = [holding("a", 0, 10), wanting("b", 1, min_available=1)]
    assert cycle([queue("a"), queue("b", state="Closed")], jobs).evicted() == set()


def test_only_preemptable_pods_are_reclaimed() -> None:
    result = schedule(
        nodes=[node("n1", cpu=3, memory="3Gi", pods=10)],
        queues=[queue("q1"), queue("q2")],
        podgroups=[podgroup("pg1", queue="q1", phase="Running"), podgroup("pg2", queue="q2")],
        pods=[
            *(pod(f"p{i}", group="pg1", node="n1", preemptable=i == 2) for i in (1, 2, 3)),
            pod("new", group="pg2"),
        ],
        tiers=[["conformance", "gang", "proportion", "priority", "predicates"]],
        actions=["reclaim"],
    )
    assert result.evicted() == {"p2"}


# Volcano's rule: any excess may be reclaimed, and its tests have no reclaimable queues.
REFERENCE_TIER: list[Any] = [
    "conformance",
    "gang",
    {"name": "proportion", "enablePreemptive": False, "enabledAllocatable": False},
    "priority",
    "predicates",
]


def eager(name: str, **more: Any) -> Manifest:
    return queue(name, annotations={TOLERANCE: "0"}, **more)


@pytest.mark.parametrize("order", [(5, 10), (10, 5)])
def test_queues_of_lower_priority_are_reclaimed_from_first(order: tuple[int, int]) -> None:
    priorities = dict(zip(("q1", "q2"), order, strict=True))
    result = schedule(
        nodes=[node("n1", cpu=2, pods=10)],
        queues=[queue("q3"), *(eager(name, priority=value) for name, value in priorities.items())],
        jobs=[
            *(
                job(f"run-{name}", 1, min_available=0, queue=name, on="n1", phase="Running")
                for name in priorities
            ),
            job("new", 1, queue="q3"),
        ],
        tiers=[REFERENCE_TIER],
        actions=["reclaim"],
    )
    less = min(priorities, key=lambda name: priorities[name])
    assert result.evicted() == {f"run-{less}-worker-0"}


def test_idle_resources_count_towards_the_request() -> None:
    result = schedule(
        nodes=[node("n1", cpu=10, memory="2Gi", pods=10)],
        queues=[eager("q1", priority=1), eager("q2", priority=2), queue("q3")],
        jobs=[
            *(
                job(f"run-{name}", 1, memory="1G", min_available=0, queue=name, on="n1", phase="Running")
                for name in ("q1", "q2")
            ),
            job("new", 1, cpu=2, memory="1G", queue="q3"),
        ],
        tiers=[REFERENCE_TIER],
        actions=["reclaim"],
    )
    assert result.evicted() == {"run-q1-worker-0"}


def test_siblings_give_nothing_to_another_department_while_theirs_is_within_its_share() -> None:
    """team-a1 uses team-a2's idle part; department a as a whole is within its 6 of 10."""
    queues = [
        queue("root"),
        queue("dept-a", 3, parent="root"),
        queue("dept-b", 2, parent="root"),
        queue("team-a1", 2, parent="dept-a"),
        queue("team-a2", 1, parent="dept-a"),
        queue("team-b1", 1, parent="dept-b"),
    ]
    jobs = [holding("team-a1", 0, 6), holding("team-b1", 6, 4), wanting("team-b1", 3)]
    assert cycle(queues, jobs).evicted() == set()
    owner = [holding("team-a1", 0, 6), holding("team-b1", 6, 4), wanting("team-a2", 2, min_available=2)]
    result = cycle(queues, owner)
    assert len(result.evicted()) == 2
    assert all(name.startswith("run-team-a1") for name in result.evicted())


def test_protections_hold_in_whichever_tier_proportion_stands() -> None:
    """In the first tier gang and conformance alone would permit to reclaim from a within its share."""
    jobs = [holding("a", 0, 5), holding("b", 5, 5), wanting("a", 9), wanting("b", 9)]
    assert cycle([queue("a"), queue("b")], jobs).evicted() == set()
