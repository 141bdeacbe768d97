"""gangpreempt and gangreclaim, sub-groups, allocate, backfill and enqueue."""

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup, priority_class, queue, resources
from tests.scenario import schedule, session
from volcano.model.decisions import SetPodGroup
from volcano.model.status import Status
from volcano.scheduler.actions.backfill import candidates
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.placement.job_queue import BEHIND
from volcano.scheduler.engine.plugin import Plugin

CLASSES = [priority_class("low", 10), priority_class("high", 1000)]
PLUGINS = ["gang", "priority", "predicates", "conformance"]


def at_minimum(**group: object) -> list[JobManifests]:
    low = job("low", 2, queue="q1", on="n1", priority_class="low", phase="Running", group=group)
    return [low, job("high", 2, queue="q1", priority_class="high")]


@pytest.mark.parametrize(("allowed", "evicted"), [(False, 0), (True, 2)])
def test_a_gang_at_its_minimum_is_evicted_whole_or_not_at_all(allowed: bool, evicted: int) -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)],
        jobs=at_minimum(),
        queues=[queue("q1")],
        others=CLASSES,
        plugins=PLUGINS,
        actions=["gangpreempt"],
        configurations={"gangpreempt": {"allowWholeBundle": allowed}},
    )
    assert len(result.evicted()) == evicted


@pytest.mark.parametrize(("said", "evicted"), [("false", 0), ("true", 2)])
def test_a_podgroup_may_forbid_it(said: str, evicted: int) -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)],
        jobs=at_minimum(annotations={"volcano.sh/preemptable": said}),
        queues=[queue("q1")],
        others=CLASSES,
        plugins=PLUGINS,
        actions=["gangpreempt"],
    )
    assert len(result.evicted()) == evicted


def test_gangreclaim_takes_spare_members_before_whole_gangs() -> None:
    whole = job("whole", 2, queue="q1", on="n1", phase="Running", memory="1Gi")
    spare = job("spare", 4, min_available=1, queue="q1", on="n1", phase="Running", memory="1Gi")
    result = schedule(
        nodes=[node("n1", cpu=6, memory="6Gi")],
        jobs=[whole, spare, job("b", 3, queue="q2", memory="1Gi")],
        queues=[queue("q1"), queue("q2")],
        plugins=["gang", "priority", "conformance", "predicates", "proportion"],
        actions=["gangreclaim"],
    )
    assert result.evicted() == {"spare-worker-0", "spare-worker-1", "spare-worker-2"}
    assert set(result.nominated()) == {"b-worker-0", "b-worker-1", "b-worker-2"}


@pytest.mark.parametrize(("nodes", "bound"), [(4, 0), (5, 5)])
def test_enough_groups_of_every_policy_or_nothing(nodes: int, bound: int) -> None:
    policies = [
        {"name": "masters", "labelSelector": {"matchLabels": {"role": "master"}}, "matchLabelKeys": ["group"],
         "subGroupSize": 1, "minSubGroups": 1},
        {"name": "workers", "labelSelector": {"matchLabels": {"role": "worker"}}, "matchLabelKeys": ["group"],
         "subGroupSize": 2, "minSubGroups": 2},
    ]  # fmt: skip
    pods = [pod("m", cpu=2, group="pg", labels={"role": "master", "group": "m"})]
    pods += [
        pod(f"w{i}", cpu=2, group="pg", labels={"role": "worker", "group": str(i // 2)}) for i in range(4)
    ]
    result = schedule(
        nodes=[node(f"n{i}", cpu=2) for i in range(nodes)],
        podgroups=[podgroup("pg", min_member=5, subGroupPolicy=policies)],
        pods=pods,
        plugins=["gang", "predicates"],
    )
    assert len(result.bound()) == bound


def test_a_gang_that_does_not_fit_has_a_condition_and_starts_when_it_fits() -> None:
    nodes = [node("n1", cpu=2), node("n2", cpu=2)]
    occupant = job("first", 4, on=["n1", "n1", "n2", "n2"], phase="Running")
    waiting = schedule(nodes=nodes, jobs=[occupant, job("second", 4)], plugins=PLUGINS)
    assert waiting.bound() == {}
    assert "0/2 nodes are available: 2 Insufficient cpu." in waiting.condition("second")
    assert waiting.said("second-worker-0") == "0/2 nodes are available: 2 Insufficient cpu."
    assert len(schedule(nodes=nodes, jobs=[job("second", 4)]).bound()) == 4


def test_who_waits_in_a_full_cluster_is_told_so() -> None:
    full = schedule(nodes=[node("n1", cpu=2, memory="2Gi")], jobs=[
        job("first", 2, on="n1", phase="Running", memory="1Gi"), job("second", 2, memory="1Gi")
    ])  # fmt: skip
    diagnosis = full.diagnosis("second")
    assert diagnosis is not None
    assert (diagnosis.stage, diagnosis.message) == (
        "resources",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )


def test_the_second_of_two_jobs_waits_and_the_first_is_not_evicted() -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)], jobs=[job("first", 2, on="n1", phase="Running"), job("second", 2)]
    )
    assert (result.bound(), result.evicted()) == ({}, set())


def test_best_effort_pods_count_towards_the_gang() -> None:
    members = JobManifests(
        podgroup("mixed", min_member=4),
        (*(pod(f"mixed-a-{i}", group="mixed") for i in range(2)),
         *(pod(f"mixed-b-{i}", cpu=None, group="mixed") for i in range(2))),
    )  # fmt: skip
    assert len(schedule(nodes=[node("n1", cpu=2)], jobs=[members]).bound()) == 4


