"""proportion: shares by weight, borrowing and reclaiming, with the default tiers."""

from typing import Any

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup, queue, resources
from tests.scenario import schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.model.job import Job
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.plugins.proportion import Proportion

PREEMPTING = ("enqueue", "allocate", "preempt", "reclaim", "backfill")


def shares(cpus: float, queues: list[Manifest], jobs: list[JobManifests]) -> dict[str, float]:
    """The cpus each queue deserves."""
    made = session(nodes=[node("n1", cpu=cpus)], queues=queues, jobs=jobs, plugins=["proportion"])
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Proportion)
    return {name: round(float(amount[0]) / 1000, 6) for name, amount in plugin.deserved.items()}


def greedy(name: str, cpus: int = 100) -> JobManifests:
    """A job in the queue of that name that requests more than the cluster has."""
    return job(f"greedy-{name}", cpus, min_available=0, queue=name)


# -- what a queue deserves --------------------------------------------------------------------------------------


def test_a_share_is_weight_over_total_when_all_request_more() -> None:
    queues = [queue("a", 3), queue("b", 1), queue("c", 1)]
    found = shares(100, queues, [greedy(name) for name in "abc"])
    assert (found["a"], found["b"], found["c"]) == (60, 20, 20)


def test_idle_queues_lend_their_share() -> None:
    found = shares(100, [queue("a", 3), queue("b", 1), queue("c", 1)], [greedy("a", 200)])
    assert found["a"] == 100


def test_borrowing_ends_at_the_capability() -> None:
    queues = [queue("a", 3, capability=resources(cpu=70)), queue("b", 1)]
    assert shares(100, queues, [greedy("a", 200)])["a"] == 70


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        pytest.param(None, {"q1": 2, "q2": 10}, id="the rest goes to the queue that requests it"),
        pytest.param(6, {"q1": 2, "q2": 6}, id="four cpus stay unassigned"),
    ],
)
def test_water_filling(capability: int | None, expected: dict[str, float]) -> None:
    limit = resources(cpu=capability) if capability else None
    found = shares(12, [queue("q1"), queue("q2", capability=limit)], [greedy("q1", 2), greedy("q2", 20)])
    assert {name: found[name] for name in expected} == expected


def test_without_a_capability_a_queue_may_have_all_but_the_others_guarantees() -> None:
    queues = [queue("a"), queue("b", guarantee=resources(cpu=4)), queue("c", guarantee=resources(cpu=1))]
    assert shares(10, queues, [greedy("a")])["a"] == 5


def test_guarantees_are_kept_free_even_from_several_queues_together() -> None:
    queues = [queue("a"), queue("b"), queue("idle", guarantee=resources(cpu=4))]
    found = shares(10, queues, [greedy("a"), greedy("b")])
    assert found["a"] + found["b"] == 6
    assert found["idle"] == 4


SEEDS_TREE = [
    queue("dept-a", 3, parent="root"),
    queue("dept-b", 2, parent="root"),
    queue("team-a1", 2, parent="dept-a"),
    queue("team-a2", 1, parent="dept-a"),
    queue("team-b1", 1, parent="dept-b"),
    queue("root"),
]


def test_a_parents_share_is_divided_among_its_children() -> None:
    found = shares(90, SEEDS_TREE, [greedy(team) for team in ("team-a1", "team-a2", "team-b1")])
    assert found["dept-a"] == pytest.approx(90 * 3 / 5)
    assert found["team-a1"] == pytest.approx(90 * 3 / 5 * 2 / 3)
    assert found["team-b1"] == pytest.approx(36)


def test_siblings_borrow_first() -> None:
    found = shares(90, SEEDS_TREE, [greedy("team-a1"), greedy("team-b1")])
    assert (found["team-a1"], found["team-b1"]) == (54, 36)


def test_a_parents_capability_binds_its_children() -> None:
    queues = [
        queue("root"),
        queue("dept", parent="root", capability=resources(cpu=10)),
        queue("t1", parent="dept"),
        queue("t2", parent="dept"),
    ]
    found = shares(100, queues, [greedy("t1"), greedy("t2")])
    assert (found["t1"], found["t2"]) == (5, 5)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([queue("a", parent="missing")], id="the parent does not exist"),
        pytest.param([queue("a", parent="b"), queue("b", parent="a")], id="a circle"),
    ],
)
def test_a_broken_tree_still_serves_its_queues(broken: list[Manifest]) -> None:
    assert shares(10, broken, [greedy("a")])["a"] == 10


# -- limits
# ---------------------------------------------------------------------------------------------------


def bound(cpus: int, queues: list[Manifest], jobs: list[JobManifests], **more: Any) -> dict[str, int]:
    """How many pods of each queue were bound, with the default tiers."""
    result = schedule(nodes=[node("n1", cpu=cpus, memory="100Gi")], queues=queues, jobs=jobs, **more)
    return {each["metadata"]["name"]: result.bound_in(each["metadata"]["name"]) for each in queues}


