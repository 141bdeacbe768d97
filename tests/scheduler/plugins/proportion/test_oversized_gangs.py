"""proportion: gangs larger than their queue's share do not block each other for ever."""

from typing import Any

from tests.builders import JobManifests, job, node, queue, resources
from tests.scenario import Result, schedule
from volcano.kube.api.manifest import Manifest

PREEMPTING = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
NODES = [node("n1", cpu=5), node("n2", cpu=5)]
TWO = [queue("a"), queue("b")]


def cycle(queues: list[Manifest], *jobs: JobManifests, **more: Any) -> Result:
    return schedule(nodes=NODES, queues=queues, jobs=jobs, actions=PREEMPTING, **more)


def gang(queue_name: str, members: int, **more: Any) -> JobManifests:
    return job(f"gang-{queue_name}", members, queue=queue_name, **more)


def test_of_two_gangs_that_are_larger_than_their_shares_the_first_starts() -> None:
    result = cycle(TWO, gang("a", 6, age=9), gang("b", 6))
    assert set(result.bound()) == {f"gang-a-worker-{i}" for i in range(6)}


def test_who_is_within_its_share_goes_first() -> None:
    result = cycle(TWO, gang("a", 6, age=9), gang("b", 5))
    assert set(result.bound()) == {f"gang-b-worker-{i}" for i in range(5)}


def test_who_could_run_nowhere_is_owed_nothing() -> None:
    nowhere = gang("b", 5, spec={"nodeSelector": {"disk": "none"}})
    assert len(cycle(TWO, gang("a", 6), nowhere).bound()) == 6


def test_the_capability_binds_all_the_same() -> None:
    limited = [queue("a", capability=resources(cpu=5)), queue("b", capability=resources(cpu=5))]
    assert cycle(limited, gang("a", 6), gang("b", 6)).bound() == {}


def test_what_is_guaranteed_to_others_is_left_alone() -> None:
    promised = queue("c", guarantee=resources(cpu=5))
    assert cycle([*TWO, promised], gang("a", 6), gang("b", 6)).bound() == {}


def test_a_queue_that_holds_something_keeps_to_its_share() -> None:
    holds = job("holds", 2, queue="a", on="n1", phase="Running")
    assert cycle(TWO, holds, gang("a", 6), gang("b", 6)).bound().keys() == {
        f"gang-b-worker-{i}" for i in range(6)
    }


def test_a_gang_beyond_its_share_that_lost_a_member_is_completed() -> None:
    members = gang("a", 6, on=["n1"] * 5, phase="Running")
    result = cycle(TWO, members, gang("b", 6))
    assert set(result.bound()) == {"gang-a-worker-5"}


def test_no_pod_is_evicted_for_requests_beyond_a_share() -> None:
    elastic = job("elastic", 8, min_available=1, queue="b", on=["n1"] * 5 + ["n2"] * 3, phase="Running")
    assert cycle(TWO, elastic, gang("a", 6)).evicted() == set()


def test_surplus_members_keep_to_the_share() -> None:
    result = cycle(TWO, gang("a", 9, min_available=6, age=9), gang("b", 6))
    assert len(result.bound()) == 6
