"""Reclaim serves queues below their share, and ends: over examples and generated clusters, cycle after cycle."""

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import START, JobManifests, job, node, queue, resources
from tests.scenario import config, event
from tests.scheduler.plugins.test_stability import Nominating, setup
from tests.strategies import World
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import Bind, Evict, Nominate
from volcano.model.job import Job
from volcano.model.resources import PODS, STEP
from volcano.model.snapshot import Snapshot
from volcano.model.status import READY
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.capacity import Capacity
from volcano.scheduler.plugins.proportion import Proportion

RECLAIMING = ("enqueue", "allocate", "reclaim", "backfill")
PREEMPTING = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
FLAT = ("proportion", "capacity")
TREES: tuple[Any, ...] = (
    "proportion",
    {"name": "capacity", "enableHierarchy": True},
    {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 1}},
)
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


class Model(Nominating):
    """Runs cycles; bound pods run, evicted pods are created again."""

    def __init__(self, world: World, chosen: Config) -> None:
        super().__init__(copy.deepcopy(world))
        self.chosen = chosen
        self.memory: Any = None
        self.evictions: list[int] = []  # per cycle
        self.number = 0

    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot(START + self.number, self.number, self.memory)

    def step(self) -> bool:
        """Runs one cycle; false when it changed nothing."""
        outcome = schedule(self.snapshot(), self.chosen)
        assert outcome.faults == {}
        self.number += 1
        self.memory = outcome.memory
        self.evictions.append(sum(isinstance(each, Evict) for each in outcome.decisions))
        return self.settle(outcome)

    def run(self, most: int) -> "Model":
        """Runs until two cycles in a row change nothing."""
        idle = 0
        for _ in range(most):
            idle = 0 if self.step() else idle + 1
            if idle == 2:
                return self
        raise AssertionError(f"after {most} cycles there were still decisions: evictions {self.evictions}")

    def held(self, resource: str = "nvidia.com/gpu") -> dict[str, float]:
        snapshot = self.snapshot()
        column = snapshot.resources.column[resource]
        return {name: totals.allocated.item(column) / 1000 for name, totals in snapshot.totals.items()}


# -- examples ----------------------------------------------------------------------------------------------------


def trainer(name: str, pods: int, *, on: tuple[str, ...] = (), gpu: int = 8, cpu: int = 4) -> JobManifests:
    """Jobs of one GPU pod each, in the queue of that name, on these nodes or waiting."""
    phase = "Running" if on else "Inqueue"
    minimum = 0 if on else 1
    return job(
        f"{name}-{pods}-{gpu}",
        pods,
        min_available=minimum,
        queue=name,
        on=list(on),
        cpu=cpu,
        memory="16Gi",
        gpu=gpu,
        phase=phase,
    )


def gpu_nodes(count: int) -> tuple[Manifest, ...]:
    return tuple(node(f"n{i}", cpu=64, memory="512Gi", gpu=8) for i in range(count))


def gpu_queues(plugin: str, names: str, deserved: float) -> tuple[Manifest, ...]:
    amount = resources(gpu=f"{round(deserved * 1000)}m") if plugin == "capacity" else None
    return tuple(queue(name, deserved=amount) for name in names)


@pytest.mark.parametrize("actions", [RECLAIMING, PREEMPTING])
@pytest.mark.parametrize("plugin", FLAT)
@pytest.mark.parametrize("wanted", [8, 1])
def test_a_third_queue_gets_one_pod_by_one_eviction_and_then_all_is_stable(
    plugin: str, wanted: int, actions: tuple[str, ...]
) -> None:
    """16/16/0 of 32 GPUs in pods of 8."""
    jobs = (
        trainer("a", 2, on=("n0", "n1")),
        trainer("b", 2, on=("n2", "n3")),
        trainer("c", 1, gpu=wanted),
    )
    world = World(gpu_nodes(4), gpu_queues(plugin, "abc", 32 / 3), jobs)
    model = Model(world, setup(plugin, together=False, actions=actions)).run(12)
    assert sum(model.evictions) == 1
    held = model.held()
    assert held["c"] == wanted
    assert sorted((held["a"], held["b"])) == [8, 16]


