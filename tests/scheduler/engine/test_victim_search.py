"""Making room for several tasks at once gives the same result as making it one by one."""

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import START, JobManifests, job, node, priority_class, queue, resources
from tests.scenario import DEFAULT_TIERS, cluster_of, config
from volcano.model.decisions import Evict, Nominate
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.actions.reclaim import reclaim
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.answers import EvictionContext
from volcano.scheduler.engine.ledger_view import Placement
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session

ACTIONS = ("allocate", "preempt", "reclaim")
CLASSES = (priority_class("low", 10), priority_class("high", 1000))
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


class Weighing(Plugin):
    """Vetoes no victim, but could depend on the preemptor: tasks have to be handled one by one."""

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        return candidates


@st.composite
def packed(draw: st.DrawFn) -> Snapshot:
    """Nodes filled by one or two gangs each, and gangs of identical pods that want room."""
    many = draw(st.integers(1, 6))
    jobs: list[JobManifests] = []
    for i in range(many):
        size = draw(st.sampled_from((1, 2)))
        members = draw(st.integers(1, 10 // size))
        for name, count in ((f"v{i}", members), (f"w{i}", 10 // size - members)):
            if count:
                jobs.append(_running(draw, name, f"n{i}", count, size))
    for i in range(draw(st.integers(1, many + 1))):
        jobs.append(_waiting(draw, f"t{i}"))
    promised = draw(st.one_of(st.none(), st.integers(1, 9)))
    guarantee = resources(cpu=promised) if promised else None
    return cluster_of(
        nodes=[
            node(f"n{i}", cpu=10, memory="40Gi", pods=draw(st.sampled_from((10, 20)))) for i in range(many)
        ],
        queues=[queue("a", guarantee=guarantee), queue("b", weight=draw(st.integers(1, 3)))],
        jobs=jobs,
        others=CLASSES,
    ).snapshot(START, draw(st.integers(1, 9)))


def _running(draw: st.DrawFn, name: str, on: str, count: int, cpu: int) -> JobManifests:
    return job(
        name,
        count,
        cpu=cpu,
        memory="1Gi",
        on=on,
        queue="a",
        phase="Running",
        priority_class=draw(st.sampled_from(("low", "low", "high"))),
        min_available=draw(st.integers(0, count)),
        age=draw(st.integers(0, 9)),
    )


def _waiting(draw: st.DrawFn, name: str) -> JobManifests:
    count = draw(st.integers(1, 12))
    return job(
        name,
        count,
        cpu=draw(st.sampled_from(("1", "2", "3", "500m"))),
        memory="1Gi",
        queue=draw(st.sampled_from(("a", "b"))),
        priority_class="high",
        min_available=draw(st.integers(1, count)),
        age=draw(st.integers(0, 9)),
    )


def moved(snapshot: Snapshot, *more: Any) -> set[Any]:
    """Evictions and nominations."""
    tiers = (*DEFAULT_TIERS, *([list(more)] if more else []))
    outcome = schedule(snapshot, config(tiers=tiers, actions=ACTIONS))
    assert not outcome.faults
    assert not outcome.errors
    return {decision for decision in outcome.decisions if isinstance(decision, Evict | Nominate)}


@relaxed
@given(packed())
def test_room_for_several_is_made_as_for_one_after_the_other(snapshot: Snapshot) -> None:
    assert moved(snapshot) == moved(snapshot, "tests.scheduler.engine.test_victim_search:Weighing")


def test_a_gang_gets_its_room_on_a_node_together() -> None:
    snapshot = cluster_of(
        nodes=[node("n0", cpu=10), node("n1", cpu=10)],
        queues=[queue("a"), queue("b")],
        jobs=[
            job("v0", 10, on="n0", queue="a", phase="Running", min_available=1),
            job("v1", 10, on="n1", queue="a", phase="Running", min_available=1),
            job("t", 10, queue="b"),
        ],
    ).snapshot(START, 1)
    session = Session(snapshot, config(tiers=DEFAULT_TIERS, actions=["reclaim"]))
    reclaim(session)
    placed = [len(change.tasks) for change in session.ledger.committed if isinstance(change, Placement)]
    assert sum(placed) == 10
    assert max(placed) == 8  # the first finds the node, eight more follow, the last member of v0 stays
