"""Incremental counts of placed pods equal a fresh count, also after an undo."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import node, pod, podgroup
from tests.scenario import session
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates import Predicates, affinity, spread

APPS = ("db", "web")


def affinity_of(app: str, kind: str) -> dict[str, Any]:
    """A pod spec that is near, apart from, or spread among the pods of an app, by zone."""
    if kind == "spread":
        constraint = {
            "topologyKey": "zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        return {"topologySpreadConstraints": [constraint]}
    terms = [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}} if kind else {}


KINDS = ("", "podAffinity", "podAntiAffinity", "spread")
PODS = st.lists(
    st.tuples(st.sampled_from(APPS), st.sampled_from(APPS), st.sampled_from(KINDS), st.integers(-1, 5)),
    min_size=1,
    max_size=8,
)
STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5), st.booleans()), max_size=8)


def cluster(pods: list[tuple[str, str, str, int]]) -> tuple[Session, Predicates, list[Task]]:
    """Six nodes, four of them in two zones; each pod has an app, affinity to an app, and perhaps a node."""
    zones = ("x", "x", "y", "y", "", "")
    made = session(
        nodes=[
            node(f"n{row}", cpu=100, labels={"zone": zone} if zone else {}) for row, zone in enumerate(zones)
        ],
        podgroups=[podgroup("g", min_member=0)],
        pods=[
            pod(
                f"p{i}",
                group="g",
                labels={"app": app},
                spec=affinity_of(about, kind),
                node=f"n{row}" if row >= 0 else "",
            )
            for i, (app, about, kind, row) in enumerate(pods)
        ],
        plugins=["predicates"],
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Predicates)
    tasks = sorted(made.snapshot.jobs["default/g"].tasks.values(), key=lambda task: task.name)
    return made, plugin, tasks


def placed(made: Session) -> list[tuple[Task, str]]:
    """All placed pods that are not evicted, with their zone."""
    return [
        (task, made.snapshot.nodes[row].labels.get("zone", ""))
        for row in range(len(made.snapshot.nodes))
        for task in made.ledger.tasks_on(row)
        if made.ledger.status(task) is not Status.RELEASING
    ]


def plain(made: Session, task: Task, row: int) -> list[str]:
    """The scalar twin: why one pod may not be placed on one node, by comparing it with every other pod."""
    zone = made.snapshot.nodes[row].labels.get("zone", "")
    others, constraints, reasons = placed(made), task.shape.constraints, []
    for term in constraints.required_near:
        wanted = [where for other, where in others if term.selector.matches(other.labels) and where]
        first = not wanted and term.selector.matches(task.labels)
        if not zone or not (first or zone in wanted):
            reasons.append(affinity.AFFINITY_MISMATCH)
    for term in constraints.required_apart:
        if zone and any(where == zone and term.selector.matches(other.labels) for other, where in others):
            reasons.append(affinity.ANTI_AFFINITY_MISMATCH)
    for other, where in others:
        if (
            zone
            and where == zone
            and any(term.selector.matches(task.labels) for term in other.shape.constraints.required_apart)
        ):
            reasons.append(affinity.EXISTING_ANTI_AFFINITY_MISMATCH)
            break
    for constraint in constraints.spread:
        counts = dict.fromkeys("xy", 0)
        for other, where in others:
            if where and constraint.selector.matches(other.labels):
                counts[where] += 1
        if (
            zone
            and counts[zone] + constraint.selector.matches(task.labels) - min(counts.values())
            > constraint.max_skew
        ):
            reasons.append(spread.SKEWED)
    return reasons


def check(made: Session, task: Task) -> None:
    answers = made.policy.reject_nodes_now(task, made.nodes) or []
    for row in range(len(made.nodes)):
        found = sorted(reject.reason for reject in answers if reject.mask[row])
        assert found == sorted(plain(made, task, row)), (task.name, row)


@settings(max_examples=60, deadline=None)
@given(pods=PODS, steps=STEPS)
def test_answers_agree_with_looking_at_every_pod(
    pods: list[tuple[str, str, str, int]], steps: list[Any]
) -> None:
    made, _, tasks = cluster(pods)
    with made.ledger.statement() as kept:
        for which, row, ask in steps:
            task = tasks[which % len(tasks)]
            if made.ledger.status(task) is Status.PENDING:
                made.ledger.allocate(task, row)
            elif made.ledger.status(task) is Status.RUNNING:
                made.ledger.evict(task, "test")
            if ask:
                check(made, tasks[row % len(tasks)])
        kept.commit()
    for task in tasks:
        if made.ledger.status(task) is Status.PENDING:
            check(made, task)


@settings(max_examples=40, deadline=None)
@given(pods=PODS, steps=STEPS)
def test_undoing_leaves_no_trace(pods: list[tuple[str, str, str, int]], steps: list[Any]) -> None:
    made, _, tasks = cluster(pods)
    with made.ledger.statement():
        for which, row, ask in steps:
            task = tasks[which % len(tasks)]
            if made.ledger.status(task) is Status.PENDING:
                made.ledger.allocate(task, row)
            elif made.ledger.status(task) is Status.RUNNING:
                made.ledger.evict(task, "test")
            if ask:
                made.policy.reject_nodes_now(tasks[row % len(tasks)], made.nodes)
    for task in tasks:
        if made.ledger.status(task) is Status.PENDING:
            check(made, task)
