"""binpack: fuller nodes score higher, as long as the task fits."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import node, pod, podgroup
from tests.scenario import schedule, session
from volcano.model.resources import ResourceIndex, Vector
from volcano.scheduler.plugins.binpack import Binpack

FOO = "example.com/foo"


def scores(
    arguments: dict[str, Any], asked: dict[str, Any], nodes: list[dict[str, Any]], held: dict[str, Any]
) -> list[float]:
    """The score of each node for a pod with this request; `held` is what already runs on n0, n1, …"""
    running = [pod(f"there-{name}", **amounts, node=name) for name, amounts in held.items()]
    made = session(
        nodes=[node(f"n{i}", **amounts) for i, amounts in enumerate(nodes)],
        pods=[pod("new", **asked, group="g"), *running],
        podgroups=[podgroup("g")],
        plugins=[{"name": "binpack", "arguments": arguments}],
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Binpack)
    task = next(t for job in made.snapshot.jobs.values() for t in job.tasks.values() if t.name == "new")
    found: list[float] = plugin.score_nodes(task, made.nodes).tolist()
    return found


WEIGHTS = {
    "binpack.weight": 10,
    "binpack.cpu": 2,
    "binpack.memory": 3,
    "binpack.resources": f"nvidia.com/gpu, {FOO}",
    "binpack.resources.nvidia.com/gpu": 7,
    f"binpack.resources.{FOO}": 8,
}


def test_the_weighted_mean_of_how_full_a_node_would_be() -> None:
    found = scores(
        WEIGHTS,
        {"cpu": 1, "memory": "1Gi"},
        [{"cpu": 2, "memory": "4Gi"}, {"cpu": 4, "memory": "16Gi"}, {"cpu": 2, "memory": "4Gi"}],
        {"n0": {"cpu": 1, "memory": "1Gi"}, "n2": {"cpu": 1.5, "memory": None}},
    )
    assert found == pytest.approx([700, 137.5, 0])


def test_a_heavy_resource_decides() -> None:
    found = scores(
        {"binpack.resources": "nvidia.com/gpu", "binpack.resources.nvidia.com/gpu": 23},
        {"cpu": 2, "memory": "10Gi", "gpu": 2},
        [{"cpu": 4, "memory": "16Gi", "gpu": 4}],
        {},
    )
    assert found == pytest.approx([50.5])


@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        pytest.param({}, 50, id="usual weights are 1"),
        pytest.param({"binpack.weight": 0}, 0, id="weight 0 turns it off"),
        pytest.param({"binpack.weight": 2, "binpack.cpu": -5}, 100, id="a negative weight counts as 1"),
        pytest.param({"binpack.cpu": 0}, 75, id="a resource of weight 0 does not count"),
    ],
)
def test_weights(arguments: dict[str, int], score: float) -> None:
    assert scores(arguments, {"cpu": 1, "memory": "6Gi"}, [{"cpu": 4, "memory": "8Gi"}], {}) == pytest.approx(
        [score]
    )


def test_the_documented_weights_pack_gpu_jobs() -> None:
    """The documented example weights: gpu counts twice."""
    packing = {
        "name": "binpack",
        "arguments": {
            "binpack.weight": 10,
            "binpack.cpu": 1,
            "binpack.memory": 1,
            "binpack.resources": "nvidia.com/gpu",
            "binpack.resources.nvidia.com/gpu": 2,
        },
    }
    result = schedule(
        nodes=[node(f"n{i}", cpu=8, memory="32Gi", gpu=4) for i in range(3)],
        pods=[
            pod("there", 1, "1Gi", gpu=1, node="n1"),
            *(pod(f"new-{i}", 1, "1Gi", gpu=1, group="g") for i in range(3)),
        ],
        podgroups=[podgroup("g")],
        plugins=["predicates", packing],
    )
    assert set(result.bound().values()) == {"n1"}


def plain_score(request: Vector, room: Vector, used: Vector, weights: Vector) -> float:
    """The scalar twin: one node, one resource after the other."""
    score, total = 0.0, 0.0
    for asked, capacity, taken, weight in zip(request, room, used, weights, strict=True):
        if asked <= 0 or weight <= 0:
            continue
        total += weight
        if capacity == 0:
            continue
        if taken + asked > capacity:
            return 0.0
        score += weight * (taken + asked) / capacity
    return 100 * score / total if total else 0.0


AMOUNTS = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 4))


@settings(deadline=None)
@given(asked=AMOUNTS, nodes=st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5))
def test_scoring_all_nodes_agrees_with_scoring_each(
    asked: tuple[int, int, int], nodes: list[tuple[tuple[int, int, int], tuple[int, int, int]]]
) -> None:
    made = session(
        nodes=[
            node(f"n{i}", cpu=room[0], memory=f"{room[1]}Gi", gpu=room[2])
            for i, (room, _) in enumerate(nodes)
        ],
        pods=[
            pod("new", asked[0], f"{asked[1]}Gi", gpu=asked[2], group="g"),
            *(
                pod(f"there-{i}", used[0], f"{used[1]}Gi", gpu=used[2], node=f"n{i}")
                for i, (_, used) in enumerate(nodes)
            ),
        ],
        podgroups=[podgroup("g")],
        plugins=[
            {
                "name": "binpack",
                "arguments": {
                    "binpack.memory": 3,
                    "binpack.resources": "nvidia.com/gpu",
                    "binpack.resources.nvidia.com/gpu": 5,
                },
            }
        ],
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Binpack)
    index: ResourceIndex = made.resources
    task = next(t for job in made.snapshot.jobs.values() for t in job.tasks.values() if t.name == "new")
    weights = index.vector({"cpu": 1, "memory": 3, "nvidia.com/gpu": 5})
    expected = [
        plain_score(task.request, made.snapshot.allocatable[row], made.snapshot.used[row], weights)
        for row in range(len(nodes))
    ]
    assert plugin.score_nodes(task, made.nodes).tolist() == pytest.approx(expected)
