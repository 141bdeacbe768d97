"""Reclaiming in trees of queues converges; over generated clusters."""

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import START, job, node, queue, resources
from tests.scenario import cluster_of, config, event
from tests.scheduler.test_invariants import Kubelet
from tests.strategies import World, worlds
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.model.decisions import Bind, Nominate
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config

FIRST = ("priority", "gang", "conformance")
QUEUE_PLUGINS: tuple[Any, ...] = (
    "proportion",
    {"name": "capacity", "enableHierarchy": True},
    {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 1}},
)
ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
relaxed = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def setup(plugin: Any, *, together: bool, actions: tuple[str, ...] = ACTIONS) -> Config:
    """The default tiers with this queue plugin, or all plugins in one tier."""
    second = ("drf", "predicates", plugin, "nodeorder", "binpack")
    return config(tiers=[(*FIRST, *second)] if together else [FIRST, second], actions=actions)


@st.composite
def trees(draw: st.DrawFn) -> World:
    """A generated cluster whose queues are children of two departments, with tolerances and guarantees."""
    world = draw(worlds())
    departments = [queue("root"), *(_department(draw, name) for name in ("d0", "d1"))]
    leaves = []
    for each in world.queues:
        leaf = copy.deepcopy(each)
        leaf["spec"]["parent"] = draw(st.sampled_from(("root", "d0", "d1")))
        tolerance = draw(st.sampled_from((None, None, "0", "0.5")))
        if tolerance is not None:
            leaf["metadata"]["annotations"] = {"volcano.sh/overuse-tolerance": tolerance}
        leaves.append(leaf)
    return World(world.nodes, (*departments, *leaves), world.jobs)


def _department(draw: st.DrawFn, name: str) -> Manifest:
    promised = draw(st.one_of(st.none(), st.integers(1, 3)))
    return queue(
        name,
        draw(st.integers(1, 3)),
        parent="root",
        guarantee=resources(cpu=promised) if promised else None,
    )


class Nominating(Kubelet):
    """Also sets the nominated node of pods."""

    def settle(self, result: Any) -> bool:
        moved = super().settle(result)
        for decision in result.decisions:
            if isinstance(decision, Nominate):
                self.version += 1
                manifest = self.pods[decision.task]
                manifest["metadata"]["resourceVersion"] = str(self.version)
                manifest["status"]["nominatedNodeName"] = decision.node
                self.cluster.apply(event(manifest, self.cluster, EventType.MODIFIED))
        return moved


@relaxed
@given(trees(), st.sampled_from(QUEUE_PLUGINS), st.booleans())
def test_without_change_from_outside_trees_come_to_rest(world: World, plugin: Any, together: bool) -> None:
    kubelet, chosen = Nominating(copy.deepcopy(world)), setup(plugin, together=together)
    memory = None
    for number in range(10):
        outcome = schedule(kubelet.cluster.snapshot(START + number, number, memory), chosen)
        memory = outcome.memory
        assert outcome.faults == {}
        if not kubelet.settle(outcome):
            return
    raise AssertionError("after ten cycles there were still decisions")


def test_room_that_was_made_for_a_job_is_not_taken_by_a_more_important_queue() -> None:
    """The evicted pod waits again, in the queue that goes first; the preemptor still gets the resources."""
    queues = [queue("root"), queue("first", priority=9), queue("owner", deserved=resources(cpu=1))]
    jobs = [
        job("evicted", 2, min_available=0, queue="first", on=["n1"], phase="Running"),
        job("new", 1, queue="owner", nominated="n1"),
    ]
    snapshot = cluster_of(nodes=[node("n1", cpu=2)], queues=queues, jobs=jobs).snapshot(START, 1, None)
    outcome = schedule(snapshot, setup("capacity", together=False))
    assert [each.name for each in outcome.decisions if isinstance(each, Bind)] == ["new-worker-0"]


def test_unused_nominations_expire() -> None:
    """An unused nomination, with nothing being released on its node any more, does not put its queue first."""
    queues = [queue("root"), queue("first", priority=9), queue("owner", deserved=resources(cpu=1))]
    jobs = [
        job("large", 1, cpu=9, queue="owner", nominated="n1"),
        job("small", 1, queue="owner"),
        job("f", 1, queue="first"),
    ]
    cluster = cluster_of(nodes=[node("n1", cpu=1)], queues=queues, jobs=jobs)
    chosen = setup("capacity", together=False, actions=("allocate",))

    def bound(memory: Any) -> tuple[list[str], Any]:
        outcome = schedule(cluster.snapshot(START, 1, memory), chosen)
        return [each.name for each in outcome.decisions if isinstance(each, Bind)], outcome.memory

    _, memory = bound(None)
    assert memory["nominations"] == ["uid-default-large-worker-0@n1"]
    assert bound(memory)[0] == ["f-worker-0"]
