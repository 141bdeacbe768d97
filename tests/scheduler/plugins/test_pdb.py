"""pdb: evictions keep to the budgets."""

from tests.builders import job, metadata, node, pod, podgroup
from tests.scenario import session
from volcano.kube.manifest import Manifest
from volcano.scheduler.plugin import Hunt, Purpose


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
    """Of two pods of the app `db`, who may go."""
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
    hunt = Hunt(Purpose.PREEMPT, taker, next(iter(taker.tasks.values())))
    candidates = sorted(made.snapshot.jobs["default/g"].tasks.values(), key=lambda task: task.name)
    return [task.name for task in made.policy.victims(hunt, candidates)]


def test_j10_a_budget_of_nothing_lets_nobody_go() -> None:
    assert victims(budget("b", 0)) == []


def test_j10_a_budget_of_one_lets_the_first_go() -> None:
    assert victims(budget("b", 1)) == ["p1"]


def test_j10_without_a_budget_everybody_may_go() -> None:
    assert victims() == ["p1", "p2"]


def test_every_budget_counts() -> None:
    assert victims(budget("a", 2), budget("b", 1)) == ["p1"]


def test_a_disruption_that_is_counted_already_is_not_counted_again() -> None:
    assert victims(budget("b", 1, disrupted=("p1",))) == ["p1", "p2"]


def test_budgets_of_other_pods_do_not_matter() -> None:
    assert victims(budget("b", 0, app="web")) == ["p1", "p2"]


def test_pods_without_labels_are_never_named() -> None:
    assert victims(labels={}) == []
