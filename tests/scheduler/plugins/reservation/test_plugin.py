"""Reservations for gangs, cycle by cycle: nodes, start, condition, what others may use."""

from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, priority_class, queue
from tests.scenario import Result, config, schedule
from volcano.base.clock import timestamp
from volcano.kube.api.names import WALLTIME
from volcano.model.decisions import RecordEvent, SetPodGroup
from volcano.model.reservations import reserved_gang
from volcano.scheduler.engine.config import ConfigError

HOUR = 3600.0
CLASSES = [priority_class("high", 100), priority_class("low", 1)]


def limited(name: str, replicas: int, walltime: str = "", **more: Any) -> JobManifests:
    annotations = {WALLTIME: walltime} if walltime else {}
    return job(name, replicas, group={"annotations": annotations}, **more)


def running(name: str, node_name: str, walltime: str, since: float = 0.0, **more: Any) -> JobManifests:
    """A job whose pod has run for so many seconds."""
    made = limited(name, 1, walltime, cpu=4, on=node_name, phase="Running", **more)
    made.pods[0]["status"]["startTime"] = timestamp(START - since)
    return made


def run(*jobs: JobManifests, nodes: int = 2, **more: Any) -> Result:
    plugin = {"name": "reservation", "arguments": more.pop("arguments", {})}
    return schedule(
        nodes=[node(f"n{i + 1}") for i in range(nodes)],
        jobs=jobs,
        others=CLASSES,
        plugins=[plugin, "priority", "gang", "predicates"],
        **more,
    )


