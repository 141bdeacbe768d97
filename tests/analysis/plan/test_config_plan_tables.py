"""Tables of the plan of a configuration."""

from tests.builders import START, job, node, priority_class
from tests.scenario import cluster_of
from volcano.analysis.plan.config_plan import config_plan
from volcano.analysis.plan.tables import sections, waiting_sentence
from volcano.analysis.rerun.state import ClusterState
from volcano.scheduler.engine.config import parse, shipped

PRESENT = parse(shipped())


def test_the_plan_of_the_same_configuration_has_no_tables() -> None:
    plan = config_plan(state(), PRESENT, PRESENT)
    assert plan.changes_nothing
    assert sections(plan) == []
    assert waiting_sentence(plan) == "1 job waits with both configurations."


def test_a_configuration_that_preempts_has_a_start_an_eviction_and_no_job_that_waits() -> None:
    plan = config_plan(state(), PRESENT, parse(shipped("volcano-scheduler-preempt.conf")))
    assert waiting_sentence(plan) == ""
    texts = {
        section.title: [[column.value(row) for column in section.columns] for row in section.rows]
        for section in sections(plan)
    }
    assert texts["Jobs that would start"] == [["default/urgent", "default", "no"]]
    ((_, evicted, _, beneficiary, anyway),) = texts["Pods that would be evicted"]
    assert (evicted, beneficiary, anyway) == ("default/old", "default/urgent", "no")


def state() -> ClusterState:
    """A node that a job of low priority fills, and a job of high priority that waits."""
    classes = [priority_class("low", 1), priority_class("high", 100)]
    jobs = [
        job("old", 4, on="n1", priority_class="low", min_available=1),
        job("urgent", priority_class="high"),
    ]
    return ClusterState(cluster_of(nodes=[node("n1")], jobs=jobs, others=classes), START, seed=5)