def test_queues_get_what_they_deserve() -> None:
    queues = [queue("a", 3), queue("b", 1), queue("c", 1)]
    assert bound(10, queues, [greedy(name) for name in "abc"]) == {"a": 6, "b": 2, "c": 2}


def test_equal_queues_share_equally_and_the_first_pods_go_first() -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)],
        queues=[queue("c1"), queue("c2")],
        podgroups=[podgroup("pg1", queue="c1", min_member=0), podgroup("pg2", queue="c2", min_member=0)],
        pods=[pod(f"{group}-p-{i}", group=group) for group in ("pg1", "pg2") for i in (1, 2)],
        plugins=["gang", "drf", "proportion", "predicates", "nodeorder"],
    )
    assert sorted(result.bound()) == ["pg1-p-1", "pg2-p-1"]


def test_a_queue_whose_job_fits_nowhere_blocks_no_other() -> None:
    assert bound(
        2, [queue("c1"), queue("c2")], [job("big", 1, cpu=3, queue="c1"), job("fits", 1, queue="c2")]
    ) == {
        "c1": 0,
        "c2": 1,
    }


def test_the_queue_with_the_smaller_share_goes_first() -> None:
    only_order = {"name": "proportion", "enabledAllocatable": False}
    result = schedule(
        nodes=[node("n1", cpu=5)],
        queues=[queue("q-1"), queue("q-2")],
        jobs=[
            job("runs", 1, queue="q-1", on="n1"),
            job("more", 1, cpu=2, queue="q-1"),
            job("wants", 1, cpu=3, queue="q-2"),
        ],
        plugins=["gang", only_order, "predicates"],
    )
    assert list(result.bound()) == ["wants-worker-0"]


def test_queues_of_higher_priority_go_first() -> None:
    queues = [queue("q1", priority=5), queue("q2", priority=1), queue("q3", priority=10)]
    only_order = {"name": "proportion", "enabledAllocatable": False}
    result = schedule(
        nodes=[node("n1", cpu=1)],
        queues=queues,
        jobs=[job("low", 1, queue="q2"), job("high", 1, queue="q3")],
        plugins=["gang", only_order, "predicates"],
    )
    assert list(result.bound()) == ["high-worker-0"]


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_closed_queues_take_nothing(state: str) -> None:
    jobs = [job("late", 1, queue="shut", phase="Pending", min_resources=resources(cpu=1))]
    result = schedule(nodes=[node("n1")], queues=[queue("shut", state=state)], jobs=jobs)
    assert result.phase("late") == "Pending", "a closed queue"
    assert result.bound() == {}
    admitted = [job("late", 1, queue="shut")]
    assert schedule(nodes=[node("n1")], queues=[queue("shut", state=state)], jobs=admitted).bound() == {}


def running(name: str, cpu: int, memory: str, **more: Any) -> JobManifests:
    """A job that holds exactly its minimum."""
    held = resources(cpu=cpu, memory=memory)
    return job(name, 1, cpu=cpu, memory=memory, min_resources=held, phase="Running", **more)


def with_limits(
    name: str, cpu: int | None, memory: str | None, switches: dict[str, bool] | None = None
) -> Any:
    """Two 2c,2G nodes; q1(2c,2G) runs 1c,2G on n1 and q2(3c,3G) runs 2c,1G on n2; a pending job in queue `name`."""
    wanted = resources(cpu=cpu, memory=memory)
    return schedule(
        nodes=[node("n1", 2, "2G", pods=10), node("n2", 2, "2G", pods=10)],
        queues=[
            queue("q1", capability=resources(cpu=2, memory="2G")),
            queue("q2", capability=resources(cpu=3, memory="3G")),
        ],
        jobs=[
            running("r1", 1, "2G", queue="q1", on="n1"),
            running("r2", 2, "1G", queue="q2", on="n2"),
            job("new", 1, cpu=cpu, memory=memory, queue=name, phase="Pending", min_resources=wanted),
        ],
        plugins=["gang", "predicates", {"name": "proportion", **(switches or {})}],
        actions=("enqueue", "allocate"),
    )


def test_only_requested_resources_count() -> None:
    assert with_limits("q1", 1, None).bound() == {"new-worker-0": "n1"}
    assert with_limits("q2", None, "1G").bound() == {"new-worker-0": "n2"}


def test_a_job_beyond_the_capability_is_neither_admitted_nor_placed() -> None:
    rejected = with_limits("q1", 1, "1G", {"enabledAllocatable": False})
    assert rejected.phase("new") == "Pending"
    assert "insufficient memory" in " ".join(rejected.events("new"))
    admitted = with_limits("q1", 1, "1G", {"enableJobEnqueued": False})
    assert admitted.phase("new") == "Inqueue"
    assert admitted.bound() == {}


@pytest.mark.parametrize(("guaranteed", "wanted"), [(8, 1), (4, 6)], ids=["all of it", "half of it"])
def test_the_guarantee_of_another_queue_is_not_available(guaranteed: int, wanted: int) -> None:
    result = schedule(
        nodes=[node("n1", cpu=8)],
        queues=[queue("q1", guarantee=resources(cpu=guaranteed)), queue("q2")],
        jobs=[job("new", 1, cpu=wanted, queue="q2", phase="Pending", min_resources=resources(cpu=wanted))],
    )
    assert result.phase("new") == "Pending"
    assert result.bound() == {}


