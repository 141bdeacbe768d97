"""Decisions of cycles from the record of the scheduler as cells of tables."""

from typing import Any

from tests.builders import START, job, node, priority_class
from tests.scenario import Result, schedule
from volcano.analysis.explain.recorded import evictions
from volcano.dashboard.data.cycles import codes_text, cycle_link, job_address, job_link, nodes_text
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.queries import Evictions, OneCycle, answer

CLASSES = [priority_class("low", 1), priority_class("high", 100)]
GROUP = "team/train-46b16194-b041-4621-ad75-871d2d52b532"


def test_an_eviction_names_its_beneficiary_and_why() -> None:
    answered = answer(recorded(), {"evictions": "true"})
    assert isinstance(answered, Evictions)
    (found,) = evictions(answered.evictions)
    assert (found.cycle, found.victim.action, found.victim.job) == (2, "preempt", "default/old")
    assert found.victim.beneficiary == "default/urgent"
    assert found.why.startswith("preempted by default/urgent, whose priority 100 is above 1")


def test_a_cycle_has_the_nodes_of_the_placed_pods_and_what_waited_after_it() -> None:
    assert codes_text(one("2")) == "Evicting 1"
    cycle = one("1").cycle
    assert cycle is not None
    assert [nodes_text(each) for each in cycle.placed] == ["n1 (2)"]


def test_links_lead_to_cycles_and_to_jobs_as_users_named_them() -> None:
    assert cycle_link(7) == {"text": "7", "href": "/scheduler/cycles/7"}
    assert job_link(GROUP) == {"text": "team/train", "href": "/jobs/team/train"}
    assert job_address("team/a b") == "/jobs/team/a%20b"
    assert job_address("") == ""


def one(number: str) -> OneCycle:
    found = answer(recorded(), {"number": number})
    assert isinstance(found, OneCycle)
    return found


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
