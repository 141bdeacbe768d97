"""Decayed usage: halves after a half-life, does not depend on how time is divided, and survives JSON."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import START, job, node, queue
from tests.scenario import cluster_of, event
from volcano.accounting.api import DecayedEntry, DecayedUsage
from volcano.kube.client.protocol import EventType
from volcano.model.resources import ResourceIndex
from volcano.scheduler.plugins.fairshare.usage import Account, Holdings, Usage, memory_of, remembered
from volcano.scheduler.snapshot_file import _plain

INDEX = ResourceIndex()
ALICE, BOB = Account("default", "alice"), Account("default", "bob")
AMOUNTS = st.floats(0, 1e6)


def saved(memory: Any) -> Any:
    """Memory as a snapshot file has it."""
    return _plain({"x": memory})["x"]


def usage(used: float = 0.0, held: float = 0.0) -> Usage:
    return Usage(INDEX, START, (ALICE,), np.array([[used, 0.0, 0.0]]), np.array([[held, 0.0, 0.0]]))


def test_usage_halves_after_a_half_life() -> None:
    assert usage(used=800.0).advanced(START + 60, half_life=60)[0, 0] == pytest.approx(400)
    assert usage(used=800.0).advanced(START + 120, half_life=60)[0, 0] == pytest.approx(200)


def test_what_is_held_for_a_short_time_counts_nearly_whole() -> None:
    assert usage(held=1000.0).advanced(START + 10, half_life=1e6)[0, 0] == pytest.approx(10_000, rel=1e-4)


def test_what_is_held_for_ever_approaches_the_half_life_over_ln_2() -> None:
    assert usage(held=1.0).advanced(START + 1e6, half_life=100)[0, 0] == pytest.approx(100 / math.log(2))


def test_a_clock_that_was_set_back_changes_nothing() -> None:
    assert usage(500, 9).advanced(START - 1000, half_life=60)[0, 0] == 500


@given(AMOUNTS, AMOUNTS, st.lists(st.floats(0, 1e5), max_size=6), st.floats(1, 1e6))
def test_usage_does_not_depend_on_how_time_is_divided(
    used: float, held: float, steps: list[float], half_life: float
) -> None:
    stepped = usage(used, held)
    for step in steps:
        values = stepped.advanced(stepped.at + step, half_life)
        stepped = Usage(INDEX, stepped.at + step, stepped.accounts, values, stepped.held)
    at_once = usage(used, held).advanced(stepped.at, half_life)
    assert stepped.used[0, 0] == pytest.approx(at_once[0, 0], rel=1e-6, abs=1e-3)


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.text(max_size=5)), AMOUNTS, max_size=5))
def test_memory_survives_json(amounts: dict[tuple[str, str], float]) -> None:
    accounts = tuple(sorted(Account(*key) for key in amounts))
    used = np.array([[amounts[each], 1.0, 2.0] for each in accounts]).reshape(len(accounts), 3)
    before = Usage(INDEX, START, accounts, used, used * 2)
    after = remembered(saved(before.memory()), START + 9, INDEX)
    assert after.accounts == before.accounts
    assert after.at == before.at or not accounts
    assert np.array_equal(after.used, before.used)
    assert np.array_equal(after.held, before.held)


def test_memory_has_other_columns_after_a_new_resource_was_found() -> None:
    memory = Usage(INDEX, START, (ALICE,), np.array([[1.0, 2.0, 3.0]]), np.zeros((1, 3))).memory()
    wider = INDEX.extended(("nvidia.com/gpu",))
    assert remembered(memory, START, wider).used.tolist() == [[1.0, 2.0, 3.0, 0.0]]


def test_accounts_without_jobs_are_forgotten_with_their_usage() -> None:
    of_bob = Holdings.of(cluster_of([node("n1")], [owned("b", "bob", 1, on="n1")]).snapshot(START), "x")
    later = usage(used=1e6).follow(START + 60 * 10, 60, of_bob)
    assert later.accounts == (ALICE, BOB)
    assert later.held[:, 0].tolist() == [0, 1000]
    assert later.follow(START + 60 * 40, 60, Holdings()).accounts == (BOB,)


def test_recorded_usage_is_taken_in_the_usual_units() -> None:
    recorded = DecayedEntry(*ALICE, {"cpu": 3.0, "memory": 1024.0, "nvidia.com/gpu": 2.0})
    memory = memory_of(DecayedUsage(START, (recorded,)))
    found = remembered(json.loads(json.dumps(memory)), START, INDEX)  # no node has a GPU at present
    index = found.index
    assert found.accounts == (ALICE,)
    assert index.amounts(found.used[0]) == {"cpu": 3000.0, "memory": 1024.0, "nvidia.com/gpu": 2000.0}


# -- holdings ------------------------------------------------------------------------------------------


def owned(name: str, user: str, cpu: int, **more: Any) -> Any:
    return job(name, cpu=cpu, group={"annotations": {"volcano.sh/user": user}}, **more)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["alice", "bob"]),
            st.integers(1, 4),
            st.booleans(),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_holdings_that_follow_changes_are_those_of_a_fresh_start(
    changes: list[tuple[int, str, int, bool, bool]],
) -> None:
    cluster = cluster_of([node("n1", cpu=99)], queues=[queue("default")])
    version = 1
    for number, user, cpu, running, deleted in changes:
        version += 1
        manifests = owned(f"j{number}", user, cpu, on="n1" if running else ())
        for manifest in (manifests.group, *manifests.pods):
            manifest["metadata"]["resourceVersion"] = str(version)
            cluster.apply(event(manifest, cluster, EventType.DELETED if deleted else EventType.MODIFIED))
        snapshot = cluster.snapshot(START)
        followed = {each: amounts.tolist() for each, amounts in Holdings.of(snapshot, "x").held.items()}
        fresh = {each: amounts.tolist() for each, amounts in Holdings.of(snapshot, f"{version}").held.items()}
        assert followed == fresh


def test_holdings_of_the_same_snapshot_are_counted_once() -> None:
    cluster = cluster_of([node("n1")], [owned("a", "alice", 2, on="n1")])
    snapshot = cluster.snapshot(START)
    for _ in range(3):
        assert Holdings.of(snapshot, "x").held[ALICE][0] == 2000


def test_a_missed_change_is_noticed() -> None:
    cluster = cluster_of([node("n1", cpu=9)], [owned("a", "alice", 2, on="n1")])
    Holdings.of(cluster.snapshot(START), "x")
    later = owned("b", "bob", 3, on="n1")
    for manifest in (later.group, *later.pods):
        cluster.apply(event(manifest, cluster))
    cluster.snapshot(START)  # of a cycle that failed before the plugin was called
    assert Holdings.of(cluster.snapshot(START), "x").held[BOB][0] == 3000