def reserved(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.outcome.memory.get("reservation", {}).get("jobs", [])
    return found


def test_a_gang_gets_nodes_and_a_start_from_the_ends_of_pods() -> None:
    result = run(running("a", "n1", "2h", since=HOUR), running("b", "n2", "4h"), limited("gang", 2, cpu=4))
    (kept,) = reserved(result)
    assert kept["job"] == "default/gang"
    assert kept["start"] == START + 4 * HOUR
    assert sorted(kept["nodes"]) == ["n1", "n2"]


def test_others_use_the_nodes_only_if_they_end_before() -> None:
    waiting = limited("gang", 2, cpu=4, priority_class="high", age=10)
    busy = running("b", "n2", "4h")
    assert run(busy, waiting, limited("short", 1, "3h", cpu=4)).bound() == {"short-worker-0": "n1"}
    assert run(busy, waiting, limited("long", 1, "5h", cpu=4)).bound() == {}
    result = run(busy, waiting, limited("unknown", 1, cpu=4))
    assert result.bound() == {}
    assert "1 node(s) were reserved for the gang default/gang" in result.condition("unknown")


def test_others_use_what_the_gang_leaves() -> None:
    waiting = limited("gang", 2, cpu=3, priority_class="high", age=10)
    result = run(running("b", "n2", "4h"), waiting, limited("small", 1, cpu=1), limited("large", 1, cpu=2))
    assert result.bound() == {"small-worker-0": "n1"}


def test_jobs_ahead_of_the_gang_are_not_kept_from_its_nodes() -> None:
    waiting = limited("gang", 2, cpu=4, priority_class="low", age=10)
    first = run(running("b", "n2", "4h"), waiting)
    ahead = limited("ahead", 1, cpu=4, priority_class="high")
    again = run(running("b", "n2", "4h"), waiting, ahead, memory=first.outcome.memory)
    assert again.bound() == {"ahead-worker-0": "n1"}


def test_a_pod_that_has_run_too_long_does_not_open_the_nodes() -> None:
    late = running("b", "n2", "1h", since=2 * HOUR)
    result = run(late, limited("gang", 2, cpu=4, priority_class="high"), limited("short", 1, "1m", cpu=4))
    assert result.bound() == {}
    assert "longer than their walltime" in result.condition("gang", "Reserved")


def test_without_known_ends_nodes_are_kept_after_the_starvation_time_only() -> None:
    busy = running("b", "n2", "")
    jobs = (limited("gang", 2, cpu=4, priority_class="high", age=600), limited("small", 1, "1m", cpu=4))
    assert run(busy, *jobs, arguments={"starvation": "20m"}).bound() == {"small-worker-0": "n1"}
    result = run(busy, *jobs, arguments={"starvation": "5m"})
    assert result.bound() == {}
    assert "the gang has waited for too long" in result.condition("gang", "Reserved")


def test_the_pod_group_says_what_is_reserved_and_when_no_more() -> None:
    busy, waiting = running("b", "n2", "4h"), limited("gang", 2, cpu=4)
    result = run(busy, waiting)
    (change,) = [d for d in result.decisions if isinstance(d, SetPodGroup) and d.name == "gang"]
    condition = next(c for c in change.conditions or () if c.type == "Reserved")
    assert (condition.status, condition.reason) == ("True", "KnownEnds")
    assert condition.message == "the gang starts at 2027-01-15T12:00:00Z at the latest, on 2 node(s): n1, n2"
    assert [d.reason for d in result.decisions if isinstance(d, RecordEvent) and d.name == "gang"] == [
        "Reserved",
        "Unschedulable",
    ]
    written = {
        "type": condition.type,
        "status": "True",
        "reason": condition.reason,
        "message": condition.message,
    }
    group = {**waiting.group, "status": {"phase": "Inqueue", "conditions": [written]}}
    found = reserved_gang(group)
    assert found is not None
    assert (found.start, found.nodes, found.count) == (START + 4 * HOUR, ("n1", "n2"), 2)
    started = run(JobManifests(group, waiting.pods), memory=result.outcome.memory)
    (change,) = [d for d in started.decisions if isinstance(d, SetPodGroup) and d.name == "gang"]
    assert [c.status for c in change.conditions or () if c.type == "Reserved"] == ["False"]
    again = run(busy, JobManifests(group, waiting.pods), memory=result.outcome.memory)
    (change,) = [d for d in again.decisions if isinstance(d, SetPodGroup) and d.name == "gang"]
    assert [c.message for c in change.conditions or () if c.type == "Reserved"] == [condition.message]
    assert "Reserved" not in [d.reason for d in again.decisions if isinstance(d, RecordEvent)]


def test_only_the_first_gangs_get_nodes_as_many_as_configured() -> None:
    jobs = (
        running("b", "n2", "4h"),
        limited("first", 2, "1h", cpu=4, age=20),
        limited("second", 2, "1h", cpu=4, age=10),
    )
    assert [kept["job"] for kept in reserved(run(*jobs))] == ["default/first"]
    both = reserved(run(*jobs, arguments={"mode": "conservative"}))
    assert [(kept["job"], kept["start"] - START) for kept in both] == [
        ("default/first", 4 * HOUR),
        ("default/second", 5 * HOUR),
    ]


def test_nothing_is_reserved_for_a_gang_that_its_queue_does_not_allow_or_that_fits_nowhere() -> None:
    narrow = queue("default", capability={"cpu": "6"})
    busy = running("b", "n2", "4h")
    assert reserved(run(busy, limited("gang", 2, cpu=4), queues=[narrow])) == []
    assert reserved(run(busy, limited("huge", 3, cpu=4))) == []


def test_a_gang_is_admitted_for_its_reservation_although_others_hold_the_cluster() -> None:
    minimum = {"cpu": "8"}
    jobs = (
        running("a", "n1", "1h", min_resources={"cpu": "4"}),
        running("b", "n2", "1h", min_resources={"cpu": "4"}),
        limited("gang", 2, cpu=4, phase="Pending", min_resources=minimum),
    )
    others = ["priority", "gang"], ["overcommit", "proportion", "predicates"]
    without = schedule(nodes=[node("n1"), node("n2")], jobs=jobs, tiers=others)
    assert without.phase("gang") == "Pending"
    first = ["reservation", "priority", "gang"], others[1]
    result = schedule(nodes=[node("n1"), node("n2")], jobs=jobs, tiers=first)
    assert result.phase("gang") == "Inqueue"


@pytest.mark.parametrize(("name", "value"), [("mode", "strict"), ("depth", 0), ("starvation", "soon")])
def test_arguments_that_make_no_sense_are_rejected(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*must be"):
        config([{"name": "reservation", "arguments": {name: value}}])