@pytest.mark.parametrize("plugin", FLAT)
def test_a_queue_gets_a_pod_that_is_larger_than_its_share(plugin: str) -> None:
    """16/8/0/0 of 24 GPUs in pods of 8: each queue deserves 6, and the third is served."""
    jobs = (trainer("a", 2, on=("n0", "n1")), trainer("b", 1, on=("n2",)), trainer("c", 1), trainer("d", 1))
    world = World(gpu_nodes(3), gpu_queues(plugin, "abcd", 6), jobs)
    model = Model(world, setup(plugin, together=False, actions=PREEMPTING)).run(12)
    assert sum(model.evictions) == 1
    held = model.held()
    assert (held["a"], held["b"]) == (8, 8)
    assert sorted((held["c"], held["d"])) == [0, 8]


@pytest.mark.parametrize("plugin", TREES[:2])
def test_a_child_is_served_before_its_relatives_keep_an_excess(plugin: Any) -> None:
    """Two departments of 16 GPUs; the children of one hold all 32 in pods of 8."""
    queues = (
        queue("root"),
        *(queue(name, parent="root") for name in ("x", "y")),
        queue("a", parent="x"),
        queue("b", parent="x"),
        queue("c", parent="y"),
    )
    jobs = (trainer("a", 2, on=("n0", "n1")), trainer("b", 2, on=("n2", "n3")), trainer("c", 2))
    model = Model(World(gpu_nodes(4), queues, jobs), setup(plugin, together=False, actions=RECLAIMING))
    model.run(12)
    assert model.held()["c"] >= 8
    assert sum(model.evictions) <= 2


def test_a_gang_is_reclaimed_as_a_whole_or_not_at_all() -> None:
    """Of two gangs the queue deserves one and a half; a member alone would be useless."""
    nodes = tuple(node(f"n{i}", cpu=2) for i in range(4))
    gangs = tuple(
        job(f"gang-{i}", 2, cpu=2, queue="a", on=[f"n{2 * i}", f"n{2 * i + 1}"], phase="Running")
        for i in range(2)
    )
    waiting = job("new", 1, cpu=2, queue="b")
    model = Model(
        World(nodes, (queue("a"), queue("b")), (*gangs, waiting)),
        setup("proportion", together=False, actions=RECLAIMING),
    )
    model.run(12)
    running = Counter(task.job for tasks in model.snapshot().tasks_on for task in tasks.values())
    assert running["default/new"] == 1
    assert sorted(running[f"default/gang-{i}"] for i in range(2)) == [0, 2]


def test_a_gang_with_a_pod_that_may_not_be_evicted_is_left_alone() -> None:
    """Both by reclaim and by gangreclaim: the other pod alone would be of no use."""
    nodes = tuple(node(f"n{i}", cpu=2) for i in range(3))
    fixed = job("fixed", 1, cpu=2, queue="a", on="n2", phase="Running", preemptable=False)

    def evicted(action: str, preemptable: str) -> int:
        gang = job("gang", 2, cpu=2, queue="a", on=["n0", "n1"], phase="Running")
        gang.pods[0]["metadata"]["annotations"]["volcano.sh/preemptable"] = preemptable
        world = World(nodes, (queue("a"), queue("b")), (gang, fixed, job("new", 1, cpu=2, queue="b")))
        actions = ("enqueue", "allocate", action)
        return sum(Model(world, setup("proportion", together=False, actions=actions)).run(6).evictions)

    for action in ("reclaim", "gangreclaim"):
        assert (evicted(action, "true"), evicted(action, "false")) == (2, 0)


# -- evicted pods ------------------------------------------------------------------------------------------------


