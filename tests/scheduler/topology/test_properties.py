"""Properties of placement and eviction in domains, over generated trees, nodes and jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import START, JobManifests, job, node, priority_class, queue
from tests.scenario import Result, cluster_of, config
from tests.scheduler.topology.clusters import gang, hypernode, partitioned, topology
from volcano.kube.api.manifest import Manifest
from volcano.model.hypernodes.tree import HyperNodeTree
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.ledger_view import Eviction
from volcano.scheduler.engine.placement.job_queue import TaskQueue, pending
from volcano.scheduler.engine.session import Session
from volcano.scheduler.engine.topology.search import place_in_domains

PLUGINS = ("priority", "gang", "conformance", "predicates", "proportion", "binpack")
CLASSES = [priority_class("low", 10), priority_class("high", 1000)]


@dataclass(frozen=True)
class World:
    nodes: list[Manifest]
    hypernodes: list[Manifest]
    jobs: list[JobManifests]

    def snapshot(self, seed: int = 1) -> Snapshot:
        queues = [queue("default"), queue("other")]
        others = [*self.hypernodes, *CLASSES]
        cluster = cluster_of(nodes=self.nodes, others=others, jobs=self.jobs, queues=queues)
        return cluster.snapshot(START, seed)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(2, 8))
    sizes = {f"n{i}": draw(st.integers(2, 8)) for i in range(count)}
    nodes = [node(name, cpu=cpu, memory="64Gi", pods=draw(st.integers(2, 6))) for name, cpu in sizes.items()]
    free = dict(sizes)
    jobs = [_running(draw, f"r{i}", free) for i in range(draw(st.integers(0, 4)))]
    jobs += [_waiting(draw, f"w{i}") for i in range(draw(st.integers(1, 4)))]
    return World(nodes, _tree(draw, list(sizes)), jobs)


def _tree(draw: st.DrawFn, names: list[str]) -> list[Manifest]:
    """Leaves that may overlap or leave nodes out, and upper tiers that may list anything."""
    leaves = [
        hypernode(f"leaf{i}", 1, draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)))
        for i in range(draw(st.integers(1, 4)))
    ]
    for leaf in leaves:
        leaf["spec"]["tier"] = draw(st.sampled_from([1, 1, 1, 2]))
    known = [leaf["metadata"]["name"] for leaf in leaves]
    upper = []
    for i in range(draw(st.integers(0, 3))):
        members = draw(
            st.lists(st.sampled_from([*known, "up0", "up1", "up2"]), min_size=1, max_size=3, unique=True)
        )
        upper.append(hypernode(f"up{i}", draw(st.integers(1, 3)), members, "HyperNode"))
    return leaves + upper


TOPOLOGIES = st.one_of(
    st.none(),
    st.builds(topology, st.just("hard"), st.integers(1, 4)),
    st.just(topology("soft")),
    st.just(topology("hard")),
)


def _running(draw: st.DrawFn, name: str, free: dict[str, int]) -> JobManifests:
    cpu = draw(st.integers(1, 3))
    on = []
    for _ in range(draw(st.integers(1, 3))):
        fits = [node for node, left in free.items() if left >= cpu]
        if fits:
            on.append(draw(st.sampled_from(fits)))
            free[on[-1]] -= cpu
    return job(
        name, len(on), cpu=cpu, on=on, phase="Running", min_available=draw(st.integers(0, len(on))),
        priority_class="low", queue=draw(st.sampled_from(["default", "other"])), preemptable=True,
    )  # fmt: skip


def _waiting(draw: st.DrawFn, name: str) -> JobManifests:
    wanted, cpu = draw(TOPOLOGIES), draw(st.integers(1, 4))
    if draw(st.booleans()):
        groups, size = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        found = partitioned(
            name, groups, size, cpu, own=wanted, part=draw(TOPOLOGIES), min_groups=draw(st.integers(0, groups)),
            min_available=draw(st.integers(1, groups * size)),
        )  # fmt: skip
        found.group["spec"]["priorityClassName"] = "high"
        return found
    replicas = draw(st.integers(1, 4))
    best_effort = draw(st.sampled_from([False, False, False, True]))
    return gang(
        name, replicas, None if best_effort else cpu, wanted, min_available=draw(st.integers(1, replicas)),
        priority_class="high",
    )  # fmt: skip


def highest_tier(wanted: Mapping[str, Any] | None, tree: HyperNodeTree) -> int | None:
    """Highest tier that a hard limit allows; None when there is none."""
    if not wanted or wanted["mode"] != "hard" or "highestTierAllowed" not in wanted:
        return None
    return int(wanted["highestTierAllowed"])


def inside_one(names: set[str], tier: int, tree: HyperNodeTree) -> bool:
    """Whether one domain of at most this tier contains all the nodes."""
    return not names or any(
        domain.tier <= tier and names <= domain.nodes for domain in (*tree.domains.values(), tree.root)
    )


def by_partition(found: JobManifests, placed: Mapping[str, str]) -> dict[str, set[str]]:
    parts: dict[str, set[str]] = {}
    for member in found.pods:
        name = member["metadata"]["name"]
        if name in placed:
            part = member["metadata"].get("labels", {}).get("volcano.sh/partition-id", "")
            parts.setdefault(part, set()).add(placed[name])
    return parts


def check_limits(world: World, placed: Mapping[str, str], tree: HyperNodeTree) -> None:
    for found in world.jobs:
        spec = found.group["spec"]
        limit = highest_tier(spec.get("networkTopology"), tree)
        parts = by_partition(found, placed)
        if limit is not None:
            assert inside_one(set().union(*parts.values()), limit, tree)
        for policy in spec.get("subGroupPolicy", ()):
            inner = highest_tier(policy.get("networkTopology"), tree)
            if inner is not None:
                assert all(inside_one(nodes, inner, tree) for nodes in parts.values())


@given(worlds(), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_no_job_or_partition_is_placed_beyond_its_limit_and_none_in_part(world: World, seed: int) -> None:
    snapshot = world.snapshot(seed)
    result = Result(run_cycle(snapshot, config(PLUGINS, actions=("allocate", "backfill"))), snapshot)
    assert not result.outcome.faults
    assert not result.outcome.errors
    check_limits(world, result.bound(), snapshot.topology.tree)
    for found in world.jobs:
        bound = [pod for pod in found.pods if pod["metadata"]["name"] in result.bound()]
        spec = found.group["spec"]
        if bound:
            assert len(bound) >= spec["minMember"]
        limits = [
            spec.get("networkTopology"),
            *(p.get("networkTopology") for p in spec.get("subGroupPolicy", ())),
        ]
        if any(limits):
            sizes: dict[str, int] = {}
            for pod in bound:
                part = pod["metadata"].get("labels", {}).get("volcano.sh/partition-id", "")
                sizes[part] = sizes.get(part, 0) + 1
            for policy in spec.get("subGroupPolicy", ()):
                assert all(count >= policy["subGroupSize"] for count in sizes.values())


@given(worlds(), st.sampled_from(["preempt", "gangpreempt", "reclaim", "gangreclaim"]))
@settings(max_examples=150, deadline=None)
def test_nothing_is_evicted_without_a_placement_inside_one_domain(world: World, action: str) -> None:
    snapshot = world.snapshot()
    session = Session(snapshot, config(PLUGINS, actions=("allocate", action)))
    for step in session.config.steps:
        step(session)
    assert not session.faults
    ledger = session.ledger
    waiting = [task for found in snapshot.jobs.values() for task in found.by_status.get(Status.PENDING, ())]
    rows = {task.name: row for task in waiting if (row := ledger.row(task)) is not None}
    placed = {name: session.nodes.name(row) for name, row in rows.items()}
    check_limits(world, placed, snapshot.topology.tree)
    for change in ledger.committed:
        if isinstance(change, Eviction):
            found = snapshot.jobs[change.on_behalf_of]
            assert any(task.name in placed for task in found.tasks.values())
            assert ledger.ready(found) + ledger.waiting(found) >= found.min_available


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_an_undone_search_restores_everything(world: World) -> None:
    session = Session(world.snapshot(), config(PLUGINS))
    cells = session.ledger.columns.cells.copy()
    for found in session.active_jobs():
        demand, tasks = session.topology.demand(found), pending(session, found, lambda task: True)
        if demand is None or not tasks:
            continue
        counts = list(session.ledger.tally(found).counts)
        with session.ledger.statement():
            place_in_domains(
                session, session.queue(found), TaskQueue(found, list(tasks)), demand, is_last=True
            )
        assert np.array_equal(session.ledger.columns.cells, cells)
        assert session.ledger.tally(found).counts == counts
        assert not session.ledger.statuses
        assert not session.ledger.committed
