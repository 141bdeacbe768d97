"""resource-strategy-fit: strategies by resource, scarce resources, kept proportions."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import node, pod, podgroup
from tests.scenario import Result, config, schedule, session
from volcano.model.decisions import RecordPodEvent
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.plugins.resource_strategy_fit import ResourceStrategyFit

GPU = "nvidia.com/gpu"
TYPE, WEIGHT = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"
RESOURCES = {GPU: {"type": "MostAllocated", "weight": 2}, "cpu": {"type": "LeastAllocated", "weight": 1}}
SRA = {"enable": True, "resources": GPU, "weight": 10, "resourceWeight": {GPU: 1}}
PROPORTIONAL = {
    "enable": True,
    "resources": GPU,
    "resourceProportion": {f"{GPU}.cpu": 4, f"{GPU}.memory": 8},
}
# a has 6 of 8 GPUs and 10 of 64 cpus in use, b nothing.
A, B, C = node("a", cpu=64, gpu=8), node("b", cpu=64, gpu=8), node("c", cpu=64)
BUSY = pod("busy", cpu=10, gpu=6, node="a")


def plugin_of(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": "resource-strategy-fit", "arguments": arguments}


def scores(
    arguments: dict[str, Any],
    requests: dict[str, Any],
    nodes: list[dict[str, Any]],
    placed: Sequence[dict[str, Any]] = (),
    annotations: dict[str, str] | None = None,
) -> list[float]:
    """Score of each node for a pod with these requests."""
    made = session(
        nodes=nodes,
        pods=[pod("new", **{"cpu": None, **requests}, annotations=annotations, group="g"), *placed],
        podgroups=[podgroup("g")],
        plugins=[plugin_of(arguments)],
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, ResourceStrategyFit)
    task = next(t for t in made.snapshot.jobs["default/g"].tasks.values() if t.name == "new")
    found: list[float] = plugin.score_nodes(task, made.nodes).tolist()
    return found


def test_gpus_are_packed_and_cpus_spread() -> None:
    found = scores({"resources": RESOURCES}, {"cpu": 4, "gpu": 1}, [A, B], [BUSY])
    assert found == pytest.approx([1000 * (2 * 7 / 8 + 50 / 64) / 3, 1000 * (2 * 1 / 8 + 60 / 64) / 3])


def test_scarce_resources_are_left_to_pods_that_need_them() -> None:
    spread = scores({"resources": RESOURCES}, {"cpu": 4}, [A, B, C], [BUSY])
    assert spread == pytest.approx([1000 * 50 / 64, 1000 * 60 / 64, 1000 * 60 / 64])
    with_sra = scores({"resources": RESOURCES, "sra": SRA}, {"cpu": 4}, [A, B, C], [BUSY])
    assert [high - low for high, low in zip(with_sra, spread, strict=True)] == pytest.approx([0, 0, 1000])
    on_gpu_nodes = scores(
        {"resourceStrategyFitWeight": 0, "sra": SRA}, {"cpu": 4, "gpu": 1}, [A, B, C], [BUSY]
    )
    assert on_gpu_nodes == [0, 0, 0], "c lacks what the pod requests"


def test_a_pattern_applies_where_no_name_or_longer_pattern_does() -> None:
    v100 = "cloudml.gpu/v100"
    have: dict[str, Any] = {v100: 4}
    nodes = [node("n", cpu=10, **have)]
    pattern = {"cloudml.gpu/*": {"type": "MostAllocated"}}
    assert scores({"resources": pattern}, {v100: 1}, nodes) == pytest.approx([250])
    shorter = {"cloudml.*": {"type": "LeastAllocated"}}
    assert scores({"resources": shorter | pattern}, {v100: 1}, nodes) == pytest.approx([250])
    exact = {v100: {"type": "LeastAllocated"}}
    assert scores({"resources": pattern | exact}, {v100: 1}, nodes) == pytest.approx([750])


def test_without_arguments_cpu_and_memory_are_spread() -> None:
    found = scores({}, {"cpu": 1, "memory": "2Gi"}, [node("n", cpu=4, memory="8Gi")])
    assert found == pytest.approx([1000 * (3 / 4 + 6 / 8) / 2])


@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        pytest.param({"resourceStrategyFitWeight": -1}, 750, id="a negative weight is 10"),
        pytest.param({"resourceStrategyFitWeight": 0}, 0, id="weight 0 turns it off"),
        pytest.param({"resources": {"cpu": {"weight": -4}}}, 750, id="type and weight have defaults"),
        pytest.param({"resources": {GPU: {"type": "MostAllocated"}}}, 0, id="not requested"),
    ],
)
def test_defaults_and_limits_of_weights(arguments: dict[str, Any], score: float) -> None:
    assert scores(arguments, {"cpu": 1}, [node("n", cpu=4)]) == pytest.approx([score])


def test_a_resource_that_the_node_lacks_counts_with_its_weight() -> None:
    assert scores({"resources": RESOURCES}, {"cpu": 32, "gpu": 1}, [C]) == pytest.approx([1000 * 0.5 / 3])


def test_a_node_that_a_resource_does_not_fit_on_scores_nothing() -> None:
    assert scores({"resources": RESOURCES}, {"cpu": 4, "gpu": 3}, [A], [BUSY]) == [0]


def test_annotations_of_the_pod_replace_the_strategies() -> None:
    own = {TYPE: "MostAllocated", WEIGHT: '{"cpu": 1}'}
    found = scores({"resources": RESOURCES}, {"cpu": 4, "gpu": 1}, [A, B], [BUSY], own)
    assert found == pytest.approx([1000 * 14 / 64, 1000 * 4 / 64])


def placed(annotations: dict[str, str], *others: dict[str, Any]) -> Result:
    return schedule(
        nodes=[A, B],
        pods=[BUSY, pod("new", 4, gpu=1, group="g", annotations=annotations), *others],
        podgroups=[podgroup("g")],
        plugins=["gang", plugin_of({"resources": RESOURCES})],
    )


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        pytest.param({TYPE: "MostAllocated"}, f"{WEIGHT} is missing", id="no weights"),
        pytest.param({TYPE: "MostAllocated", WEIGHT: "cpu=1"}, f"{WEIGHT} is 'cpu=1'", id="no JSON"),
        pytest.param({TYPE: "MostAllocated", WEIGHT: "{}"}, f"{WEIGHT} is", id="no weight"),
        pytest.param({TYPE: "MostAllocated", WEIGHT: '{"cpu": -1}'}, f"{WEIGHT} is", id="a negative weight"),
        pytest.param({TYPE: "Packed", WEIGHT: '{"cpu": 1}'}, "must be MostAllocated or Least", id="type"),
        pytest.param({WEIGHT: '{"cpu": 1}'}, f"{TYPE} is missing", id="no type"),
    ],
)
def test_malformed_annotations_are_reported_and_the_defaults_used(
    annotations: dict[str, str], message: str
) -> None:
    result = placed(annotations)
    assert result.bound() == {"new": "a"}, "packed by GPU, as configured"
    (event,) = [each for each in result.decisions if isinstance(each, RecordPodEvent)]
    assert (event.name, event.reason) == ("new", "ResourceStrategyIgnored")
    assert message in event.message


def test_pods_that_differ_in_their_annotations_are_scored_apart() -> None:
    """Otherwise identical pods share one score."""
    spread = {TYPE: "LeastAllocated", WEIGHT: '{"cpu": 1}'}
    result = placed({}, pod("own", 4, gpu=1, group="g", annotations=spread))
    assert result.bound() == {"new": "a", "own": "b"}
    assert not [each for each in result.decisions if isinstance(each, RecordPodEvent)]


def test_an_event_of_an_undone_placement_is_not_recorded() -> None:
    """A gang that cannot start leaves nothing behind."""
    result = schedule(
        nodes=[A],
        pods=[pod("new", 4, group="g", annotations={TYPE: "MostAllocated"}), pod("big", 400, group="g")],
        podgroups=[podgroup("g", min_member=2)],
        plugins=["gang", plugin_of({})],
    )
    assert not result.bound()
    assert not [each for each in result.decisions if isinstance(each, RecordPodEvent)]


# 2 of 4 GPUs, 10 of 20 cpus and 40 of 80 GB are idle.
KEEPING = node("keeping", cpu=20, memory="80G", gpu=4)
HALF = pod("half", cpu=10, memory="40G", gpu=2, node="keeping")


@pytest.mark.parametrize(
    ("requests", "fits"),
    [
        pytest.param({"cpu": 2, "memory": "8G"}, True, id="leaves 8 cpus and 32 GB"),
        pytest.param({"cpu": 3, "memory": "8G"}, False, id="leaves too few cpus"),
        pytest.param({"cpu": 1, "memory": "25G"}, False, id="leaves too little memory"),
        pytest.param({"cpu": 10, "memory": "40G", "gpu": 1}, True, id="requests a GPU"),
    ],
)
def test_cpu_and_memory_are_kept_for_idle_gpus(requests: dict[str, Any], fits: bool) -> None:
    result = schedule(
        nodes=[KEEPING],
        pods=[HALF, pod("new", **requests, group="g")],
        podgroups=[podgroup("g")],
        plugins=["gang", plugin_of({"proportional": PROPORTIONAL})],
    )
    assert bool(result.bound()) is fits
    if not fits:
        assert f"proportional of resource {GPU} check failed: 4 cpu and 8G of memory are kept" in result.said(
            "new"
        )


def test_nothing_is_kept_for_gpus_in_use_nor_without_the_argument() -> None:
    def bound(held: dict[str, Any], arguments: dict[str, Any]) -> bool:
        result = schedule(
            nodes=[KEEPING],
            pods=[held, pod("new", cpu=10, group="g")],
            podgroups=[podgroup("g")],
            plugins=["gang", plugin_of(arguments)],
        )
        return bool(result.bound())

    all_in_use = pod("all", cpu=10, gpu=4, node="keeping")
    assert bound(all_in_use, {"proportional": PROPORTIONAL})
    assert bound(HALF, {})
    assert bound(HALF, {"proportional": {**PROPORTIONAL, "enable": False}})
    assert not bound(HALF, {"proportional": PROPORTIONAL})


def test_what_is_kept_shrinks_as_pods_are_placed_in_the_same_cycle() -> None:
    """Ten pods of one cpu: two fit beside what is kept for two GPUs."""
    result = schedule(
        nodes=[KEEPING],
        pods=[HALF, *(pod(f"new-{i}", 1, group="g") for i in range(10))],
        podgroups=[podgroup("g")],
        plugins=["gang", plugin_of({"proportional": PROPORTIONAL})],
    )
    assert len(result.bound()) == 2


@pytest.mark.parametrize(
    ("arguments", "line", "message"),
    [
        pytest.param({"resources": {"cpu": {"weight": "1"}}}, 8, "resources.cpu.weight", id="quoted weight"),
        pytest.param({"resources": {"cpu": {"type": "Packed"}}}, 8, "MostAllocated or Least", id="type"),
        pytest.param({"resources": {"*": {"weight": 1}}}, 7, "is not a valid pattern", id="every resource"),
        pytest.param({"resources": {"a*b": {"weight": 1}}}, 7, "is not a valid pattern", id="* inside"),
        pytest.param({"resources": "cpu"}, 6, "must be a map", id="no map"),
        pytest.param({"resources": {"cpu": 3}}, 7, "must be a map", id="a number as strategy"),
        pytest.param({"sra": {"weight": 1.5}}, 7, "sra.weight", id="sra"),
        pytest.param({"sra": {"resourceWeight": {GPU: "a"}}}, 8, "sra.resourceWeight", id="sra weights"),
        pytest.param({"proportional": {"enable": "perhaps"}}, 7, "true or false", id="switch"),
        pytest.param(
            {"proportional": {"resourceProportion": {f"{GPU}.cpu": "4"}}}, 8, "must be a number", id="ratio"
        ),
    ],
)
def test_wrong_values_are_rejected_with_their_line(
    arguments: dict[str, Any], line: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message.replace("*", r"\*")) as caught:
        config([plugin_of(arguments)])
    assert caught.value.line == line


def test_an_unknown_name_inside_an_argument_is_a_warning() -> None:
    parsed = config([plugin_of({"sra": {"enabled": True}})])
    assert "sra.enabled of resource-strategy-fit is not known" in parsed.warnings[0]


def test_a_rejected_file_leaves_the_previous_configuration() -> None:
    source = ConfigSource(config([plugin_of({})]).text)
    before = source.current
    assert not source.load(
        config(["gang"]).text.replace("name: gang", "name: resource-strategy-fit\n    arguments: {sra: 1}")
    )
    assert source.current is before
    assert "sra of resource-strategy-fit is 1; it must be a map" in source.warning


AMOUNTS = st.tuples(st.integers(0, 8), st.integers(0, 4))


def plain_score(
    request: tuple[int, int],
    capacity: tuple[int, int],
    used: tuple[int, int],
    strategies: list[tuple[bool, int]],
) -> float:
    """The score of one node, one resource after the other."""
    score, total = 0.0, 0
    for wanted, have, taken, (most, weight) in zip(request, capacity, used, strategies, strict=True):
        if not wanted:
            continue
        total += weight
        if not have:
            continue
        if taken + wanted > have:
            return 0.0
        score += weight * (taken + wanted if most else have - taken - wanted) / have
    return 1000 * score / total if total else 0.0


@settings(deadline=None, max_examples=50)
@given(
    request=AMOUNTS, nodes=st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4), most=st.booleans()
)
def test_scoring_all_nodes_agrees_with_scoring_each(
    request: tuple[int, int], nodes: list[tuple[tuple[int, int], tuple[int, int]]], most: bool
) -> None:
    strategy = "MostAllocated" if most else "LeastAllocated"
    found = scores(
        {"resources": {"cpu": {"weight": 3}, GPU: {"type": strategy, "weight": 2}}},
        {"cpu": request[0], "gpu": request[1]},
        [node(f"n{i}", cpu=have[0], gpu=have[1]) for i, (have, _) in enumerate(nodes)],
        [pod(f"p{i}", cpu=used[0], gpu=used[1], node=f"n{i}") for i, (_, used) in enumerate(nodes)],
    )
    expected = [plain_score(request, have, used, [(False, 3), (most, 2)]) for have, used in nodes]
    assert found == pytest.approx(expected)
