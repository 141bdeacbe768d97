"""rescheduling: pods move from overused to underused nodes, unless something protects them."""

from typing import Any

import pytest

from tests.builders import START, node, pod, podgroup, priority_class
from tests.scenario import Result, cluster_of, config
from tests.scheduler.plugins.test_pdb import budget
from tests.scheduler.plugins.test_usage import Loads, measured
from volcano.base.clock import timestamp
from volcano.model.decisions import Evict
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.engine.session import Outcome

HOT: Loads = {"a": (80, 20), "b": (5, 5), "c": (30, 20)}
NODES = [node(name, cpu=8, memory="16Gi") for name in ("a", "b", "c")]
DUE = {"rescheduling": {"due": START}}


def rescheduling(interval: str = "5m", **params: Any) -> dict[str, Any]:
    parameters = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, **params}
    strategies = [{"name": "lowNodeUtilization", "params": parameters}]
    arguments = {"interval": interval, "metricsPeriod": "10m", "strategies": strategies}
    return {"name": "rescheduling", "arguments": arguments}


def shuffle(
    *pods: dict[str, Any],
    plugin: dict[str, Any] | None = None,
    loads: Loads = HOT,
    plugins: tuple[str, ...] = (),
    memory: dict[str, Any] | None = None,
    groups: tuple[dict[str, Any], ...] = (),
    **cluster: Any,
) -> Result:
    manifests = {"nodes": NODES, "podgroups": [podgroup("g", min_member=0), *groups], **cluster}
    made = cluster_of(pods=pods, **manifests)
    snapshot = made.snapshot(START, 1, DUE if memory is None else memory, measured(loads))
    parsed = config([*plugins, plugin or rescheduling()], actions=["shuffle"])
    return Result(run_cycle(snapshot, parsed), snapshot)


def running(name: str, cpu: float = 1, **more: Any) -> dict[str, Any]:
    return pod(name, cpu, **{"node": "a", "group": "g", "priority": 0, **more})


