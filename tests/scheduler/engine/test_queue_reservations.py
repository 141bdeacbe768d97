"""Room of a queue that pods hold without a node: the condition QueueReserved, and giving it back after a time."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, queue, resources
from tests.scenario import cluster_of, config
from tests.scheduler.test_loop import bench
from volcano.base.clock import parse_timestamp, timestamp
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key
from volcano.kube.api.names import QUEUE_GATE, QUEUE_RESERVATION_TIMEOUT
from volcano.model.decisions import Bind, RemoveGate, SetPodGroup
from volcano.model.job import Condition
from volcano.scheduler.actions.scheduling_gates import FEATURE
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.session import Outcome

ASKED = {QUEUE_GATE: "true"}
NOWHERE = {"nodeSelector": {"no": "where"}}
MINUTES = 60.0


def held(name: str, replicas: int = 1, *, since: float | None = None, **options: Any) -> JobManifests:
    """A job whose gates were removed and that no node can take; with `since`, its condition says so since then."""
    conditions = [] if since is None else [condition(status="True", reason="WaitingForNodes", since=since)]
    return waiting(name, replicas, conditions=conditions, gates=[], spec=NOWHERE, **options)


def waiting(name: str, replicas: int = 1, **options: Any) -> JobManifests:
    group = {"conditions": options.pop("conditions", [])}
    if timeout := options.pop("timeout", ""):
        group["annotations"] = {QUEUE_RESERVATION_TIMEOUT: timeout}
    options.setdefault("gates", [QUEUE_GATE])
    return job(name, replicas, annotations=ASKED, group=group, **options)


def condition(*, status: str, reason: str, since: float, message: str = "") -> Mapping[str, str]:
    return {
        "type": "QueueReserved",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(since),
    }


def cycle(*jobs: JobManifests, on: bool = True, cpu: int = 2, plugin: str = "capacity") -> Outcome:
    chosen = config(["gang", "predicates", plugin])
    chosen = replace(chosen, features=frozenset((FEATURE,)) if on else frozenset())
    limited = queue("default", capability=resources(cpu=cpu))
    cluster = cluster_of(nodes=[node("n1", cpu=8)], jobs=jobs, queues=[limited])
    return schedule(cluster.snapshot(START, 1), chosen)


def removed(outcome: Outcome) -> list[str]:
    return [each.name for each in outcome.decisions if isinstance(each, RemoveGate)]


def reserved(outcome: Outcome, name: str) -> Condition | None:
    """The condition that is written; None when it is not."""
    written = [each for each in outcome.decisions if isinstance(each, SetPodGroup) and each.name == name]
    conditions = [found for each in written for found in each.conditions or ()]
    return next((found for found in conditions if found.type == "QueueReserved"), None)


def as_manifests(found: Iterable[Condition]) -> list[Mapping[str, str]]:
    return [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "transitionID": each.transition_id,
            "lastTransitionTime": each.last_transition,
        }
        for each in found
    ]


def test_the_condition_says_what_pods_without_a_node_hold_and_since_when() -> None:
    found = reserved(cycle(held("a", 2)), "a")
    assert found is not None
    assert (found.status, found.reason) == ("True", "WaitingForNodes")
    assert found.message == "2 pods without a node, admitted by queue default: cpu 2 reserved"
    assert parse_timestamp(found.last_transition) == START


def test_the_condition_is_written_once_and_keeps_its_time() -> None:
    outcome = cycle(held("a", since=START - 90))
    found = reserved(outcome, "a")
    assert found is not None, "its message was another one"
    assert parse_timestamp(found.last_transition) == START - 90
    (written,) = [each for each in outcome.decisions if isinstance(each, SetPodGroup)]
    again = held("a")
    again.group["status"]["conditions"] = as_manifests(written.conditions or ())
    assert [each for each in cycle(again).decisions if isinstance(each, SetPodGroup)] == []


def test_pods_that_are_placed_end_the_condition() -> None:
    known = [condition(status="True", reason="WaitingForNodes", since=START - 90)]
    outcome = cycle(waiting("a", gates=[], conditions=known))
    assert [each.name for each in outcome.decisions if isinstance(each, Bind)] == ["a-worker-0"]
    found = reserved(outcome, "a")
    assert found is not None
    assert (found.status, found.reason) == ("False", "NotReserved")
    assert parse_timestamp(found.last_transition) == START


def test_a_job_whose_pods_were_never_held_back_has_no_condition() -> None:
    assert reserved(cycle(waiting("a")), "a") is None
    assert reserved(cycle(job("b", spec=NOWHERE)), "b") is None
    assert reserved(cycle(held("c"), on=False), "c") is None


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_room_is_held_for_the_time_that_the_job_says(plugin: str) -> None:
    early = held("a", 2, since=START - 9 * MINUTES, timeout="10m", age=100)
    outcome = cycle(early, waiting("b"), plugin=plugin)
    assert removed(outcome) == []
    found = reserved(outcome, "a")
    assert found is not None
    assert found.message.endswith(f"reserved until {timestamp(START + MINUTES)}")


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_after_that_time_others_come_first(plugin: str) -> None:
    late = held("a", 2, since=START - 10 * MINUTES, timeout="10m", age=100)
    outcome = cycle(late, waiting("b"), plugin=plugin)
    assert removed(outcome) == ["b-worker-0"]
    found = reserved(outcome, "a")
    assert found is not None
    assert (found.status, found.reason) == ("False", "TimedOut")
    assert found.message.startswith(
        "1 pod without a node after 10m0s: the room in queue default was given back"
    )


def test_room_that_no_other_job_needs_is_reserved_for_another_period() -> None:
    outcome = cycle(held("a", 2, since=START - 10 * MINUTES, timeout="10m"))
    found = reserved(outcome, "a")
    assert found is not None
    assert found.status == "True"
    assert parse_timestamp(found.last_transition) == START


def test_a_job_that_gave_room_back_gets_it_again_behind_the_others() -> None:
    known = [condition(status="False", reason="TimedOut", since=START - 30)]
    again = waiting("a", 2, gates=[], spec=NOWHERE, conditions=known, timeout="10m", age=100)
    assert removed(cycle(again, waiting("b"))) == ["b-worker-0"]
    alone = reserved(cycle(again), "a")
    assert alone is not None
    assert (alone.status, parse_timestamp(alone.last_transition)) == ("True", START)


def test_two_gangs_that_each_hold_half_a_queue_are_not_stuck() -> None:
    """Each needs two pods, and room for one of them was promised to each."""
    since = START - 10 * MINUTES

    def half(name: str, timeout: str, age: float) -> JobManifests:
        made = waiting(
            name,
            2,
            timeout=timeout,
            age=age,
            conditions=[condition(status="True", reason="WaitingForNodes", since=since)],
        )
        del made.pods[0]["spec"]["schedulingGates"]
        return made

    stuck = cycle(half("a", "", 100), half("b", "", 50))
    assert removed(stuck) == []
    assert removed(cycle(half("a", "10m", 100), half("b", "", 50))) == ["b-worker-1"]


async def test_in_a_cluster_room_goes_to_a_waiting_job_when_the_time_is_over() -> None:
    async with bench(features=frozenset((FEATURE,))) as b:
        await b.add(node("n1", cpu=8), queue("small", capability=resources(cpu=1)))
        await b.add(waiting("a", spec=NOWHERE, timeout="20s", queue="small"))

        async def states() -> list[str]:
            group = await b.client.get(kinds.POD_GROUP, Key("default", "a"))
            conditions = group.get("status", {}).get("conditions") or ()
            return [each["status"] for each in conditions if each["type"] == "QueueReserved"]

        async def is_held() -> bool:
            return await states() == ["True"]

        async def is_running() -> bool:
            return await b.nodes_of("b-worker-0") == ["n1"] and await states() == ["False"]

        await b.until(is_held)
        began = b.clock.now().monotonic
        await b.add(waiting("b", queue="small"))
        await b.until(is_running)
        assert b.clock.now().monotonic >= began + 15
        pod = await b.client.get(kinds.POD, Key("default", "a-worker-0"))
        assert not pod["spec"].get("nodeName")


def test_promises_never_exceed_the_capability_of_the_queue() -> None:
    random = Random(11)
    for _ in range(60):
        jobs = []
        for number in range(random.randint(1, 6)):
            since = START - random.uniform(0, 20) * MINUTES
            states = [
                lambda name, **more: waiting(name, random.randint(1, 3), **more),
                lambda name, **more: held(name, 1, since=since, **more),  # noqa: B023
                lambda name, **more: waiting(name, 1, gates=[], **more),
            ]
            timeout = random.choice(["", "5m", "10m"])
            jobs.append(
                random.choice(states)(
                    f"j{number}", timeout=timeout, age=random.uniform(0, 99), min_available=1
                )
            )
        capability = random.randint(1, 4)
        outcome = cycle(*jobs, cpu=capability)
        bound = {each.name for each in outcome.decisions if isinstance(each, Bind)}
        assert len(bound) <= capability
        # Pods that were admitted before hold room without a node; those whose time is over only where some is left.
        firm = [
            pod["metadata"]["name"]
            for each in jobs
            for pod in each.pods
            if not pod["spec"].get("schedulingGates") and not _is_late(each)
        ]
        if removed(outcome):
            assert len(bound.union(firm, removed(outcome))) <= capability


def _is_late(made: JobManifests) -> bool:
    metadata, status = made.group["metadata"], made.group["status"]
    timeout = (metadata.get("annotations") or {}).get(QUEUE_RESERVATION_TIMEOUT)
    if not timeout or not status["conditions"]:
        return False
    return parse_timestamp(status["conditions"][0]["lastTransitionTime"]) + float(timeout[:-1]) * 60 <= START
