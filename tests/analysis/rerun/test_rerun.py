"""Re-runs decide what the scheduler decides."""

from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.analysis.rerun.test_state import deciding
from tests.builders import START, job, node, priority_class, queue, resources
from tests.scenario import cluster_of, config
from tests.strategies import World, worlds
from volcano.analysis.rerun.rerun import Rerun, run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule

ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
PREEMPT = config(actions=ACTIONS)


def rerun(**parts: Any) -> Rerun:
    return run(ClusterState(cluster_of(**parts), START, seed=1), PREEMPT)


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_the_first_cycle_is_that_of_the_scheduler(world: World) -> None:
    state = ClusterState(cluster_of(**world.parts()), START, seed=5)
    wanted = schedule(cluster_of(**world.parts()).snapshot(START, 5), PREEMPT)
    found = run(state, PREEMPT)
    # Status is written only for jobs that changed since the last cycle.
    assert deciding(found.first.decisions) == deciding(wanted.decisions)
    assert found.first.diagnoses == wanted.diagnoses


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(worlds(running=False))
def test_all_cycles_place_what_the_scheduler_places_when_nothing_is_evicted(world: World) -> None:
    chosen = config()
    cluster = cluster_of(**world.parts())
    placed: dict[str, str] = {}
    memory = None
    for number in range(8):
        outcome = schedule(cluster.snapshot(START, 5 + number, memory), chosen)
        cluster.assume(outcome.decisions)
        memory = outcome.memory
        placed |= {f"{d.namespace}/{d.name}": d.node for d in outcome.decisions if isinstance(d, Bind)}
    found = run(ClusterState(cluster_of(**world.parts()), START, seed=5), chosen)
    assert found.placements == placed


def test_a_gang_without_room_for_all_does_not_start() -> None:
    found = rerun(nodes=[node("n1", cpu=2)], jobs=[job("train", 3, cpu=1)])
    assert not starts(found, "default/train")
    assert found.placements == {}
    assert "default/train" in found.diagnoses
    assert found.settled


def test_a_job_that_is_not_admitted_yet_starts_in_a_later_cycle() -> None:
    found = rerun(nodes=[node("n1", cpu=2)], jobs=[job("train", 2, cpu=1, phase="Pending")])
    assert starts(found, "default/train")
    assert found.placements == {"default/train-worker-0": "n1", "default/train-worker-1": "n1"}


def test_victims_are_gone_when_the_preemptor_is_placed() -> None:
    found = rerun(
        nodes=[node("n1", cpu=2)],
        jobs=[
            job("low", 2, min_available=0, cpu=1, on=["n1", "n1"], priority_class="low", preemptable=True),
            job("high", 1, cpu=2, priority_class="high"),
        ],
        others=[priority_class("low", 10), priority_class("high", 1000)],
    )
    assert starts(found, "default/high")
    assert {victim.name for victim in found.victims} == {"low-worker-0", "low-worker-1"}
    assert {victim.name for victim in found.victims_of("default/high")} == {"low-worker-0", "low-worker-1"}
    assert found.placements == {"default/high-worker-0": "n1"}


def test_a_minimum_of_each_role_counts() -> None:
    found = rerun(nodes=[node("n1", cpu=1)], jobs=[job("train", 2, min_available=1, cpu=1)])
    assert starts(found, "default/train")
    assert len(found.placements) == 1


def test_shares_before_and_afterwards_are_those_of_the_queue() -> None:
    found = rerun(
        nodes=[node("n1", cpu=8)],
        queues=[queue("default"), queue("q", capability=resources(cpu=4))],
        jobs=[job("a", 2, cpu=1, queue="q"), job("b", 1, cpu=1, queue="q", on=["n1"])],
    )
    before, after = found.allocated("q")
    column = found.after.resources.column["cpu"]
    assert (before[column], after[column]) == (1000.0, 3000.0)


def test_the_number_of_cycles_is_bounded() -> None:
    state = ClusterState(
        cluster_of(nodes=[node("n1", cpu=2)], jobs=[job("train", 2, cpu=1, phase="Pending")]), START
    )
    found = run(state, PREEMPT, cycles=1)
    assert found.cycles == 1
    assert not found.settled