def guaranteed(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return running(name, spec={"containers": [container]}, **more)


def test_pods_move_until_the_node_is_below_its_target() -> None:
    result = shuffle(guaranteed("p2", "2"), running("p1", 1), running("p3", 1, priority=100))
    assert result.evicted() == {"p1", "p2"}, "80 %, 67.5 %, then 42.5 %"
    (first, *_) = [each for each in result.decisions if isinstance(each, Evict)]
    assert first.reason == "shuffle"


def test_pods_of_lower_priority_and_quality_of_service_go_first() -> None:
    only_one: Loads = {**HOT, "a": (55, 20)}
    assert shuffle(running("high", priority=9), running("low"), loads=only_one).evicted() == {"low"}
    assert shuffle(guaranteed("g1", "1"), running("burstable"), loads=only_one).evicted() == {"burstable"}


@pytest.mark.parametrize(
    ("loads", "why"),
    [
        pytest.param({"a": (80, 20), "b": (25, 5), "c": (30, 20)}, "no node is underused", id="no low node"),
        pytest.param({"a": (40, 20), "b": (5, 5), "c": (30, 20)}, "no node is overused", id="no high node"),
        pytest.param({"a": (5, 5), "b": (5, 5), "c": (5, 5)}, "all are underused", id="all low"),
        pytest.param(
            {"a": (80, 20, 301), "b": (5, 5), "c": (30, 20)}, "the load is not known", id="stale high"
        ),
        pytest.param(
            {"a": (80, 20), "b": (5, 5, 301), "c": (30, 20)}, "the load is not known", id="stale low"
        ),
        pytest.param({"a": (80, 20), "c": (30, 20)}, "a node without values is not idle", id="not measured"),
    ],
)
def test_nothing_happens_without_overused_and_underused_nodes(loads: Loads, why: str) -> None:
    assert shuffle(running("p"), loads=loads).evicted() == set(), why


def test_a_cordoned_node_takes_no_pods() -> None:
    nodes = [NODES[0], node("b", cpu=8, memory="16Gi", unschedulable=True), NODES[2]]
    assert shuffle(running("p"), nodes=nodes).evicted() == set()


def test_the_number_of_pods_counts() -> None:
    few = [node("a", cpu=8, pods=4), node("b", cpu=8, pods=4), NODES[2]]
    plugin = rescheduling(thresholds={"pods": 20}, targetThresholds={"pods": 60})
    loads: Loads = {"a": (10, 10), "b": (10, 10), "c": (10, 10)}
    pods = [running(f"p{i}", 0.1) for i in range(4)]
    kept = [running(f"c{i}", 0.1, node="c") for i in range(30)]
    assert len(shuffle(*pods, *kept, plugin=plugin, loads=loads, nodes=few).evicted()) == 2, (
        "100 %, 75 %, 50 %"
    )


def test_underused_nodes_are_not_filled_beyond_their_target() -> None:
    """Two of the three pods would fit on the node, but only one below its target."""
    loads: Loads = {"a": (99, 20), "b": (15, 5), "c": (30, 20)}
    assert len(shuffle(*(running(f"p{i}", 1.5) for i in range(3)), loads=loads).evicted()) == 1


# -- protection ------------------------------------------------------------------------------------


def test_a_gang_loses_only_members_beyond_its_minimum() -> None:
    group = podgroup("gang", min_member=3, phase="Running")
    members = [running(f"m{i}", group="gang", node="a" if i < 3 else "c") for i in range(4)]
    assert len(shuffle(*members, groups=(group,)).evicted()) == 1
    whole = podgroup("gang", min_member=4, phase="Running")
    assert shuffle(*members, groups=(whole,)).evicted() == set(), "one member is on another node"


def test_a_gang_on_overused_nodes_moves_as_a_whole_if_it_fits() -> None:
    group = podgroup("gang", min_member=2, phase="Running")
    assert shuffle(*(running(f"m{i}", 1, group="gang") for i in range(2)), groups=(group,)).evicted() == {
        "m0",
        "m1",
    }
    too_large = [running(f"m{i}", 2, group="gang") for i in range(2)]
    assert shuffle(*too_large, groups=(group,)).evicted() == set(), "3.6 cpus are below the target of b"


def test_disruption_budgets_hold_with_and_without_the_plugin() -> None:
    pods = [running(f"p{i}", labels={"app": "db"}) for i in range(3)]
    for plugins in ((), ("pdb",)):
        assert len(shuffle(*pods, others=[budget("b", 1)], plugins=plugins).evicted()) == 1
        assert shuffle(*pods, others=[budget("b", 0)], plugins=plugins).evicted() == set()


@pytest.mark.parametrize(
    ("protected", "plugins"),
    [
        pytest.param(running("p", preemptable=False), (), id="not preemptable"),
        pytest.param(running("p", namespace="kube-system", group=""), (), id="system namespace"),
        pytest.param(running("p", priority_class="system-node-critical"), (), id="system class"),
        pytest.param(running("p", priority=2_000_000_000), (), id="priority of a system class"),
        pytest.param(
            running(
                "p",
                annotations={"volcano.sh/cooldown-time": "1h"},
                status={
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "True",
                            "lastTransitionTime": timestamp(START - 60),
                        }
                    ]
                },
            ),
            ("cdp",),
            id="cooldown",
        ),
    ],
)
def test_protected_pods_stay(protected: dict[str, Any], plugins: tuple[str, ...]) -> None:
    assert shuffle(protected, running("other"), plugins=plugins).evicted() == {"other"}


def test_pods_at_or_above_the_priority_class_stay() -> None:
    plugin = rescheduling(thresholdPriorityClassName="batch")
    pods = [running("below", priority=9), running("at", priority=10)]
    assert shuffle(*pods, plugin=plugin, others=[priority_class("batch", 10)]).evicted() == {"below"}


