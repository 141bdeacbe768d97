"""A job that waits because of its priority: summary, step, amounts and subject of its explanation."""

from tests.builders import START, job, node, priority_class
from tests.scenario import cluster_of
from volcano.analysis.explain.case import Case
from volcano.analysis.explain.explanations import Diagnosis
from volcano.analysis.explain.job import explain_job
from volcano.analysis.rerun.state import ClusterState
from volcano.scheduler.engine.config import PRESETS, parse, shipped


def test_the_explanation_names_the_job_of_higher_priority() -> None:
    cluster = cluster_of(
        nodes=[node("n1"), node("n2")],
        jobs=[
            job("high", 2, cpu=4, on=["n1", "n2"], priority_class="high"),
            job("low", cpu=4, priority_class="low"),
        ],
        others=[priority_class("high", 100), priority_class("low", 5)],
    )
    found = explain_job(Case(ClusterState(cluster, START), parse(shipped(PRESETS["preempt"]))), "default/low")
    text = "jobs of higher priority hold what it needs: default/high has 100, it has 5"
    assert found.summary == f"low is held back by a limit or an order: {text}."
    assert isinstance(found.diagnosis, Diagnosis)
    assert (found.diagnosis.code, found.diagnosis.class_) == ("LowPriority", "POLICY")
    assert found.diagnosis.subject == "job default/high of priority 100"
    steps = {each.step: each for each in found.steps}
    assert (steps["priority"].ok, steps["priority"].text) == (False, text)
    (amount,) = steps["priority"].amounts
    assert (amount.resource, amount.need, amount.have, amount.limit) == ("cpu", "4", "0", "8")
