"""fairshare: order of jobs and queues by factors, and its memory between cycles."""

from typing import Any

import pytest

from tests.builders import START, job, node, priority_class, queue
from tests.scenario import cluster_of, config, schedule, session
from volcano.accounting.api import DecayedEntry, DecayedUsage
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.plugins.fairshare.factors import PriorityRange, age_factor
from volcano.scheduler.plugins.fairshare.usage import memory_of
from volcano.scheduler.snapshot_file import _plain, load, save

HOUR = 3600.0


def plugin(**arguments: Any) -> dict[str, Any]:
    return {"name": "fairshare", "arguments": {f"fairshare.{k}": v for k, v in arguments.items()}}


def owned(name: str, user: str, **more: Any) -> Any:
    return job(name, group={"annotations": {"volcano.sh/user": user}}, **more)


def used(**core_hours: float) -> dict[str, Any]:
    """Memory in which users of the queue `default` used so much."""
    items = [DecayedEntry("default", user, {"cpu": hours * HOUR}) for user, hours in core_hours.items()]
    return {"fairshare": memory_of(DecayedUsage(START, tuple(items)))}


def test_the_user_who_used_less_goes_first() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        jobs=[owned("first", "alice", age=100), owned("second", "bob")],
        plugins=["gang", plugin(), "predicates"],
        memory=used(alice=10),
    )
    assert list(result.bound()) == ["second-worker-0"]


def test_without_the_plugin_the_older_job_goes_first() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        jobs=[owned("first", "alice", age=100), owned("second", "bob")],
        plugins=["gang", "predicates"],
        memory=used(alice=10),
    )
    assert list(result.bound()) == ["first-worker-0"]


def test_equal_users_are_served_by_age() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        jobs=[owned("young", "alice", age=1), owned("old", "bob", age=100)],
        plugins=["gang", plugin(), "predicates"],
    )
    assert list(result.bound()) == ["old-worker-0"]


def test_usage_within_the_ratio_of_shares_is_equal() -> None:
    """Three times the usage with three times the share: the age decides."""
    result = schedule(
        nodes=[node("n1", cpu=1)],
        queues=[queue("default", annotations={"volcano.sh/user-shares": "alice=3"})],
        jobs=[owned("first", "alice", age=100), owned("second", "bob")],
        plugins=["gang", plugin(), "predicates"],
        memory=used(alice=30, bob=10),
    )
    assert list(result.bound()) == ["first-worker-0"]


@pytest.mark.parametrize(
    ("weights", "first"),
    [
        pytest.param({"priority": 1000, "fairshare": 100}, "urgent", id="priority counts more"),
        pytest.param({"priority": 100, "fairshare": 1000}, "modest", id="fair share counts more"),
    ],
)
def test_weights_decide_which_factor_counts_more(weights: dict[str, int], first: str) -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        others=[priority_class("high", 100)],
        jobs=[owned("urgent", "alice", priority_class="high"), owned("modest", "bob")],
        plugins=["gang", plugin(**{f"weight.{k}": v for k, v in weights.items()}), "predicates"],
        memory=used(alice=10),
    )
    assert list(result.bound()) == [f"{first}-worker-0"]


@pytest.mark.parametrize(("favor_small", "first"), [(False, "large"), (True, "small")])
def test_size_favors_large_jobs_or_small_ones(favor_small: bool, first: str) -> None:
    result = schedule(
        nodes=[node("n1", cpu=4)],
        jobs=[owned("large", "alice", cpu=4), owned("small", "alice", cpu=1)],
        plugins=["gang", plugin(favorSmall=favor_small, **{"weight.size": 1000}), "predicates"],
    )
    assert list(result.bound()) == [f"{first}-worker-0"]


def test_memory_and_gpus_count_by_their_prices() -> None:
    items = [
        DecayedEntry("default", "alice", {"cpu": 10.0}),
        DecayedEntry("default", "bob", {"nvidia.com/gpu": 1.0}),
    ]
    ready = session(
        nodes=[node("n1")],
        jobs=[owned("a", "alice"), owned("b", "bob", **{"nvidia.com/gpu": 1})],
        plugins=[plugin()],
        memory={"fairshare": memory_of(DecayedUsage(START, tuple(items)))},
    )
    keys = {each.name: ready.policy.job_order(each)[1] for each in ready.snapshot.jobs.values()}
    assert keys["a"] < keys["b"]  # a GPU costs 16 cores


