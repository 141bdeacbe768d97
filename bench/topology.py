"""Topology: hard and soft gangs on trees of HyperNodes, gangs that wait, and the growth with leaves and gangs."""

import gc
import time
from collections.abc import Iterator

from bench._hyper_nodes import hyper_node
from bench.case import Case
from tests.builders import START, JobManifests, job, node
from tests.scenario import cluster_of, event
from volcano.kube.api.manifest import Manifest
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse, shipped
from volcano.scheduler.engine.session import Outcome

BENCH = "topology"
CONFIG = parse(shipped())
NODES, LEAF, SPINES = 10_000, 10, 50
HARD: Manifest = {"mode": "hard", "highestTierAllowed": 1}
SOFT: Manifest = {"mode": "soft"}


def cases(scale: float = 1.0) -> Iterator[Case]:
    """Every case, at 10,000 nodes in 1,000 leaves and 50 spines times `scale`."""
    leaves = max(int(NODES / LEAF * scale), 20)
    whole = scale >= 1
    yield _placement("hard tier-1 gang of 10", leaves, 10, HARD, {"max:milliseconds": 100.0} if whole else {})
    yield _placement("soft gang of 1,000", leaves, 1_000, SOFT, {"max:milliseconds": 1000.0} if whole else {})
    yield _waiting(
        leaves, 200, {"max:milliseconds": 300.0, "max:repeat milliseconds": 300.0} if whole else {}
    )
    for part in (0.1, 0.3, 1.0):
        yield _waiting(max(int(leaves * part), 20), 200, {}, label="growth with leaves")
    for gangs in (50, 100, 200, 400):
        yield _waiting(leaves, gangs, {}, label="growth with gangs")


def _placement(name: str, leaves: int, pods: int, wanted: Manifest, targets: dict[str, float]) -> Case:
    """A gang that arrives in an idle cluster with half of each node in use."""
    cluster = _cluster(leaves, half_full=True)
    first = schedule(cluster.snapshot(START, 1), CONFIG)
    wanted_pods = min(pods, leaves * LEAF)
    _apply(cluster, _gang("g", wanted_pods, wanted, cpu=4))
    seconds, outcome = _timed(cluster, 2, first)
    bound = [decision.node for decision in outcome.decisions if isinstance(decision, Bind)]
    metrics = {
        "milliseconds": seconds * 1000,
        "placed": float(len(bound)),
        "leaves used": float(len({_leaf_of(found) for found in bound})),
    }
    if wanted is HARD:
        targets = {**targets, "max:leaves used": 1.0}
    return Case(BENCH, f"{name}, {leaves} leaves", metrics, {**targets, "min:placed": float(wanted_pods)})


def _waiting(leaves: int, gangs: int, targets: dict[str, float], label: str = "") -> Case:
    """Hard gangs of 10 while every leaf has room for 5: a cycle, and the next one in which nothing has changed."""
    cluster = _cluster(leaves, half_full=False)
    first = schedule(cluster.snapshot(START, 1), CONFIG)
    for number in range(gangs):
        _apply(cluster, _gang(f"g{number}", 10, HARD, cpu=8))
    seconds, outcome = _timed(cluster, 2, first)
    assert not any(isinstance(decision, Bind) for decision in outcome.decisions)
    cluster.assume(outcome.decisions)
    repeated, _ = _timed(cluster, 3, outcome)
    name = f"{gangs} waiting hard gangs of 10, {leaves} leaves"
    metrics = {"milliseconds": seconds * 1000, "repeat milliseconds": repeated * 1000}
    return Case(BENCH, f"{label}: {name}" if label else name, metrics, targets)


def _cluster(leaves: int, *, half_full: bool) -> Cluster:
    """Nodes of 8 CPUs: all of them half full, or every second one full."""
    spines = max(SPINES * leaves // (NODES // LEAF), 1)
    tree = [
        hyper_node(f"leaf-{i}", 1, "Node", [f"n{i * LEAF + k}" for k in range(LEAF)]) for i in range(leaves)
    ]
    share = -(-leaves // spines)
    tree += [
        hyper_node(
            f"spine-{i}",
            2,
            "HyperNode",
            [f"leaf-{k}" for k in range(i * share, min((i + 1) * share, leaves))],
        )
        for i in range(-(-leaves // share))
    ]
    count = leaves * LEAF
    machines = [node(f"n{i}", cpu=8, memory="64Gi") for i in range(count)]
    amount = 4 if half_full else 8
    full = range(count) if half_full else range(0, count, 2)
    running = [job(f"r{i}", 1, cpu=amount, on=f"n{i}", phase="Running") for i in full]
    return cluster_of(nodes=machines, jobs=running, others=tree)


def _gang(name: str, pods: int, wanted: Manifest, cpu: int) -> JobManifests:
    return job(name, pods, cpu=cpu, group={"networkTopology": wanted})


def _apply(cluster: Cluster, gang: JobManifests) -> None:
    for manifest in (gang.group, *gang.pods):
        cluster.apply(event(manifest, cluster))


def _timed(cluster: Cluster, seed: int, before: Outcome) -> tuple[float, Outcome]:
    """CPU seconds of snapshot and cycle."""
    gc.collect()
    gc.freeze()
    gc.disable()
    started = time.process_time()
    outcome = schedule(cluster.snapshot(START + seed, seed, before.memory), CONFIG)
    seconds = time.process_time() - started
    gc.enable()
    gc.unfreeze()
    return seconds, outcome


def _leaf_of(name: str) -> int:
    return int(name.removeprefix("n")) // LEAF
