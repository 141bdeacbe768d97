"""usage: measured load, thresholds, and estimates for pods that were just placed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import START, node, pod, podgroup
from tests.scenario import Result, cluster_of, config
from volcano.base.clock import timestamp
from volcano.model.task import Task
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.usage import Usage

CPU_TEXT = "the CPU load of the node exceeds the upper limit."
Loads = dict[str, tuple[float, float] | tuple[float, float, float]]


def measured(loads: Loads) -> dict[str, dict[str, float]]:
    """Load in percent by node: cpu, memory, and the age in seconds if any."""
    return {
        name: {"cpu": cpu, "memory": memory, "measured": START - (age[0] if age else 0)}
        for name, (cpu, memory, *age) in loads.items()
    }


def usage(**arguments: Any) -> dict[str, Any]:
    return {
        "name": "usage",
        "arguments": {name.replace("__", "."): value for name, value in arguments.items()},
    }


def schedule(loads: Loads, plugin: dict[str, Any] | None = None, **cluster: Any) -> Result:
    snapshot = cluster_of(**cluster).snapshot(START, 1, None, measured(loads))
    return Result(run_cycle(snapshot, config(["gang", plugin or usage()])), snapshot)


def opened(loads: Loads, plugin: dict[str, Any] | None = None, **cluster: Any) -> tuple[Session, Usage]:
    made = Session(
        cluster_of(**cluster).snapshot(START, 1, None, measured(loads)), config([plugin or usage()])
    )
    (found,) = made.policy.plugins
    assert isinstance(found, Usage)
    return made, found


def new_task(made: Session, name: str = "new") -> Task:
    return next(t for t in made.snapshot.jobs["default/g"].tasks.values() if t.name == name)


def scores(loads: Loads, plugin: dict[str, Any] | None = None, **cluster: Any) -> list[float]:
    made, found = opened(
        loads, plugin, podgroups=[podgroup("g")], **{"pods": [pod("new", group="g")], **cluster}
    )
    result: list[float] = found.score_nodes(new_task(made), made.nodes).tolist()
    return result


TWO = [node("n1", cpu=16), node("n2", cpu=16)]
ONE_POD: dict[str, Any] = {"nodes": TWO, "pods": [pod("new", group="g")], "podgroups": [podgroup("g")]}


def test_overloaded_nodes_are_not_used() -> None:
    assert schedule({"n1": (90, 10), "n2": (10, 10)}, **ONE_POD).bound() == {"new": "n2"}
    result = schedule({"n1": (90, 10), "n2": (81, 10)}, **ONE_POD)
    assert not result.bound()
    assert f"2 {CPU_TEXT}" in result.said("new")
    result = schedule({"n1": (10, 90), "n2": (10, 81)}, **ONE_POD)
    assert "2 the memory load of the node exceeds the upper limit." in result.said("new")


def test_a_load_at_the_threshold_passes() -> None:
    assert schedule({"n1": (80, 80), "n2": (81, 0)}, **ONE_POD).bound() == {"new": "n1"}


def test_stale_values_are_not_used() -> None:
    assert schedule({"n1": (90, 90, 360), "n2": (90, 90)}, **ONE_POD).bound() == {"new": "n1"}
    assert scores({"n1": (10, 10, 301), "n2": (10, 10, 300)}, nodes=TWO)[0] == 0
    assert scores({"n2": (10, 10)}, nodes=TWO)[0] == 0, "a node that was never measured"


def test_the_score_is_the_idle_part_of_cpu_and_memory() -> None:
    assert scores({"n1": (50, 50), "n2": (20, 20)}, nodes=TWO) == pytest.approx([250, 400])
    weighted = usage(usage__weight=1, cpu__weight=3, memory__weight=1)
    assert scores({"n1": (50, 10), "n2": (10, 90)}, weighted, nodes=TWO) == pytest.approx([60, 70])


def test_without_weights_nothing_is_scored() -> None:
    made, _ = opened({"n1": (50, 50)}, usage(cpu__weight=0, memory__weight=0), **ONE_POD)
    assert not made.policy.hooks("score_nodes")


def limited(cpu: str) -> dict[str, Any]:
    """A container with a request of one cpu and this limit."""
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": cpu}}
    return {"containers": [{"name": "main", "image": "none", "resources": resources}]}


def test_a_burst_is_spread_although_no_measurement_shows_it() -> None:
    result = schedule(
        {"n1": (10, 10), "n2": (10, 10)},
        nodes=TWO,
        pods=[pod(f"p{i}", group="g", spec=limited("1")) for i in range(10)],
        podgroups=[podgroup("g", min_member=10)],
    )
    assert result.bound_per_node() == {"n1": 5, "n2": 5}


@pytest.mark.parametrize(
    ("spec", "load", "cpu"),
    [
        pytest.param(limited("3"), 10, 1700, id="part of the request and of the room up to the limit"),
        pytest.param(limited("3"), 90, 2040, id="more on a loaded node"),
        pytest.param(limited("2"), 90, 1440, id="a smaller limit"),
        pytest.param(limited("1"), 90, 840, id="no room above the request"),
        pytest.param({"containers": [{"name": "main", "image": "none"}]}, 10, 250, id="best effort"),
    ],
)
def test_the_load_of_a_placed_pod_is_estimated(spec: dict[str, Any], load: float, cpu: float) -> None:
    made, plugin = opened(
        {"n1": (load, load)},
        usage(estimator__burst_ratio=0.5),
        nodes=[node("n1", cpu=16)],
        pods=[pod("new", group="g", spec=spec)],
        podgroups=[podgroup("g")],
    )
    made.ledger.allocate(new_task(made), 0)
    assert plugin._estimated[0, 0] * 16000 == pytest.approx(cpu)


def test_an_estimate_is_at_most_the_limit() -> None:
    ratios = usage(estimator__request_ratio=1.0, estimator__burst_ratio=1.0, estimator__risk_factor=5.0)
    made, plugin = opened(
        {"n1": (90, 90)}, ratios, nodes=[node("n1", cpu=16)], pods=[pod("new", group="g", spec=limited("3"))],
        podgroups=[podgroup("g")],
    )  # fmt: skip
    made.ledger.allocate(new_task(made), 0)
    assert plugin._estimated[0, 0] * 16000 == pytest.approx(3000)


def running(name: str, age: float) -> dict[str, Any]:
    return pod(name, 4, node="n1", status={"startTime": timestamp(START - age)})


def test_recently_started_pods_are_estimated_and_others_measured() -> None:
    def first_score(*pods: dict[str, Any]) -> float:
        found = scores({"n1": (10, 10), "n2": (10, 10)}, nodes=TWO, pods=[pod("new", group="g"), *pods])
        return found[0]

    assert first_score(running("old", 31)) == pytest.approx(450)
    assert first_score(running("young", 29)) == pytest.approx(450 - 500 * (4 * 0.7 / 16) / 2)


def test_estimates_count_against_thresholds_if_configured() -> None:
    def bound(plugin: dict[str, Any]) -> int:
        result = schedule(
            {"n1": (70, 10)},
            plugin,
            nodes=[node("n1", cpu=10)],
            pods=[pod(f"p{i}", group="g") for i in range(3)],
            podgroups=[podgroup("g")],
        )
        return len(result.bound())

    assert bound(usage()) == 3
    assert bound(usage(thresholds__includeEstimated=True)) == 2, "70 %, 78.4 %, then 86.8 %"


def test_the_switch_for_filters_leaves_the_scores() -> None:
    only_scores = {**usage(), "enablePredicate": False}
    result = schedule(
        {"n1": (95, 95), "n2": (90, 90)},
        only_scores,
        nodes=[node("n1", cpu=2), node("n2", cpu=2)],
        pods=[pod(f"p{i}", group="g") for i in range(3)],
        podgroups=[podgroup("g")],
    )
    assert result.bound()["p0"] == "n2"
    assert result.bound_per_node() == {"n1": 1, "n2": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"thresholds__cpu": "80"}, "thresholds.cpu of usage is '80'; it must be an integer, unquoted"),
        ({"thresholds__mem": 101}, "it must be 0 to 100"),
        ({"usage__weight": -1}, "it must be at least 0"),
        ({"estimator__request_ratio": 1.5}, "it must be 0 to 1"),
        ({"estimator__risk_factor": 0.5}, "it must be at least 1"),
        ({"estimator__be_cpu": "much"}, "thousandths of a cpu, or a quantity"),
    ],
)
def test_wrong_arguments_are_rejected_with_their_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config([usage(**arguments)])
    assert caught.value.line == 6


def test_best_effort_estimates_may_be_quantities() -> None:
    made, plugin = opened(
        {"n1": (0, 0)},
        usage(estimator__be_cpu="1500m", estimator__be_mem="1Gi"),
        nodes=[node("n1", cpu=3, memory="4Gi")],
        pods=[pod("new", None, group="g")],
        podgroups=[podgroup("g")],
    )
    made.ledger.allocate(new_task(made), 0)
    assert plugin._estimated[0].tolist() == pytest.approx([0.5, 0.25])


def test_the_plugin_without_a_source_is_a_warning() -> None:
    parsed = config([usage()])
    assert "usage has no effect without metrics.type" in parsed.warnings[0]


STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=6)


@settings(deadline=None, max_examples=40)
@given(kept=STEPS, undone=STEPS, evicted=st.booleans())
def test_an_undo_restores_the_estimates_exactly(
    kept: list[tuple[int, int]], undone: list[tuple[int, int]], evicted: bool
) -> None:
    made, plugin = opened(
        {"n1": (50, 50), "n2": (60, 60)},
        nodes=TWO,
        pods=[*(pod(f"p{i}", 1, group="g") for i in range(6)), pod("young", node="n1", group="g")],
        podgroups=[podgroup("g", min_member=0)],
    )
    tasks = [new_task(made, f"p{i}") for i in range(6)]

    def place(steps: list[tuple[int, int]]) -> None:
        for which, row in steps:
            if not made.ledger.changed(tasks[which]):
                made.ledger.allocate(tasks[which], row)

    place(kept)
    plugin._estimate_recent()
    before, known = plugin._estimated.copy(), dict(plugin._estimates or {})
    with made.ledger.statement():
        place(undone)
        if evicted:
            made.ledger.evict(new_task(made, "young"), "test")
    assert np.array_equal(plugin._estimated, before)
    assert (plugin._estimates or {}).keys() == known.keys()


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 12), load=st.floats(0, 100), limit=st.integers(1, 4))
def test_hypothetical_copies_are_scored_as_if_they_were_placed(count: int, load: float, limit: int) -> None:
    made, plugin = opened(
        {"n1": (load, load)},
        nodes=[node("n1", cpu=16)],
        pods=[pod(f"p{i}", group="g", spec=limited(str(limit))) for i in range(count + 1)],
        podgroups=[podgroup("g", min_member=0)],
    )
    last = new_task(made, f"p{count}")
    table = made.nodes.at(np.array([0])).with_copies(
        last.request, last.shape.nonzero_request, np.array([count])
    )
    expected = plugin.score_nodes(last, table)[0]
    for i in range(count):
        made.ledger.allocate(new_task(made, f"p{i}"), 0)
    assert plugin.score_nodes(last, made.nodes.at(np.array([0])))[0] == pytest.approx(expected)