def test_a_job_without_pods_does_not_block_its_queue() -> None:
    idle = job("idle", 1, on="n1", phase="Running", age=60)
    assert set(schedule(nodes=[node("n1")], jobs=[idle, job("busy", 1)]).bound()) == {"busy-worker-0"}


def test_without_enqueue_pending_jobs_are_scheduled() -> None:
    result = schedule(nodes=[node("n1")], jobs=[job("j", 1, phase="Pending")], actions=["allocate"])
    assert set(result.bound()) == {"j-worker-0"}


def test_fifo_waits_behind_a_head_that_cannot_be_placed() -> None:
    jobs = [job("large", 3, age=60), job("small", 1)]
    nodes = [node("n1", cpu=2)]
    assert len(schedule(nodes=nodes, jobs=jobs, queues=[queue("default")]).bound()) == 1
    waiting = schedule(nodes=nodes, jobs=jobs, queues=[queue("default", dequeue_strategy="fifo")])
    assert waiting.bound() == {}
    assert BEHIND.format("default") in waiting.condition("small")


def test_fifo_tells_those_who_wait_for_admission_behind_its_head() -> None:
    jobs = [
        job("large", 3, age=60, phase="Pending", min_resources={"cpu": "3"}),
        job("small", 1, phase="Pending", min_resources={"cpu": "1"}),
    ]
    first_in = queue("default", dequeue_strategy="fifo", capability={"cpu": "2"})
    result = schedule(nodes=[node("n1", cpu=2)], jobs=jobs, queues=[first_in])
    assert [result.phase(name) for name in ("large", "small")] == ["Pending", "Pending"]
    assert result.condition("small") == BEHIND.format("default")


def test_at_equal_terms_the_oldest_job_goes_first() -> None:
    jobs = [job(f"j{i}", 1, age=i * 10) for i in range(3)]
    assert set(schedule(nodes=[node("n1", cpu=1)], jobs=jobs).bound()) == {"j2-worker-0"}


def test_a_closed_queue_takes_nothing() -> None:
    jobs = [job("j", 1), job("new", 1, phase="Pending")]
    result = schedule(nodes=[node("n1")], jobs=jobs, queues=[queue("default", state="Closed")])
    assert result.bound() == {}
    assert result.phase("new") == "Pending"


def test_best_effort_tasks_are_placed_in_order() -> None:
    pods = [
        pod(f"{group}-{kind}-{p}", cpu=None if kind == "be" else 1, group=group, priority=p)
        for group in ("pg1", "pg2")
        for kind, numbers in (("be", (1, 2, 3, 4)), ("cpu", (5, 6)))
        for p in numbers
    ]
    opened = session(
        nodes=[node("n1")],
        podgroups=[podgroup("pg1", priority_class="p1"), podgroup("pg2", priority_class="p2")],
        pods=pods,
        others=[priority_class("p1", 1), priority_class("p2", 2)],
        plugins=["priority"],
    )
    jobs = sorted(opened.snapshot.jobs.values(), key=opened.policy.job_order)
    for task in jobs[0].tasks.values():
        if task.priority in (2, 4):
            opened.ledger.pipeline(task, 0)
    picked = [task.name for job_ in jobs for task in candidates(opened, job_.by_status[Status.PENDING])]
    assert picked == [f"{group}-be-{p}" for group in ("pg2", "pg1") for p in (4, 3, 2, 1)]


def test_a_job_of_a_missing_queue_is_told_so_and_not_admitted() -> None:
    result = schedule(
        jobs=[job("j", 1, queue="c1", phase="Pending")], queues=[queue("c2")], actions=["enqueue"]
    )
    assert result.condition("j") == result.said("j-worker-0") == "queue c1 does not exist"
    assert [d.phase for d in result.decisions if isinstance(d, SetPodGroup)] == [None]


def test_a_running_job_stays_running() -> None:
    result = schedule(
        nodes=[node("n1")],
        jobs=[job("j", 2, on="n1", phase="Running")],
        actions=["enqueue"],
        plugins=["gang"],
    )
    assert result.phase("j") == "Running"


class Rejecting(Plugin):
    """Rejects jobs called pga."""

    def job_enqueueable(self, job: object) -> Vote | Rejection:
        return Vote.REJECT if getattr(job, "name", "") == "pga" else Vote.PERMIT


@pytest.mark.parametrize("rejected_is_older", [True, False])
def test_a_rejected_job_uses_nothing_of_the_queue(rejected_is_older: bool) -> None:
    ages = (60, 0) if rejected_is_older else (0, 60)
    jobs = [
        job(name, 1, phase="Pending", min_resources=resources(cpu=1), age=age)
        for name, age in zip(("pga", "pgb"), ages, strict=True)
    ]
    result = schedule(
        nodes=[node("n1")],
        jobs=jobs,
        queues=[queue("default", capability=resources(cpu=1))],
        plugins=["proportion", f"{__name__}:Rejecting"],
        actions=["enqueue"],
    )
    assert (result.phase("pga"), result.phase("pgb")) == ("Pending", "Inqueue")


def test_action_arguments_come_from_configurations() -> None:
    opened = session(nodes=[node("n1")], plugins=["gang"])
    config: Config = opened.config
    assert config.arguments("allocate").boolean("predicateErrorCacheEnable", True)
