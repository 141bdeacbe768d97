"""task-topology: tasks with affinity share a node."""

from collections import Counter
from typing import Any

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup
from tests.scenario import Result, schedule, session
from volcano.scheduler.plugins.task_topology import TaskTopology

AFFINITY, ANTI = "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity"
PLUGINS: list[Any] = ["gang", "predicates", "nodeorder"]


def training(name: str, annotations: dict[str, str] | None = None) -> JobManifests:
    """A job of 2 parameter servers and 4 workers."""
    roles = ["ps"] * 2 + ["worker"] * 4
    pods = tuple(pod(f"{name}-{role}-{i}", group=name, role=role) for i, role in enumerate(roles))
    return JobManifests(podgroup(name, min_member=6, annotations=annotations), pods)


TOGETHER = {AFFINITY: "ps,worker", ANTI: "ps"}


def pairs(result: Result) -> int:
    """How many workers run beside a parameter server of their job."""
    by_place: dict[tuple[str, str], Counter[str]] = {}
    for name, where in result.bound().items():
        train, role, _ = name.rsplit("-", 2)
        by_place.setdefault((train, where), Counter())[role] += 1
    return sum(found["worker"] for found in by_place.values() if found["ps"])


def cycle(annotations: dict[str, str] | None, *plugins: Any) -> Result:
    return schedule(
        nodes=[node(f"n{i}", cpu=3) for i in range(6)],
        jobs=[training(f"train{i}", annotations) for i in range(3)],
        plugins=[*PLUGINS, *plugins],
    )


def test_workers_run_beside_their_parameter_server() -> None:
    topology = {"name": "task-topology", "arguments": {"task-topology.weight": 10}}
    together = cycle(TOGETHER, topology, "binpack")
    assert len(together.bound()) == 18
    assert pairs(together) == 12, "every worker has its server on its node"
    assert pairs(cycle(TOGETHER, "binpack")) < 12


def test_without_wishes_nothing_changes() -> None:
    assert cycle(None, "task-topology").bound() == cycle(None).bound()


@pytest.mark.parametrize(
    "annotations", [{AFFINITY: "ps,driver"}, {AFFINITY: "ps,ps"}], ids=["unknown", "repeated"]
)
def test_malformed_annotations_have_no_effect(annotations: dict[str, str]) -> None:
    assert cycle(annotations, "task-topology").bound() == cycle(None).bound()


def test_scores_count_who_is_there_and_who_could_join() -> None:
    made = session(
        nodes=[node("a", cpu=4), node("b", cpu=1), node("c", cpu=1)],
        podgroups=[podgroup("t", annotations=TOGETHER)],
        pods=[
            pod("t-ps-0", group="t", role="ps", node="b", cpu="500m"),
            pod("t-worker-0", group="t", role="worker", cpu="500m"),
            pod("t-worker-1", group="t", role="worker", cpu="500m"),
        ],
        plugins=["task-topology"],
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, TaskTopology)
    task = next(t for t in made.snapshot.jobs["default/t"].tasks.values() if t.name == "t-worker-0")
    # The bucket has three tasks: one is on b, where one more fits; both pending ones fit on a and c.
    scores = plugin.score_nodes_together(task, made.nodes)
    assert scores is not None
    assert scores.tolist() == pytest.approx([200 / 3, 200 / 3, 200 / 3])
    with made.ledger.statement():
        made.ledger.allocate(task, 0)
        other = next(t for t in made.snapshot.jobs["default/t"].tasks.values() if t.name == "t-worker-1")
        after = plugin.score_nodes_together(other, made.nodes)
        assert after is not None
        assert after.tolist() == pytest.approx([200 / 3, 200 / 3, 100 / 3])
    again = plugin.score_nodes_together(task, made.nodes)
    assert again is not None
    assert again.tolist() == scores.tolist(), "an undo leaves no trace"


def test_jobs_without_roles_are_placed_in_runs() -> None:
    made = session(nodes=[node("a")], jobs=[job("plain", 2)], plugins=["task-topology"])
    task = next(iter(made.snapshot.jobs["default/plain"].tasks.values()))
    assert made.policy.score_nodes_together(task, made.nodes) is None
