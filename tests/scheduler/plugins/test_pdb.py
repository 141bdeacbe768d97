"""pdb: evictions respect the budgets."""

from collections.abc import Mapping
from typing import Any

from tests.builders import START, JobManifests, job, metadata, node, pod, podgroup, priority_class
from tests.scenario import Result, schedule, session
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.engine.answers import EvictionContext, Purpose


def budget(name: str, allowed: int, disrupted: tuple[str, ...] = (), app: str = "db") -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, "default"),
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2027-01-15T08:00:00Z"),
        },
    }


def victims(*budgets: Manifest, labels: dict[str, str] | None = None) -> list[str]:
    """The pods, of two of the app `db`, that may be evicted."""
    made = session(
        nodes=[node("n1", cpu=10)],
        podgroups=[podgroup("g")],
        pods=[
            pod(f"p{i}", group="g", node="n1", labels={"app": "db"} if labels is None else labels)
            for i in (1, 2)
        ],
        jobs=[job("taker", 1)],
        others=budgets,
        plugins=["pdb"],
    )
    taker = made.snapshot.jobs["default/taker"]
    context = EvictionContext(Purpose.PREEMPT, taker, next(iter(taker.tasks.values())))
    candidates = sorted(made.snapshot.jobs["default/g"].tasks.values(), key=lambda task: task.name)
    return [task.name for task in made.policy.victims(context, candidates)]


def test_a_budget_of_zero_protects_all_pods() -> None:
    assert victims(budget("b", 0)) == []


def test_a_budget_of_one_permits_the_first_candidate() -> None:
    assert victims(budget("b", 1)) == ["p1"]


def test_without_a_budget_all_pods_may_be_evicted() -> None:
    assert victims() == ["p1", "p2"]


def test_every_budget_counts() -> None:
    assert victims(budget("a", 2), budget("b", 1)) == ["p1"]


def test_a_disruption_that_is_counted_already_is_not_counted_again() -> None:
    assert victims(budget("b", 1, disrupted=("p1",))) == ["p1", "p2"]


def test_budgets_of_other_pods_do_not_matter() -> None:
    assert victims(budget("b", 0, app="web")) == ["p1", "p2"]


def test_pods_without_labels_are_never_named() -> None:
    assert victims(labels={}) == []


def preempting(
    wanted: int, allowed: int, memory: Mapping[str, Any] | None = None, now: float = START
) -> Result:
    """One cycle in which a gang of high priority preempts four running pods of the app `db`."""
    running = JobManifests(
        podgroup("low", min_member=1, priority_class="low", phase="Running"),
        tuple(pod(f"low-{i}", group="low", node="n1", labels={"app": "db"}) for i in range(4)),
    )
    return schedule(
        nodes=[node("n1", cpu=4)],
        jobs=[running, job("urgent", wanted, priority_class="high")],
        others=[priority_class("low", 1), priority_class("high", 9), budget("b", allowed)],
        tiers=[["priority", "gang", "pdb"], ["predicates"]],
        actions=["allocate", "preempt"],
        memory=memory,
        now=now,
    )


def test_the_tasks_of_a_gang_share_a_budget() -> None:
    assert len(preempting(2, allowed=2).evicted()) == 2
    assert preempting(3, allowed=2).evicted() == set()


def test_what_a_budget_has_not_counted_yet_is_remembered() -> None:
    memory = preempting(2, allowed=2).outcome.memory
    assert preempting(1, allowed=2, memory=memory).evicted() == set()
    assert len(preempting(1, allowed=1, memory=memory).evicted()) == 1
    assert len(preempting(1, allowed=2, memory=memory, now=START + 60).evicted()) == 1
