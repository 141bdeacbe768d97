"""What must hold in every cluster, whatever is in it."""

import copy
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import START, job
from tests.scenario import DEFAULT_TIERS, Result, cluster_of, config, event, schedule
from tests.strategies import World, worlds
from volcano.kube.client.protocol import EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Evict, SetPodGroup
from volcano.model.resources import STEP, ResourceIndex
from volcano.model.status import READY, Status
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.ledger import Ledger
from volcano.scheduler.engine.session import Session

EVERYTHING = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
CAPACITY_TIERS = (
    ("priority", "gang", "conformance"),
    ("drf", "predicates", "capacity", "nodeorder", "binpack"),
)
relaxed = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))


def cycle(world: World, **options: Any) -> Result:
    return schedule(actions=EVERYTHING, **world.parts(), **options)


@relaxed
@given(worlds())
def test_no_node_is_given_more_than_it_has(world: World) -> None:
    result = cycle(world)
    snapshot = result.snapshot
    used = snapshot.used.copy()
    tasks = {task.uid: task for gang in snapshot.jobs.values() for task in gang.tasks.values()}
    for decision in result.decisions:
        if isinstance(decision, Bind):
            used[snapshot.row_of[decision.node]] += tasks[decision.task].request
    assert (used <= snapshot.allocatable + STEP).all()


@relaxed
@given(worlds())
def test_a_gang_starts_whole_or_not_at_all(world: World) -> None:
    result = cycle(world)
    bound = Counter(d.job for d in result.decisions if isinstance(d, Bind))
    for uid, many in bound.items():
        gang = result.snapshot.jobs[uid]
        ready = sum(gang.count(status) for status in READY)
        assert many + ready >= gang.min_available


@relaxed
@given(worlds(), st.sampled_from((DEFAULT_TIERS, CAPACITY_TIERS)))
def test_no_queue_grows_past_its_capability(world: World, tiers: Any) -> None:
    result = cycle(world, tiers=tiers)
    snapshot = result.snapshot
    index: ResourceIndex = snapshot.resources
    grown = {name: totals.allocated.copy() for name, totals in snapshot.totals.items()}
    asked: dict[str, Any] = defaultdict(index.zeros)
    for decision in result.decisions:
        if isinstance(decision, Bind):
            gang = snapshot.jobs[decision.job]
            request = gang.tasks[decision.task].request
            grown[gang.queue] += request
            asked[gang.queue] += request
    for name, queue in snapshot.queues.items():
        limit = index.vector(queue.capability, missing=np.inf)
        over = (grown[name] > limit + STEP) & (asked[name] > 0)
        assert not over.any(), (name, grown[name], limit)


@relaxed
@given(worlds(), st.sampled_from((DEFAULT_TIERS, CAPACITY_TIERS)))
def test_what_is_guaranteed_is_never_reclaimed_and_who_forbids_it_is_left_alone(
    world: World, tiers: Any
) -> None:
    result = cycle(world, tiers=tiers)
    snapshot = result.snapshot
    left = {name: totals.allocated.copy() for name, totals in snapshot.totals.items()}
    hit = set()
    for decision in result.decisions:
        if isinstance(decision, Evict):
            gang = snapshot.jobs[decision.job]
            task = gang.tasks[decision.task]
            assert task.preemptable
            left[gang.queue] -= task.request
            if decision.reason == "reclaim":
                hit.add(gang.queue)
                assert snapshot.queues[gang.queue].reclaimable
    for name in hit:
        promised = snapshot.resources.vector(snapshot.queues[name].guarantee)
        held = snapshot.totals[name].allocated
        assert (left[name] + STEP >= np.minimum(promised, held))[promised > 0].all()


@relaxed
@given(worlds())
def test_the_same_snapshot_gives_the_same_decisions(world: World) -> None:
    snapshot = cluster_of(**world.parts()).snapshot(START, 7)
    settings_ = config(actions=EVERYTHING)
    assert run_cycle(snapshot, settings_).decisions == run_cycle(snapshot, settings_).decisions


def state(ledger: Ledger) -> Any:
    jobs = {uid: (list(t.counts), t.allocated.tolist(), t.ready) for uid, t in ledger._tallies.items()}
    arrays = [a.tolist() for a in (ledger.used, ledger.releasing, ledger.pipelined, ledger.nonzero_used)]
    return copy.deepcopy((arrays, dict(ledger._status), dict(ledger._row), jobs))


@relaxed
@given(worlds(), st.data())
def test_an_undo_restores_everything(world: World, data: st.DataObject) -> None:
    session = Session(cluster_of(**world.parts()).snapshot(START, 1), config(actions=EVERYTHING))
    ledger = session.ledger
    for member in session.snapshot.jobs.values():
        ledger.tally(member)
        for queue in session.snapshot.queues.values():
            session.policy.queue_order(queue)
    before = state(ledger)
    orders = {name: session.policy.queue_order(queue) for name, queue in session.snapshot.queues.items()}
    with ledger.statement():
        for member in session.snapshot.jobs.values():
            for task in member.tasks.values():
                if task.status is Status.PENDING and data.draw(st.booleans()):
                    row = data.draw(st.integers(0, len(session.nodes) - 1))
                    place = ledger.allocate if data.draw(st.booleans()) else ledger.pipeline
                    place(task, row)
                elif task.status is Status.RUNNING and data.draw(st.booleans()):
                    ledger.evict(task, "preempt")
    assert state(ledger) == before
    after = {name: session.policy.queue_order(queue) for name, queue in session.snapshot.queues.items()}
    assert after == orders


