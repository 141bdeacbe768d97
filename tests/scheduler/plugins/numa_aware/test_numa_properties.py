"""Properties of numa-aware: no CPU for two pods, no span with single-numa-node, and exact undo."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import numatopology
from tests.scenario import session
from tests.scheduler.plugins.numa_aware.test_numa_aware import asking, big, placed
from volcano.kube.devices.numa import cpusets
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.numa_aware import NumaAware

POLICIES = ("best-effort", "restricted", "single-numa-node")


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Session, NumaAware, list[Task]]:
    nodes = draw(st.integers(1, 3))
    policies = [draw(st.sampled_from(POLICIES)) for _ in range(nodes)]
    topologies = [
        numatopology(f"n{i}" if i else "n", 2, 4, threads=draw(st.sampled_from((1, 2))), policy=policy)
        for i, policy in enumerate(policies)
    ]
    there = [
        placed(f"old-{i}", draw(st.integers(1, 3)), draw(st.sampled_from(("0", "1", None)))) for i in range(2)
    ]
    jobs = [
        asking(f"j{i}", draw(st.integers(1, 5)), draw(st.sampled_from(("", "best-effort"))))
        for i in range(draw(st.integers(1, 8)))
    ]
    made = session(
        plugins=["numa-aware"],
        nodes=[big(each["metadata"]["name"], cpu=64) for each in topologies],
        others=topologies,
        pods=there,
        jobs=jobs,
    )
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, NumaAware)
    tasks = [task for found in made.snapshot.jobs.values() for task in found.tasks.values() if not task.node]
    return made, plugin, tasks


def state(plugin: NumaAware) -> Any:
    free = plugin._free
    return (
        dict(free._idle),
        dict(free._later),
        free._idle_state.tolist(),
        free._later_state.tolist(),
        dict(free._taken),
    )


@given(clusters(), st.data())
@settings(max_examples=60)
def test_no_cpu_is_given_to_two_pods(
    cluster: tuple[Session, NumaAware, list[Task]], data: st.DataObject
) -> None:
    made, plugin, tasks = cluster
    free = plugin._free
    given_out = {row: cpusets.union(held.values()) for row, held in free._held.items()}
    for task in tasks:
        row = data.draw(st.integers(0, len(made.nodes) - 1))
        if isinstance(made.ledger.allocate(task, row), Rejection):
            continue
        taken = free._taken[task.uid][1].cpus
        topology = made.snapshot.numa_topologies[made.nodes.name(row)]
        assert taken.bit_count() == sum(task.shape.numa.cpus if task.shape.numa else ())
        assert not taken & given_out[row]
        assert not taken & ~topology.layout.cpus
        if topology.policy == "single-numa-node":
            assert len(topology.layout.numa_nodes_of(taken)) == 1
        given_out[row] |= taken


@given(clusters(), st.data())
@settings(max_examples=60)
def test_an_undo_restores_everything(
    cluster: tuple[Session, NumaAware, list[Task]], data: st.DataObject
) -> None:
    made, plugin, tasks = cluster
    ledger = made.ledger
    running = [task for row in made.snapshot.tasks_on for task in row.values()]
    before = state(plugin)
    with ledger.statement():  # undone at its end
        for task in data.draw(st.permutations([*tasks, *running])):
            if task.node:
                ledger.evict(task, "preempt")
            else:
                row = data.draw(st.integers(0, len(made.nodes) - 1))
                place = ledger.pipeline if data.draw(st.booleans()) else ledger.allocate
                with ledger.statement() as inner:
                    if place(task, row) is None and data.draw(st.booleans()):
                        inner.commit()
        idle, later = state(plugin)[:2]
        assert all(not idle[row] & ~later[row] for row in idle)
    assert state(plugin) == before