def test_an_evicted_pod_counts_as_requested_until_it_is_replaced() -> None:
    nodes, queues = [node("n0", cpu=4)], (queue("a"), queue("b"))
    jobs = (
        job("a", 4, min_available=0, queue="a", on="n0", phase="Running"),
        job("b", 3, min_available=1, queue="b"),
    )
    model = Model(World(tuple(nodes), queues, jobs), config(actions=RECLAIMING))

    def deserved() -> float:
        plugin = queue_plugin(Session(model.snapshot(), model.chosen))
        assert isinstance(plugin, Proportion)
        return plugin.deserved["a"].item(0) / 1000

    assert deserved() == 2
    outcome = schedule(model.snapshot(), model.chosen)
    model.memory = outcome.memory
    evicted = [each for each in outcome.decisions if isinstance(each, Evict)]
    assert len(evicted) == 1
    model.cluster.assume(outcome.decisions)
    assert deserved() == 2  # it terminates
    for each in evicted:
        model.cluster.apply(deleted(model, each.task))
    assert deserved() == 2  # its replacement does not exist yet
    model.number += 50
    assert deserved() == 2
    model.number += 61
    assert deserved() == 2  # three others are left, more than the share


def test_replacements_are_not_waited_for_without_end() -> None:
    nodes, queues = (node("n0", cpu=4),), (queue("a"), queue("b"))
    jobs = (
        job("a", 2, min_available=0, cpu=2, queue="a", on="n0", phase="Running"),
        job("b", 1, cpu=2, queue="b"),
        job("more", 4, min_available=0, queue="b"),
    )
    model = Model(World(nodes, queues, jobs), config(actions=RECLAIMING))

    def requested(outcome_memory: Any) -> float:
        model.memory = outcome_memory
        plugin = queue_plugin(Session(model.snapshot(), model.chosen))
        return plugin._requested["a"].item(0) / 1000

    outcome = schedule(model.snapshot(), model.chosen)
    evicted = [each for each in outcome.decisions if isinstance(each, Evict)]
    model.cluster.assume(outcome.decisions)
    for each in evicted:
        model.cluster.apply(deleted(model, each.task))
    assert requested(outcome.memory) == 4
    model.number += 59
    assert requested(outcome.memory) == 4
    model.number += 2
    assert requested(outcome.memory) == 2
    assert schedule(model.snapshot(), model.chosen).memory.get("proportion", {}).get("evicted") is None


def deleted(model: Model, uid: str) -> Any:
    return event(model.pods.pop(uid), model.cluster, EventType.DELETED)


# -- generated clusters ------------------------------------------------------------------------------------------


@st.composite
def flat(draw: st.DrawFn, *, eager: bool = False) -> World:
    """A full cluster: some queues hold nearly everything, and every queue has gangs waiting."""
    nodes = tuple(
        node(f"n{i}", cpu=draw(st.integers(3, 8)), memory=f"{draw(st.sampled_from((6, 12, 99)))}Gi")
        for i in range(draw(st.integers(1, 4)))
    )
    names = [f"q{i}" for i in range(draw(st.integers(2, 4)))]
    jobs: list[JobManifests] = []
    holders = names[: draw(st.integers(1, len(names)))]
    left = {each["metadata"]["name"]: _amounts(each) for each in nodes}
    for i in range(draw(st.integers(2, 8))):
        jobs += _running(draw, f"r{i}", draw(st.sampled_from(holders)), left)
    for i in range(draw(st.integers(1, 5))):
        jobs.append(_waiting(draw, f"w{i}", draw(st.sampled_from(names))))
    return World(nodes, (queue("root"), *(_queue(draw, name, eager=eager) for name in names)), tuple(jobs))