def test_only_pods_that_fit_on_an_underused_node_move() -> None:
    elsewhere = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "main", "image": "none"}]}
    picky = running("picky", spec=elsewhere)
    assert shuffle(picky, running("other"), plugins=("predicates",)).evicted() == {"other"}
    careless = rescheduling(nodeFit=False)
    assert shuffle(picky, running("other"), plugins=("predicates",), plugin=careless).evicted() == {
        "picky",
        "other",
    }
    full = [running("large", 8, node="b"), running("p")]
    assert shuffle(*full, plugins=("predicates",)).evicted() == set(), "b has no room"


def test_only_the_pod_on_the_overused_node_goes() -> None:
    """Another namespace has a pod of the same name."""
    other = running("same", namespace="other", node="c")
    result = shuffle(running("same"), other, groups=(podgroup("g", namespace="other", min_member=0),))
    (evicted,) = [each for each in result.decisions if isinstance(each, Evict)]
    assert evicted.namespace == "default"


# -- intervals ---------------------------------------------------------------------------------------


def due(outcome: Outcome) -> float:
    found: float = outcome.memory["rescheduling"]["due"]
    return found


def test_it_runs_once_in_an_interval_and_first_after_one() -> None:
    first = shuffle(running("p"), memory={})
    assert first.evicted() == set(), "the scheduler has just started"
    assert due(first.outcome) == START + 300
    early = shuffle(running("p"), memory={"rescheduling": {"due": START + 1}})
    assert early.evicted() == set()
    assert due(early.outcome) == START + 1
    assert due(shuffle(running("p")).outcome) == START + 300
    shorter = shuffle(running("p"), plugin=rescheduling("1m"), memory={"rescheduling": {"due": START + 200}})
    assert due(shorter.outcome) == START + 60, "a shorter interval counts from now"


def test_waiting_for_the_next_run_needs_no_cycles() -> None:
    outcome = shuffle(running("p"), memory={}).outcome
    assert outcome.due == START + 300


# -- configuration -----------------------------------------------------------------------------------


def plugin_with(**arguments: Any) -> dict[str, Any]:
    return {"name": "rescheduling", "arguments": arguments}


@pytest.mark.parametrize(
    ("plugin", "line", "message"),
    [
        (plugin_with(interval=5), 6, "interval of rescheduling is 5; it must be a duration such as 1h30m"),
        (plugin_with(metricsPeriod="7m"), 6, "it must be 10m"),
        (plugin_with(strategies=[{"name": "offlineOnly"}]), 7, "it must be one of lowNodeUtilization"),
        (plugin_with(strategies=[{"params": {}}]), 7, "choose from lowNodeUtilization"),
        (rescheduling(thresholds={"cpu": "20"}), 14, "an integer, unquoted"),
        (rescheduling(thresholds={"cpu": 120}), 14, "a percentage from 0 to 100"),
        (rescheduling(thresholds={"cpu": 60}), 12, "it must be at least that of thresholds, 60"),
        (rescheduling(nodeFit="perhaps"), 15, "true or false"),
    ],
)
def test_wrong_arguments_are_rejected_with_their_line(
    plugin: dict[str, Any], line: int, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config([plugin], actions=["shuffle"])
    assert message in str(caught.value)
    assert caught.value.line == pytest.approx(line, abs=2)


def test_what_has_no_effect_is_a_warning() -> None:
    parsed = config([plugin_with(metricsPeriod="5m")], actions=["allocate"])
    text = "\n".join(parsed.warnings)
    assert "metricsPeriod of rescheduling is 5m; averages of 10m are collected and used" in text
    assert "rescheduling has no effect without the action shuffle" in text
    assert "rescheduling has no effect without metrics.type" in text


def test_without_shuffle_nothing_is_evicted() -> None:
    made = cluster_of(nodes=NODES, pods=[running("p")], podgroups=[podgroup("g", min_member=0)])
    snapshot = made.snapshot(START, 1, DUE, measured(HOT))
    outcome = run_cycle(snapshot, config([rescheduling()], actions=["allocate"]))
    assert Result(outcome, snapshot).evicted() == set()
