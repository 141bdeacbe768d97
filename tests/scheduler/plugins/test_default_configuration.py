"""Documented behaviour with the default configuration and the preempting one."""

from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, pod, podgroup, priority_class, queue, resources
from tests.scenario import Result, cluster_of
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config, parse, shipped

CLASSES = [priority_class("production-training", 1000), priority_class("dev-experiment", 100)]


def settings(*, preempting: bool) -> Config:
    return parse(shipped("volcano-scheduler-preempt.conf" if preempting else "volcano-scheduler.conf"))


def cycle(*, preempting: bool = False, **cluster: Any) -> Result:
    snapshot = cluster_of(**cluster).snapshot(START, 1, None)
    return Result(schedule(snapshot, settings(preempting=preempting)), snapshot)


def machines(count: int, cpu: int = 1, **more: Any) -> list[Manifest]:
    return [node(f"n{i}", cpu=cpu, **more) for i in range(count)]


def on(first: int, count: int) -> list[str]:
    return [f"n{i}" for i in range(first, first + count)]


def test_the_tiers_of_the_default_configuration() -> None:
    names = [[plugin.name for plugin in tier] for tier in settings(preempting=False).tiers]
    assert names == [
        ["priority", "gang", "conformance"],
        ["drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    assert settings(preempting=True).actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")


def test_all_eight_mpi_workers_start_or_none_does() -> None:
    mpi = job("mpi-job", 8, cpu=4, gpu=1)
    assert len(cycle(nodes=machines(8, 4, gpu=1), jobs=[mpi]).bound()) == 8
    assert cycle(nodes=machines(7, 4, gpu=1), jobs=[mpi]).bound() == {}


def test_two_gangs_never_split_the_nodes() -> None:
    result = cycle(nodes=machines(5), jobs=[job("a", 3, age=2), job("b", 3, age=1)])
    assert sorted(result.bound()) == [f"a-worker-{i}" for i in range(3)]


def test_no_pod_starts_while_min_resources_are_not_available() -> None:
    training = podgroup("training-job", min_member=1, min_resources=resources(cpu=8, memory="32Gi"))
    pods = [pod(f"training-job-w-{i}", 2, "8Gi", group="training-job") for i in range(4)]
    assert cycle(nodes=machines(3, 2, memory="8Gi"), podgroups=[training], pods=pods).bound() == {}
    assert len(cycle(nodes=machines(4, 2, memory="8Gi"), podgroups=[training], pods=pods).bound()) == 4


@pytest.mark.parametrize(
    ("jobs", "members", "nodes", "most"),
    [
        pytest.param(1, 1000, 100, 32, id="one gang of 1,000 pods on 100 nodes"),
        pytest.param(20, 50, 100, 32, id="20 gangs of 50 pods on 100 nodes"),
        pytest.param(100, 50, 1000, 157, id="100 gangs of 50 pods on 1,000 nodes"),
    ],
)
def test_pods_are_packed_on_few_nodes_so_that_whole_nodes_stay_free(
    jobs: int, members: int, nodes: int, most: int
) -> None:
    """`most` is what Volcano uses for pods of 1 cpu on nodes of 32 cpus: as few nodes as possible."""
    gangs = [job(f"gang-{number}", members, cpu=1, memory="256Mi") for number in range(jobs)]
    result = cycle(nodes=machines(nodes, 32, memory="128Gi", pods=256), jobs=gangs)
    assert len(result.bound()) == jobs * members
    assert len(result.bound_per_node()) <= most


QUEUES = [queue("a", 3), queue("b", 1), queue("c", 1)]


def greedy(name: str, count: int = 20) -> JobManifests:
    return job(f"greedy-{name}", count, min_available=0, queue=name)


def test_queues_share_by_weight_when_all_request_more() -> None:
    result = cycle(nodes=machines(10), queues=QUEUES, jobs=[greedy(name) for name in "abc"])
    assert [result.bound_in(name) for name in "abc"] == [6, 2, 2]


def test_a_queue_borrows_what_is_idle_up_to_its_capability() -> None:
    assert cycle(nodes=machines(10), queues=QUEUES, jobs=[greedy("a")]).bound_in("a") == 10
    capped = [queue("a", 3, capability=resources(cpu=7)), *QUEUES[1:]]
    assert cycle(nodes=machines(10), queues=capped, jobs=[greedy("a")]).bound_in("a") == 7


def test_what_was_borrowed_is_reclaimed_when_the_owner_submits() -> None:
    borrowed = job("borrowed", 10, min_available=0, queue="a", on=on(0, 10), phase="Running")
    owner = job("owner", 2, queue="b")
    result = cycle(nodes=machines(10), queues=QUEUES, jobs=[borrowed, owner], preempting=True)
    assert len(result.evicted()) == 2
    assert set(result.nominated()) == {"owner-worker-0", "owner-worker-1"}
    untouched = cycle(nodes=machines(10), queues=QUEUES, jobs=[borrowed, owner])
    assert untouched.evicted() == set(), "the default configuration does not reclaim"


def test_the_freed_room_goes_to_the_owner_and_stays_there() -> None:
    """The cycle after: two of the borrower's pods wait again; the owner's gang starts, and no pod is evicted."""
    left = job("borrowed", 10, min_available=0, queue="a", on=on(0, 8), phase="Running")
    owner = job("owner", 2, queue="b", nominated="n8")
    result = cycle(nodes=machines(10), queues=QUEUES, jobs=[left, owner], preempting=True)
    assert sorted(result.bound()) == ["owner-worker-0", "owner-worker-1"]
    assert result.evicted() == set()


TREE = [
    queue("root"),
    queue("dept-a", 3, parent="root"),
    queue("dept-b", 2, parent="root"),
    queue("team-a1", 2, parent="dept-a"),
    queue("team-a2", 1, parent="dept-a"),
    queue("team-b1", 1, parent="dept-b"),
]


def test_departments_and_teams_share_by_weight() -> None:
    jobs = [greedy(team, 40) for team in ("team-a1", "team-a2", "team-b1")]
    result = cycle(nodes=machines(15), queues=TREE, jobs=jobs)
    assert [result.bound_in(team) for team in ("team-a1", "team-a2", "team-b1")] == [6, 3, 6]


def test_a_teams_idle_part_is_its_siblings_first() -> None:
    result = cycle(nodes=machines(15), queues=TREE, jobs=[greedy("team-a1", 40), greedy("team-b1", 40)])
    assert [result.bound_in(team) for team in ("team-a1", "team-b1")] == [9, 6]


def test_more_important_queues_are_served_first() -> None:
    """Each deserves one and a half cpus, but only one cpu is available."""
    kept_free = {"key": "maintenance", "effect": "NoSchedule"}
    nodes = [node("n0", cpu=2, taints=[kept_free]), node("n1", cpu=1)]
    queues = [queue("dev", priority=1), queue("prod", priority=9)]
    jobs = [job("d", 1, queue="dev", age=9), job("p", 1, queue="prod")]
    assert list(cycle(nodes=nodes, queues=queues, jobs=jobs).bound()) == ["p-worker-0"]


def test_jobs_of_a_queue_are_first_in_first_out_at_equal_priority() -> None:
    jobs = [job(f"j{age}", 1, age=age) for age in (1, 3, 2)]
    assert sorted(cycle(nodes=machines(2), jobs=jobs).bound()) == ["j2-worker-0", "j3-worker-0"]


@pytest.mark.parametrize(
    ("strategy", "bound"),
    [("", ["small-worker-0"]), ("fifo", [])],
    ids=["small jobs overtake", "fifo: no job overtakes"],
)
def test_a_fifo_queue_waits_behind_a_head_that_does_not_fit(strategy: str, bound: list[str]) -> None:
    jobs = [job("large", 5, age=9), job("small", 1)]
    result = cycle(nodes=machines(2), queues=[queue("default", dequeue_strategy=strategy)], jobs=jobs)
    assert sorted(result.bound()) == bound


def test_production_preempts_experiments_in_its_queue() -> None:
    dev = job(
        "dev", 4, min_available=1, priority_class="dev-experiment", priority=100, on=on(0, 4), phase="Running"
    )
    urgent = job("urgent", 2, priority_class="production-training", priority=1000)
    result = cycle(nodes=machines(4), jobs=[dev, urgent], others=CLASSES, preempting=True)
    assert len(result.evicted()) == 2
    assert all(name.startswith("dev-worker") for name in result.evicted())


def test_a_gang_at_its_minimum_is_preempted_as_a_whole() -> None:
    dev = job("dev", 4, priority_class="dev-experiment", priority=100, on=on(0, 4), phase="Running")
    urgent = job("urgent", 2, priority_class="production-training", priority=1000)
    result = cycle(nodes=machines(4), jobs=[dev, urgent], others=CLASSES, preempting=True)
    assert result.evicted() == {f"dev-worker-{i}" for i in range(4)}


def test_surplus_members_go_before_a_gang_is_broken() -> None:
    elastic = job(
        "elastic", 3, min_available=1, priority_class="dev-experiment", on=on(0, 3), phase="Running"
    )
    rigid = job("rigid", 3, priority_class="dev-experiment", on=on(3, 3), phase="Running")
    urgent = job("urgent", 2, priority_class="production-training")
    result = cycle(nodes=machines(6), jobs=[rigid, elastic, urgent], others=CLASSES, preempting=True)
    assert len(result.evicted()) == 2
    assert all(name.startswith("elastic") for name in result.evicted())


def test_equals_do_not_preempt_each_other() -> None:
    first = job("first", 4, priority_class="dev-experiment", on=on(0, 4), phase="Running")
    second = job("second", 2, priority_class="dev-experiment")
    assert cycle(nodes=machines(4), jobs=[first, second], others=CLASSES, preempting=True).evicted() == set()


def test_system_pods_are_never_evicted() -> None:
    dns = job("dns", 4, min_available=0, namespace="kube-system", on=on(0, 4), phase="Running")
    urgent = job("urgent", 1, priority_class="production-training")
    assert cycle(nodes=machines(4), jobs=[dns, urgent], others=CLASSES, preempting=True).evicted() == set()


def test_a_gang_that_can_never_fit_evicts_no_pod() -> None:
    """Four pods of three cpus on nodes of three, five and four: one each, whichever is evicted."""
    nodes = [node("n0", cpu=3), node("n1", cpu=5), node("n2", cpu=4)]
    small = job(
        "small", 3, cpu=1, min_available=1, priority_class="dev-experiment", on=on(0, 3), phase="Running"
    )
    urgent = job("urgent", 4, cpu=3, priority_class="production-training")
    result = cycle(nodes=nodes, jobs=[small, urgent], others=CLASSES, preempting=True)
    assert result.evicted() == set()