def _queue(draw: st.DrawFn, name: str, *, eager: bool) -> Manifest:
    rarely = st.integers(0, 5).map(lambda number: number == 0)
    deserved = resources(cpu=draw(st.integers(1, 8))) if not draw(rarely) else None
    if deserved and draw(st.booleans()):
        deserved["memory"] = f"{draw(st.integers(1, 12))}Gi"
    tolerance = draw(st.sampled_from((None, None, None, "0.3", "0" if eager else None)))
    return queue(
        name,
        draw(st.integers(1, 3)),
        deserved=deserved,
        capability=resources(cpu=draw(st.integers(4, 16))) if draw(rarely) else None,
        guarantee=resources(cpu=draw(st.integers(1, 2))) if draw(rarely) else None,
        reclaimable=not draw(rarely),
        annotations={"volcano.sh/overuse-tolerance": tolerance} if tolerance else None,
    )


def _running(draw: st.DrawFn, name: str, queue_name: str, left: dict[str, list[int]]) -> list[JobManifests]:
    cpu, memory = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    on: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        found = next((n for n, (cpus, gib) in left.items() if cpus >= cpu and gib >= memory), None)
        if found is not None:
            left[found][0] -= cpu
            left[found][1] -= memory
            on.append(found)
    if not on:
        return []
    minimum = draw(st.integers(0, len(on)))
    return [
        job(
            name,
            len(on),
            min_available=minimum,
            queue=queue_name,
            cpu=cpu,
            memory=f"{memory}Gi",
            on=on,
            phase="Running",
            preemptable=draw(st.sampled_from((None, None, None, False))),
            age=draw(st.integers(0, 100)),
        )
    ]


def _waiting(draw: st.DrawFn, name: str, queue_name: str) -> JobManifests:
    replicas = draw(st.integers(1, 3))
    return job(
        name,
        replicas,
        min_available=draw(st.integers(1, replicas)),
        queue=queue_name,
        cpu=draw(st.integers(1, 4)),
        memory=draw(st.sampled_from((None, "1Gi", "3Gi"))),
        priority_class=draw(st.sampled_from(("low", "high", ""))),
        age=draw(st.integers(0, 100)),
    )


def _amounts(manifest: Manifest) -> list[int]:
    amounts = manifest["status"]["allocatable"]
    return [int(amounts["cpu"]), int(amounts["memory"].removesuffix("Gi"))]


@st.composite
def trees(draw: st.DrawFn, *, eager: bool = False) -> World:
    """The same, with the queues below two departments."""
    world = draw(flat(eager=eager))
    departments = [
        queue(
            name,
            draw(st.integers(1, 3)),
            parent="root",
            deserved=resources(cpu=draw(st.integers(2, 8))) if draw(st.booleans()) else None,
            guarantee=resources(cpu=draw(st.integers(1, 2))) if draw(st.booleans()) else None,
        )
        for name in ("d0", "d1")
    ]
    leaves = []
    for each in world.queues[1:]:
        leaf = copy.deepcopy(each)
        leaf["spec"]["parent"] = draw(st.sampled_from(("root", "d0", "d1")))
        leaves.append(leaf)
    return World(world.nodes, (world.queues[0], *departments, *leaves), world.jobs)


CASES = st.one_of(
    st.tuples(flat(), st.sampled_from(FLAT)),
    st.tuples(trees(), st.sampled_from(TREES)),
)
EAGER_CASES = st.one_of(
    st.tuples(flat(eager=True), st.sampled_from(FLAT)),
    st.tuples(trees(eager=True), st.sampled_from(TREES)),
)


def queue_plugin(session: Session) -> Proportion | Capacity:
    return next(each for each in session.policy.plugins if isinstance(each, Proportion | Capacity))


def served_fractions(session: Session) -> list[float]:
    """Served fractions of all queues and the resources that count, sorted."""
    plugin = queue_plugin(session)
    rule = plugin.reclaim_rule
    return sorted(
        min(1.0, plugin.usage.allocated[name].item(column) / amount)
        for name in plugin.tree.parent
        for column, amount in rule._share_items(name)
    )