def test_a_job_larger_than_its_queue_is_not_admitted() -> None:
    result = schedule(
        nodes=[node("n1", cpu=10)],
        queues=[queue("c1", capability=resources(cpu=1, memory="1G"))],
        podgroups=[podgroup("pg", queue="c1", phase="Pending", min_resources=resources(cpu=8, memory="8G"))],
        plugins=["proportion"],
        actions=["enqueue"],
    )
    assert result.phase("pg") == "Pending"


def test_jobs_without_minimum_resources_are_admitted() -> None:
    queues = [queue(name, capability=resources(cpu=4, memory="4G")) for name in ("q1", "q2")]
    groups = [podgroup(f"pg-{name}", queue=name, phase="Pending") for name in ("q1", "q2")]
    result = schedule(
        nodes=[node("n1")], queues=queues, podgroups=groups, plugins=["proportion"], actions=["enqueue"]
    )
    assert [result.phase(f"pg-{name}") for name in ("q1", "q2")] == ["Inqueue", "Inqueue"]


def test_running_pods_are_not_counted_again() -> None:
    """Job A's pods are bound but its PodGroup is still Inqueue: its minimum must not be counted twice."""
    result = schedule(
        nodes=[node("n1", cpu=8)],
        queues=[queue("q", capability=resources(cpu=4))],
        jobs=[
            job("a", 3, queue="q", min_resources=resources(cpu=3), on="n1", phase="Inqueue"),
            job("b", 1, queue="q", min_resources=resources(cpu=1), phase="Pending"),
        ],
        plugins=["gang", "predicates", "proportion"],
        actions=["enqueue", "allocate"],
    )
    assert result.bound() == {"b-worker-0": "n1"}


def test_gated_pods_reserve_nothing() -> None:
    half, whole = resources(cpu=4), resources(cpu=8)
    result = schedule(
        nodes=[node("n1", cpu=8)],
        jobs=[
            job("gated", 8, min_resources=whole, phase="Pending", gates=["example.com/wait"], age=9),
            *(job(f"half-{i}", 4, min_resources=half, phase="Pending") for i in range(2)),
        ],
        plugins=["gang", "predicates", "proportion"],
    )
    assert {result.phase(name) for name in ("gated", "half-0", "half-1")} <= {"Inqueue", "Running"}
    assert len(result.bound()) == 8


def test_a_share_that_does_not_divide_evenly_is_still_met_exactly() -> None:
    """Thirds of bytes are no whole numbers; a queue must get the pods that exactly fill its part."""
    queues = [queue(name) for name in "abc"]
    jobs = [job(name, 10, cpu=None, memory="1Gi", min_available=0, queue=name) for name in "abc"]
    result = schedule(nodes=[node("n1", cpu=9, memory="9Gi")], queues=queues, jobs=jobs)
    assert [result.bound_in(name) for name in "abc"] == [3, 3, 3]


def test_jobs_of_a_queue_go_in_the_order_they_came() -> None:
    jobs = [job("young", 1, age=1), job("old", 1, age=9)]
    assert list(schedule(nodes=[node("n1", cpu=1)], jobs=jobs).bound()) == ["old-worker-0"]


class RejectA(Plugin):
    """A third-party plugin that rejects the job `pga`."""

    def job_enqueueable(self, job: Job) -> Vote:
        return Vote.REJECT if job.name == "pga" else Vote.PERMIT


@pytest.mark.parametrize("ages", [(1, 2), (2, 1)])
@pytest.mark.parametrize("first", [True, False])
def test_a_job_that_another_plugin_rejects_uses_nothing_of_the_queue(
    ages: tuple[int, int], first: bool
) -> None:
    refusing = f"{RejectA.__module__}:RejectA"
    groups = [
        podgroup(name, queue="q", phase="Pending", min_resources=resources(cpu=1), age=age)
        for name, age in zip(("pga", "pgb"), ages, strict=True)
    ]
    result = schedule(
        nodes=[node("n1")],
        queues=[queue("q", capability=resources(cpu=1))],
        podgroups=groups,
        plugins=[refusing, "proportion"] if first else ["proportion", refusing],
        actions=["enqueue"],
    )
    assert (result.phase("pga"), result.phase("pgb")) == ("Pending", "Inqueue")


def test_a_queue_no_longer_holds_deleted_pods() -> None:
    both = [
        job("a", 2, queue="q", on="n1", phase="Running"),
        job("b", 1, queue="q", on="n1", phase="Running"),
    ]
    nodes, queues = [node("n1", cpu=8)], [queue("q")]
    assert schedule(nodes=nodes, queues=queues, jobs=both).allocated("q")["cpu"] == "3"
    assert schedule(nodes=nodes, queues=queues, jobs=both[:1]).allocated("q")["cpu"] == "2"