SCORERS = (["nodeorder"], ["binpack"], ["nodeorder", "binpack"], ["gang"])


@relaxed
@given(worlds(running=True), st.sampled_from(SCORERS), st.integers(1, 30), st.integers(1, 5))
def test_placing_in_runs_is_placing_one_by_one(
    world: World, plugins: list[str], many: int, seed: int
) -> None:
    parts = world.parts()
    parts["jobs"] = [*world.jobs, job("run", many, queue="q0", cpu="500m", memory="300Mi", phase="Inqueue")]
    snapshot = cluster_of(**parts).snapshot(START, seed)
    members = sorted(snapshot.jobs["default/run"].tasks.values(), key=lambda task: task.index)
    together, single = (Session(snapshot, config(plugins=["predicates", *plugins])) for _ in range(2))
    rows = together.placer.find_run(members, "q0")
    each_event = []
    for task in members:
        choice = single.placer.find(task, "q0")
        if choice is None or choice.pipelined:
            break
        single.ledger.allocate(task, choice.row)
        each_event.append(choice.row)
    assert rows == each_event


@relaxed
@given(worlds(), st.data())
def test_events_in_any_order_give_the_same_cluster(world: World, data: st.DataObject) -> None:
    parts = world.parts()
    manifests = [*world.queues, *parts["others"], *world.nodes]
    for group in world.jobs:
        manifests += [group.group, *group.pods]
    expected = cluster_of(**parts).snapshot(START, 1)
    shuffled = data.draw(
        st.permutations([*manifests, *data.draw(st.lists(st.sampled_from(manifests), max_size=5))])
    )
    cluster = Cluster()
    for manifest in shuffled:
        cluster.apply(event(manifest, cluster, EventType.MODIFIED))
        if data.draw(st.booleans()):
            cluster.snapshot(START, 1)
    found = cluster.snapshot(START, 1)
    assert found.jobs.keys() == expected.jobs.keys()
    for name, row in expected.row_of.items():
        other = found.row_of[name]
        columns = [expected.resources.names.index(n) for n in found.resources.names]
        assert (found.used[other] == expected.used[row][columns]).all()
        assert found.tasks_on[other].keys() == expected.tasks_on[row].keys()
    for uid, known in expected.jobs.items():
        assert found.jobs[uid].tasks.keys() == known.tasks.keys()
        assert found.jobs[uid].priority == known.priority
        assert found.jobs[uid].allocated.sum() == known.allocated.sum()
    for name, totals in expected.totals.items():
        assert found.totals[name].allocated.sum() == totals.allocated.sum()
        assert found.totals[name].jobs == totals.jobs


def test_a_cluster_without_nodes_says_so() -> None:
    result = schedule(jobs=[job("j", 2)], nodes=[], plugins=["gang", "predicates"])
    assert result.bound() == {}
    assert result.said("j-worker-0").startswith("0/0 nodes are available")


class Kubelet:
    """Lets decisions come true: bound pods run, evicted pods go and come back pending, as with a controller."""

    def __init__(self, world: World) -> None:
        self.cluster = cluster_of(**world.parts())
        self.pods = {p["metadata"]["uid"]: p for group in world.jobs for p in group.pods}
        self.version = 10

    def settle(self, result: Any) -> bool:
        """Applies a cycle's decisions; True when there were any that move something."""
        moved = False
        self.cluster.assume(result.decisions)
        for decision in result.decisions:
            self.version += 1
            if isinstance(decision, Bind):
                moved = True
                self._tell(decision.task, node=decision.node, phase="Running")
            elif isinstance(decision, Evict):
                moved = True
                old = self.pods.pop(decision.task)
                self.cluster.apply(event(old, self.cluster, EventType.DELETED))
                fresh = copy.deepcopy(old)
                fresh["metadata"]["uid"] = f"{decision.task}+"
                self.pods[fresh["metadata"]["uid"]] = fresh
                self._tell(fresh["metadata"]["uid"], node="", phase="Pending")
            elif isinstance(decision, SetPodGroup) and decision.phase is not None:
                moved = moved or decision.phase == "Inqueue"
        return moved

    def _tell(self, uid: str, *, node: str, phase: str) -> None:
        manifest = self.pods[uid]
        manifest["metadata"]["resourceVersion"] = str(self.version)
        manifest["spec"].pop("nodeName", None)
        if node:
            manifest["spec"]["nodeName"] = node
        manifest["status"] = {"phase": phase}
        self.cluster.apply(event(manifest, self.cluster, EventType.MODIFIED))


@settings(relaxed, max_examples=40)
@given(worlds(), st.sampled_from((DEFAULT_TIERS, CAPACITY_TIERS)))
def test_without_change_from_outside_decisions_cease(world: World, tiers: Any) -> None:
    kubelet, settings_ = Kubelet(copy.deepcopy(world)), config(tiers=tiers, actions=EVERYTHING)
    for number in range(10):
        outcome = run_cycle(kubelet.cluster.snapshot(START + number, number), settings_)
        if not kubelet.settle(outcome):
            return
    pytest.fail("after ten cycles there were still decisions")
