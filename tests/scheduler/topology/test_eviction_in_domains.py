"""Evictions for gangs that ask for a domain: only inside a domain that then takes the gang, the cheapest one."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import JobManifests, job, pod, priority_class, queue, resources
from tests.scenario import Result
from tests.scheduler.topology.clusters import LEAF_OF, PLUGINS, gang, partitioned, place, topology

HARD_1, HARD_2, SOFT = topology(tier=1), topology(tier=2), topology("soft")
CLASSES = [priority_class("low", 10), priority_class("high", 1000)]
PREEMPTING = ["preempt", "gangpreempt"]
RECLAIMING = ["reclaim", "gangreclaim"]
SMALL = [
    job(f"low-{i}", 1, cpu=8, on=f"n{i}", phase="Running", priority_class="low", preemptable=True)
    for i in range(8)
]


def evict(action: str, *jobs: JobManifests, plugins: Any = PLUGINS, **options: Any) -> Result:
    return place(*jobs, actions=("allocate", action), others=CLASSES, plugins=plugins, **options)


def leaves_of(result: Result, jobs: Mapping[str, str]) -> set[str]:
    return {LEAF_OF[jobs[name]] for name in result.evicted()}


ON = {f"low-{i}-worker-0": f"n{i}" for i in range(8)}


@pytest.mark.parametrize("action", PREEMPTING)
def test_exactly_the_pods_of_one_leaf_are_evicted_for_a_gang_of_its_size(action: str) -> None:
    result = evict(action, *SMALL, gang("big", 2, 8, HARD_1, priority_class="high"))
    assert len(result.evicted()) == 2
    assert len(leaves_of(result, ON)) == 1
    assert set(result.nominated().values()) == {ON[name] for name in result.evicted()}


@pytest.mark.parametrize("action", PREEMPTING)
def test_nothing_is_evicted_for_a_gang_that_no_domain_takes(action: str) -> None:
    result = evict(action, *SMALL, gang("big", 3, 8, HARD_1, priority_class="high"))
    assert not result.evicted()
    assert "hypernodes of tier ≤ 1 have room" in result.condition("big")


@pytest.mark.parametrize("action", PREEMPTING)
def test_the_domain_with_the_fewest_victims_is_chosen(action: str) -> None:
    jobs = [found for i, found in enumerate(SMALL) if i != 5]
    result = evict(action, *jobs, gang("big", 2, 8, HARD_1, priority_class="high"))
    assert result.evicted() == {"low-4-worker-0"}


@pytest.mark.parametrize("action", PREEMPTING)
def test_of_equally_many_victims_those_of_lower_priority_are_chosen(action: str) -> None:
    cheap = [
        job(f"low-{i}", 1, cpu=8, on=f"n{i}", phase="Running", priority_class="none" if i in (6, 7) else "low",
            preemptable=True)
        for i in range(8)
    ]  # fmt: skip
    classes = [*CLASSES, priority_class("none", 1)]
    result = place(
        *cheap, gang("big", 2, 8, HARD_1, priority_class="high"), actions=("allocate", action), others=classes
    )
    assert leaves_of(result, ON) == {"s3"}


@pytest.mark.parametrize("action", PREEMPTING)
def test_a_wider_limit_needs_no_more_victims_than_pods(action: str) -> None:
    result = evict(action, *SMALL, gang("big", 3, 8, HARD_2, priority_class="high"))
    assert len(result.evicted()) == 3
    assert len({leaf in ("s0", "s1") for leaf in leaves_of(result, ON)}) == 1


@pytest.mark.parametrize("action", PREEMPTING)
def test_a_preference_does_not_prevent_evictions(action: str) -> None:
    result = evict(action, *SMALL, gang("big", 2, 8, SOFT, priority_class="high"))
    assert len(result.evicted()) == 2


@pytest.mark.parametrize("action", PREEMPTING)
def test_an_elastic_gang_evicts_for_its_minimum_only(action: str) -> None:
    result = evict(action, *SMALL, gang("big", 8, 8, HARD_1, priority_class="high", min_available=2))
    assert len(result.evicted()) == 2
    assert len(leaves_of(result, ON)) == 1


@pytest.mark.parametrize("action", PREEMPTING)
def test_a_replacement_evicts_only_in_the_domain_that_its_job_holds(action: str) -> None:
    jobs = [found for i, found in enumerate(SMALL) if i != 2]
    running = gang("big", 2, 8, HARD_1, priority_class="high", on=("n2",), phase="Running")
    assert evict(action, *jobs, running).evicted() == {"low-3-worker-0"}


@pytest.mark.parametrize("action", PREEMPTING)
def test_partitions_evict_in_a_leaf_each_inside_one_spine(action: str) -> None:
    wanted = partitioned("big", 2, 2, 8, own=HARD_2, part=HARD_1)
    wanted.group["spec"]["priorityClassName"] = "high"
    result = evict(action, *SMALL, wanted)
    assert len(result.evicted()) == 4
    assert leaves_of(result, ON) in ({"s0", "s1"}, {"s2", "s3"})
    parts: dict[int, set[str]] = {}
    for name, node in result.nominated().items():
        parts.setdefault(int(name.removeprefix("big-")) // 2, set()).add(LEAF_OF[node])
    assert all(len(found) == 1 for found in parts.values())


@pytest.mark.parametrize("action", PREEMPTING)
def test_no_partition_is_evicted_for_when_not_all_can_be(action: str) -> None:
    jobs = [
        job(f"low-{i}", 1, cpu=8, on=f"n{i}", phase="Running", preemptable=True,
            priority_class="high" if i % 2 else "low")
        for i in range(8)
    ]  # fmt: skip
    wanted = partitioned("big", 2, 2, 8, own=HARD_2, part=HARD_1)
    wanted.group["spec"]["priorityClassName"] = "high"
    assert not evict(action, *jobs, wanted).evicted()


@pytest.mark.parametrize("action", RECLAIMING)
def test_reclaim_evicts_only_inside_a_domain_that_takes_the_gang(action: str) -> None:
    jobs = [
        job(f"low-{i}", 1, cpu=8, on=f"n{i}", phase="Running", queue="b", preemptable=True) for i in range(8)
    ]
    queues = [queue("a", weight=1), queue("b", weight=1)]
    plugins = ("gang", "predicates", "proportion")
    result = evict(action, *jobs, gang("big", 2, 8, HARD_1, queue="a"), queues=queues, plugins=plugins)
    assert len(result.evicted()) == 2
    assert len(leaves_of(result, ON)) == 1
    result = evict(action, *jobs, gang("big", 3, 8, HARD_1, queue="a"), queues=queues, plugins=plugins)
    assert not result.evicted()


@pytest.mark.parametrize("action", RECLAIMING)
def test_reclaim_leaves_domains_alone_that_its_victims_do_not_free(action: str) -> None:
    """One pod per leaf may be reclaimed: no leaf takes the gang, whatever is evicted."""
    jobs = [
        job(
            f"low-{i}",
            1,
            cpu=8,
            on=f"n{i}",
            phase="Running",
            queue="b" if i % 2 else "a",
            preemptable=bool(i % 2),
        )
        for i in range(8)
    ]
    queues = [queue("a", deserved=resources(cpu=64)), queue("b", deserved=resources(cpu=1))]
    result = evict(
        action,
        *jobs,
        gang("big", 2, 8, HARD_1, queue="a"),
        queues=queues,
        plugins=("gang", "predicates", "capacity"),
    )
    assert not result.evicted()


def test_the_number_of_domains_to_try_can_be_limited() -> None:
    """With one, only the widest is tried, a spine; otherwise one of its leaves costs the same and is preferred."""
    nodes = dict(zip("abcdefgh", ("n0", "n2", "n1", "n3", "n4", "n6", "n5", "n7"), strict=True))
    jobs = [
        job(name, 1, cpu=8, on=node, phase="Running", priority_class="low", preemptable=True)
        for name, node in nodes.items()
    ]
    on = {f"{name}-worker-0": node for name, node in nodes.items()}
    wanted = gang("big", 2, 8, HARD_2, priority_class="high")
    limited = evict("gangpreempt", *jobs, wanted, configurations={"gangpreempt": {"maxDomains": 1}})
    assert leaves_of(limited, on) == {"s0", "s1"}
    assert len(leaves_of(evict("gangpreempt", *jobs, wanted), on)) == 1


def test_a_gang_across_domains_is_evicted_as_a_whole_or_not_at_all() -> None:
    spread = job("spread", 2, cpu=8, on=("n1", "n2"), phase="Running", priority_class="low", preemptable=True)
    fixed = [
        job(f"fixed-{i}", 1, cpu=8, on=f"n{i}", phase="Running", priority_class="high")
        for i in (0, 3, 4, 5, 6, 7)
    ]
    wanted = gang("big", 1, 8, HARD_1, priority_class="high")
    result = evict("gangpreempt", spread, *fixed, wanted)
    assert result.evicted() == {"spread-worker-0", "spread-worker-1"}
    impossible = gang("big", 2, 8, HARD_1, priority_class="high")
    assert not evict("gangpreempt", spread, *fixed, impossible).evicted()


def test_the_next_cycle_places_the_gang_where_pods_were_evicted_for_it() -> None:
    leaving = [pod(f"old-{i}", cpu=8, node=name, deleting=True) for i, name in enumerate(("n2", "n3"))]
    jobs = [found for i, found in enumerate(SMALL) if i not in (2, 3)]
    wanted = gang("big", 2, 8, HARD_1, priority_class="high")
    for member, name in zip(wanted.pods, ("n2", "n3"), strict=True):
        member["status"]["nominatedNodeName"] = name
    waiting = place(*jobs, wanted, pods=leaving, actions=("allocate", "preempt"), others=CLASSES)
    assert not waiting.evicted()
    assert not waiting.bound()
    freed = place(*jobs, wanted, actions=("allocate", "preempt"), others=CLASSES)
    assert set(freed.bound().values()) == {"n2", "n3"}