@relaxed
@given(CASES, st.booleans())
def test_every_statement_raises_the_sorted_served_fractions(case: tuple[World, Any], together: bool) -> None:
    world, plugin = case
    model = Model(world, setup(plugin, together=together, actions=RECLAIMING))
    before: list[list[float]] = []
    grown: list[tuple[list[float], list[float]]] = []

    def watch(kind: type[Proportion | Capacity], patch: pytest.MonkeyPatch) -> None:
        original_opened, original_closed = kind.reclaim_opened, kind.reclaim_closed

        def opened(plugin: Any, gang: Job, tasks: Any) -> bool:
            before.append(served_fractions(plugin.session))
            return original_opened(plugin, gang, tasks)

        def closed(plugin: Any, gang: Job, committed: bool) -> None:
            if committed:
                grown.append((before[-1], served_fractions(plugin.session)))
            original_closed(plugin, gang, committed)

        patch.setattr(kind, "reclaim_opened", opened)
        patch.setattr(kind, "reclaim_closed", closed)

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Proportion, Capacity):
            watch(kind, patch)
        for _ in range(4):
            model.step()
    for old, new in grown:
        assert np.round(new, 6).tolist() >= np.round(old, 6).tolist()


@relaxed
@given(EAGER_CASES, st.booleans())
def test_reclaim_ends(case: tuple[World, Any], together: bool) -> None:
    world, plugin = case
    Model(world, setup(plugin, together=together, actions=RECLAIMING)).run(40)


@relaxed
@given(CASES, st.booleans())
def test_with_preempt_the_number_of_evictions_is_bounded(case: tuple[World, Any], together: bool) -> None:
    """Each pod is evicted a few times at most, until queues and priorities agree."""
    world, plugin = case
    model = Model(world, setup(plugin, together=together, actions=PREEMPTING)).run(40)
    assert sum(model.evictions) <= 4 * sum(len(group.pods) for group in world.jobs)


@relaxed
@given(EAGER_CASES, st.booleans(), st.sampled_from((RECLAIMING, ("enqueue", "allocate", "gangreclaim"))))
def test_reclaim_keeps_capabilities_guarantees_and_gangs(
    case: tuple[World, Any], together: bool, actions: tuple[str, ...]
) -> None:
    world, plugin = case
    chosen = setup(plugin, together=together, actions=actions)
    model = Model(world, chosen)
    for _ in range(3):
        snapshot = model.snapshot()
        limits = queue_plugin(Session(snapshot, chosen))
        outcome = schedule(snapshot, chosen)
        tasks = {task.uid: task for gang in snapshot.jobs.values() for task in gang.tasks.values()}
        changes: dict[type, dict[str, Any]] = {
            kind: {name: snapshot.resources.zeros() for name in snapshot.queues}
            for kind in (Bind, Evict, Nominate)
        }
        evicted: Counter[str] = Counter()
        for decision in outcome.decisions:
            if isinstance(decision, Bind | Evict | Nominate):
                task = tasks[decision.task]
                for name in limits.tree.path(snapshot.jobs[task.job].queue):
                    changes[type(decision)][name] += task.request
                evicted[task.job] += isinstance(decision, Evict)
        for name in limits.tree.parent:
            held, bound, lost = limits.usage.allocated[name], changes[Bind][name], changes[Evict][name]
            requested = (bound > 0) & (np.arange(len(held)) != PODS)
            assert (held + bound <= limits.capability[name] + STEP)[requested].all()
            left = held - lost + bound + changes[Nominate][name]
            assert (left + STEP >= np.minimum(held, limits.guarantee[name]))[lost > 0].all()
        for uid, count in evicted.items():
            gang = snapshot.jobs[uid]
            ready = sum(gang.count(status) for status in READY)
            if count and ready >= gang.min_available:
                assert ready - count >= gang.min_available or ready == count
        model.number += 1
        model.memory = outcome.memory
        model.settle(outcome)