def test_queues_that_used_less_of_their_weight_go_first() -> None:
    items = [DecayedEntry("a", "x", {"cpu": 20.0}), DecayedEntry("b", "y", {"cpu": 15.0})]
    ready = session(
        nodes=[node("n1")],
        queues=[queue("root"), queue("a", weight=3), queue("b", weight=1)],
        plugins=[plugin()],
        memory={"fairshare": memory_of(DecayedUsage(START, tuple(items)))},
    )
    queues = ready.snapshot.queues
    assert ready.policy.queue_order(queues["a"]) < ready.policy.queue_order(queues["b"])


def test_running_pods_are_counted_between_cycles() -> None:
    cluster = cluster_of([node("n1", cpu=4)], [owned("a", "alice", cpu=2, on="n1"), owned("b", "bob", cpu=9)])
    settings = config(["gang", plugin(halfLife="168h")])
    memory: Any = {}
    for step in range(11):
        outcome = run_cycle(cluster.snapshot(START + 10 * step, 1, memory), settings)
        memory = _plain(outcome.memory)
    usage = dict(zip(map(tuple, memory["fairshare"]["accounts"]), memory["fairshare"]["used"], strict=True))
    assert usage["default", "alice"][0] == pytest.approx(2000 * 100, rel=1e-3)
    assert usage["default", "bob"][0] == 0


def test_the_same_snapshot_gives_the_same_memory_again() -> None:
    cluster = cluster_of([node("n1", cpu=4)], [owned("a", "alice", cpu=2, on="n1")])
    settings = config(["gang", plugin()])
    first = run_cycle(cluster.snapshot(START, 1, used(alice=3)), settings)
    snapshot = cluster.snapshot(START + 50, 1, first.memory)
    assert _plain(run_cycle(snapshot, settings).memory) == _plain(run_cycle(snapshot, settings).memory)


def test_a_saved_snapshot_is_scheduled_alike() -> None:
    cluster = cluster_of([node("n1", cpu=1)], [owned("first", "alice", age=100), owned("second", "bob")])
    settings = config(["gang", plugin(), "predicates"])
    snapshot = cluster.snapshot(START, 1, used(alice=10))
    again, _ = load(save(snapshot, settings.text))
    assert run_cycle(again, settings).decisions == run_cycle(snapshot, settings).decisions
    assert _plain(run_cycle(again, settings).memory) == _plain(run_cycle(snapshot, settings).memory)


def test_jobs_without_a_user_share_one_account() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)], jobs=[job("a", on="n1"), job("b")], plugins=["gang", plugin()]
    )
    assert result.outcome.memory["fairshare"]["accounts"] == (("default", ""),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"halfLife": "0s"}, "longer than 0", id="no half-life"),
        pytest.param({"halfLife": 7}, "a duration such as", id="a number of days"),
        pytest.param({"weight.age": -1}, "at least 0", id="a negative weight"),
        pytest.param({"resources": {"cpu": "1"}}, "a number, unquoted", id="a price that is a text"),
        pytest.param({"resources": ["cpu"]}, "a map", id="a list of prices"),
    ],
)
def test_wrong_arguments_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config([plugin(**arguments)])


def test_priorities_are_relative_to_the_largest_class() -> None:
    found = PriorityRange([0, 50, 100, 2_000_000_000])
    assert [found.factor(value) for value in (0, 50, 100, 2_000_001_000)] == [0.0, 0.5, 1.0, 1.0]
    assert [PriorityRange([-100, 100]).factor(value) for value in (-100, 0, 100)] == [0.0, 0.5, 1.0]
    assert PriorityRange([]).factor(0) == 0.0


def test_age_counts_up_to_the_maximum() -> None:
    assert [age_factor(100, now, 10) for now in (90, 100, 105, 110, 999)] == [0.0, 0.0, 0.5, 1.0, 1.0]
