"""Resource claims: placements per second of pods with resource claims, and idle cycles beside them."""

import gc
import time
from collections.abc import Iterator

from bench.case import Case
from tests.builders import START, node
from tests.dra import Gang, gang, gpu_class, gpus, request
from tests.scenario import cluster_of
from volcano.kube.api.manifest import Manifest
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse, shipped

BENCH = "claims"
DEVICES = 8  # of a node
CONFIG = parse(shipped("volcano-scheduler-preempt.conf"))


def cases(scale: float = 1.0) -> Iterator[Case]:
    """Claims of one device, and claims with constraints, at 1,000 nodes times `scale`; idle cycles."""
    nodes = max(int(1_000 * scale), 10)
    single = [gang(f"s{number}", 1) for number in range(nodes * 2)]
    yield _placements(f"{nodes * 2} pods with a claim of 1", nodes, single, 1_000.0)
    constraint = {"constraints": [{"matchAttribute": "gpu.example.com/number"}]}
    searched = [gang(f"c{number}", 2, request(), devices=constraint) for number in range(nodes // 2)]
    yield _placements(f"{nodes} pods with a constrained claim", nodes, searched)
    pairs = [gang(f"g{number}", 4, request(count=2)) for number in range(nodes // 4)]
    yield _placements(f"{nodes // 4} gangs of 4 with claims of 2", nodes, pairs)
    yield _idle(nodes)


def _placements(case: str, nodes: int, gangs: list[Gang], target: float = 0.0) -> Case:
    cluster = _cluster(nodes, gangs)
    gc.collect()
    gc.freeze()
    started, used = time.perf_counter(), time.process_time()
    outcome = schedule(cluster.snapshot(START, 1), CONFIG)
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    gc.unfreeze()
    placed = sum(isinstance(each, Bind) for each in outcome.decisions)
    expected = sum(len(each.pods) for each in gangs)
    metrics = {"placements/s": placed / seconds, "placements/cpu-s": placed / cpu, "placed": float(placed)}
    targets = {"min:placements/s": target} if target else {}
    targets["min:placed"] = float(expected)
    return Case(BENCH, f"{case} on {nodes} nodes", metrics, targets)


def _idle(nodes: int) -> Case:
    """A cycle in which all devices are in use and nothing waits."""
    held = [
        gang(f"r{row}-{number}", 1, on=[(f"n{row}", [f"gpu-{number}"])])
        for row in range(nodes)
        for number in range(2)
    ]
    cluster = _cluster(nodes, held)
    first = schedule(cluster.snapshot(START, 1), CONFIG)
    cluster.assume(first.decisions)
    schedule(cluster.snapshot(START, 2, first.memory), CONFIG)
    started = time.perf_counter()
    schedule(cluster.snapshot(START, 3, first.memory), CONFIG)
    seconds = time.perf_counter() - started
    return Case(BENCH, f"idle cycle, {nodes * 2} claims", {"seconds": seconds}, {"max:seconds": 0.02})


def _cluster(nodes: int, gangs: list[Gang]) -> Cluster:
    machines = [node(f"n{row}", cpu=64, memory="256Gi", pods=110) for row in range(nodes)]
    slices: list[Manifest] = [gpus(f"n{row}", DEVICES) for row in range(nodes)]
    return cluster_of(
        nodes=machines,
        others=[gpu_class(), *slices, *(claim for each in gangs for claim in each.claims)],
        pods=[pod for each in gangs for pod in each.pods],
        podgroups=[each.group for each in gangs],
    )
