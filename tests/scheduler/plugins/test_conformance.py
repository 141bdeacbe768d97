"""conformance: system pods go first and are never evicted."""

import pytest

from tests.builders import job, node, pod, podgroup, priority_class
from tests.scenario import schedule, session
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.plugins.conformance import Conformance

TIERS = (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder", "binpack"))


def test_the_system_goes_before_jobs_of_any_priority() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        jobs=[job("urgent", 1, priority_class="high"), job("dns", 1, namespace="kube-system")],
        others=[priority_class("high", 1000)],
        tiers=TIERS,
    )
    assert list(result.bound()) == ["dns-worker-0"]


@pytest.mark.parametrize("purpose", list(Purpose))
def test_the_system_is_never_a_victim(purpose: Purpose) -> None:
    made = session(
        nodes=[node("n1", cpu=10)],
        podgroups=[podgroup("sys", namespace="kube-system"), podgroup("mixed")],
        pods=[
            pod("dns", group="sys", namespace="kube-system", node="n1"),
            pod("critical", group="mixed", node="n1", priority_class="system-node-critical"),
            pod("plain", group="mixed", node="n1"),
        ],
        jobs=[job("taker", 1)],
        plugins=["conformance"],
    )
    taker = made.snapshot.jobs["default/taker"]
    context = EvictionContext(purpose, taker, next(iter(taker.tasks.values())))
    candidates = [task for task in made.ledger.tasks_on(0) if task.job]
    assert [task.name for task in made.policy.victims(context, candidates)] == ["plain"]


def test_a_refusal_by_conformance_is_not_overruled_by_a_later_tier() -> None:
    made = session(
        nodes=[node("n1", cpu=10)],
        jobs=[job("dns", 2, min_available=0, namespace="kube-system", on="n1"), job("taker", 1)],
        tiers=[["conformance"], ["drf"]],
    )
    taker = made.snapshot.jobs["default/taker"]
    context = EvictionContext(Purpose.PREEMPT, taker, next(iter(taker.tasks.values())))
    assert isinstance(made.policy.plugins[0], Conformance)
    assert made.policy.victims(context, list(made.ledger.tasks_on(0))) == []
