"""Cycles and evictions from the record of the scheduler, as it answers."""

from typing import Any

from tests.builders import START, job, node, priority_class
from tests.scenario import Result, schedule
from volcano.dashboard.data.cycles import (
    CycleDetails,
    cycle_details,
    cycle_rows,
    eviction_rows,
    job_address,
)
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.queries import answer

CLASSES = [priority_class("low", 1), priority_class("high", 100)]


def test_the_list_has_the_newest_cycle_first() -> None:
    first, second = cycle_rows(answer(recorded(), {}))
    assert (first.number, first.evicted, first.placed, first.waiting) == (2, 1, 0, 1)
    assert (second.number, second.placed, second.at, second.seconds) == (1, 2, START, 0.01)
    assert second.address == "/scheduler/cycles/1"


def test_an_eviction_names_its_beneficiary_and_why() -> None:
    (found,) = eviction_rows(answer(recorded(), {"evictions": "true"})["evictions"])
    assert (found.cycle, found.action, found.job, found.node) == (2, "preempt", "default/old", "n1")
    assert found.beneficiary == "default/urgent"
    assert found.why.startswith("preempted by default/urgent, whose priority 100 is above 1")


def test_a_cycle_has_its_decisions_and_what_waited_after_it() -> None:
    found = details("2")
    assert [(each.pod, each.beneficiary) for each in found.evicted] == [
        ("default/old-worker-3", "default/urgent")
    ]
    assert [(each.job, each.code) for each in found.waiting] == [("default/urgent", "Evicting")]
    assert found.codes() == [("Evicting", 1)]
    assert (found.first, found.last, found.asked) == (1, 2, 2)
    (placed,) = details("1").placed
    assert (placed.job, placed.pods, placed.nodes) == ("default/small", 2, "n1 (2)")


def test_a_cycle_that_decided_nothing_is_answered_by_the_one_before() -> None:
    history = recorded()
    record(history, cycle(nodes=[node("n1")], jobs=[]))
    history.last = 9
    found = cycle_details(answer(history, {"number": "9"}))
    assert found is not None
    assert (found.asked, found.row.number) == (9, 3)


def test_an_empty_record_has_no_cycle() -> None:
    assert cycle_details({"cycle": None, "first": 0, "last": 3}) is None
    assert cycle_rows({"first": 0, "last": 0}) == ()


def test_names_are_quoted_in_addresses() -> None:
    assert job_address("team/a b") == "/jobs/team/a%20b"
    assert job_address("") == ""


def cycle(now: float = START, **cluster: Any) -> Result:
    return schedule(
        now=now, actions=("enqueue", "allocate", "preempt", "backfill"), others=CLASSES, **cluster
    )


def record(history: CycleHistory, result: Result) -> None:
    history.record(result.outcome, result.snapshot, result.decisions, 0.01)


def recorded() -> CycleHistory:
    """Two pods are placed; then one of another job is evicted."""
    history = CycleHistory()
    full = job("old", 4, on="n1", priority_class="low", min_available=1)
    record(history, cycle(nodes=[node("n1")], jobs=[job("small", 2, cpu=1)]))
    record(history, cycle(START + 1, nodes=[node("n1")], jobs=[full, job("urgent", priority_class="high")]))
    return history


def details(number: str) -> CycleDetails:
    found = cycle_details(answer(recorded(), {"number": number}))
    assert found is not None
    return found
