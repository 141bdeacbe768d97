"""drf: the smallest dominant share goes first."""

from typing import Any

import pytest

from tests.builders import job, node, queue, resources
from tests.scenario import schedule, session
from volcano.scheduler.engine.answers import ABSTAIN, EvictionContext, Purpose
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.drf import Drf

HIERARCHY = {"name": "drf", "enableHierarchy": True}


def drf_of(made: Session) -> Drf:
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Drf)
    return plugin


def test_a_jobs_share_is_its_largest_part_of_anything() -> None:
    made = session(
        nodes=[node("n1", cpu=10, memory="100Gi", pods=100)],
        jobs=[job("cpus", 2, cpu=2, memory="1Gi", on="n1"), job("bytes", 1, cpu=1, memory="30Gi", on="n1")],
        plugins=["drf"],
    )
    assert drf_of(made).job_order(made.snapshot.jobs["default/cpus"]) == pytest.approx(0.4)
    assert drf_of(made).job_order(made.snapshot.jobs["default/bytes"]) == pytest.approx(0.3)


def test_jobs_of_a_queue_take_turns_by_share() -> None:
    """Two jobs of one-cpu and three-cpu pods: nine cpus go by share, not by number of pods."""
    result = schedule(
        nodes=[node("n1", cpu=12)],
        jobs=[job("small", 12, min_available=0, cpu=1), job("large", 4, min_available=0, cpu=3)],
        plugins=["gang", "drf", "predicates"],
    )
    names = [name.split("-")[0] for name in result.bound()]
    assert (names.count("small"), names.count("large")) == (6, 2)


def test_the_share_follows_what_the_cycle_does_and_undoes() -> None:
    made = session(nodes=[node("n1", cpu=10)], jobs=[job("a", 2)], plugins=["drf"])
    wanted = made.snapshot.jobs["default/a"]
    with made.ledger.statement():
        made.ledger.allocate(next(iter(wanted.tasks.values())), 0)
        assert drf_of(made).job_order(wanted) == pytest.approx(0.1)
    assert drf_of(made).job_order(wanted) == 0


def victims(running: int, held: int = 0) -> int:
    """How many pods of a job that runs this many one-cpu pods of ten a job that already holds `held` could
    preempt."""
    made = session(
        nodes=[node("n1", cpu=10)],
        jobs=[
            job("taker", held + 1, min_available=0, on=["n1"] * held),
            job("victim", running, min_available=0, on="n1"),
        ],
        plugins=["drf"],
    )
    preemptor, victim = made.snapshot.jobs["default/taker"], made.snapshot.jobs["default/victim"]
    task = next(task for task in preemptor.tasks.values() if not task.node)
    return len(
        drf_of(made).preemptable(
            EvictionContext(Purpose.PREEMPT, preemptor, task), list(victim.tasks.values())
        )
    )


def test_victims_keep_at_least_as_much_as_the_taker_gets() -> None:
    assert victims(4) == 3, "down to one each"
    assert victims(1) == 0
    assert victims(5, held=3) == 1, "down to four each"


def tree(name: str, path: str, weights: str) -> Any:
    return queue(name, annotations={"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})


J13_QUEUES = [
    tree("root-sci", "root/sci", "100/50"),
    tree("root-eng-dev", "root/eng/dev", "100/50/50"),
    tree("root-eng-prod", "root/eng/prod", "100/50/50"),
]


def test_a_group_is_not_charged_for_what_its_members_cannot_use() -> None:
    result = schedule(
        nodes=[node("n1", cpu=10, memory="10G", pods=100)],
        queues=J13_QUEUES,
        jobs=[
            job("sci", 10, min_available=0, cpu=1, memory="1G", queue="root-sci"),
            job("dev", 10, min_available=0, cpu=1, queue="root-eng-dev"),
            job("prod", 10, min_available=0, cpu=None, memory="1G", queue="root-eng-prod"),
        ],
        plugins=["gang", HIERARCHY, "predicates"],
    )
    placed = [result.bound_in(each["metadata"]["name"]) for each in J13_QUEUES]
    assert all(abs(count - 5) <= 1 for count in placed), placed


def test_reclaiming_in_a_tree_takes_from_who_comes_after() -> None:
    made = session(
        nodes=[node("n1", cpu=10, memory="10G")],
        queues=[tree("a", "root/a", "1/1"), tree("b", "root/b", "1/1"), queue("default")],
        jobs=[
            job("runs", 6, min_available=0, queue="a", on="n1"),
            job("new", 5, min_available=0, queue="b"),
        ],
        plugins=[HIERARCHY],
    )
    new, runs = made.snapshot.jobs["default/new"], made.snapshot.jobs["default/runs"]
    context = EvictionContext(Purpose.RECLAIM, new, next(iter(new.tasks.values())))
    plugin = drf_of(made)
    before = plugin.hierarchy.key("a")
    assert len(plugin.reclaimable(context, list(runs.tasks.values()))) == 6  # type: ignore[arg-type]
    assert plugin.hierarchy.key("a") == before, "asking changes nothing"


def test_the_tree_follows_the_ledger_and_its_undo() -> None:
    made = session(
        nodes=[node("n1", cpu=10)],
        queues=J13_QUEUES,
        jobs=[job("sci", 4, queue="root-sci")],
        plugins=[HIERARCHY],
    )
    plugin = drf_of(made)
    wanted = made.snapshot.queues["root-sci"]
    before = plugin.queue_order(wanted)
    with made.ledger.statement():
        for task in made.snapshot.jobs["default/sci"].tasks.values():
            made.ledger.allocate(task, 0)
        assert plugin.queue_order(wanted) != before
    assert plugin.queue_order(wanted) == before


def test_without_the_switch_drf_has_no_opinion_on_queues() -> None:
    made = session(
        nodes=[node("n1")], queues=J13_QUEUES, jobs=[job("sci", 1, queue="root-sci")], plugins=["drf"]
    )
    sci = made.snapshot.jobs["default/sci"]
    context = EvictionContext(Purpose.RECLAIM, sci, next(iter(sci.tasks.values())))
    assert drf_of(made).reclaimable(context, []) is ABSTAIN
    assert len({drf_of(made).queue_order(each) for each in made.snapshot.queues.values()}) == 1


def test_resources_the_cluster_lacks_count_nothing() -> None:
    made = session(nodes=[node("n1", cpu=10)], jobs=[job("g", 1, cpu=1, gpu=1)], plugins=["drf"])
    asked = made.resources.vector({"cpu": 1000.0, "nvidia.com/gpu": 1000.0})
    assert drf_of(made)._dominant_share(asked) == pytest.approx(0.1)
    assert resources(gpu=1) == {"nvidia.com/gpu": "1"}
