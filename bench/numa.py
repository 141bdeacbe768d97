"""NUMA-aware scheduling: placements per second of pods with a policy, the next cycle, and an idle one."""

from collections.abc import Iterator

from bench._timing import timed
from bench.case import Case
from tests.builders import START, JobManifests, job, node, numatopology
from tests.scenario import cluster_of, config, event
from volcano.kube.api.manifest import Manifest
from volcano.model.decisions import Bind
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Outcome

BENCH = "numa"
POLICIES = ("best-effort", "restricted", "single-numa-node")
TIERS = (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder", "binpack"))
PLAIN = config(tiers=TIERS)
AWARE = config(tiers=(TIERS[0], (*TIERS[1], "numa-aware")))


def cases(scale: float = 1.0) -> Iterator[Case]:
    """1,000 nodes of 2 NUMA nodes with 32 CPUs each and 2,000 pods, times `scale`."""
    nodes, pods = max(int(1000 * scale), 10), max(int(2000 * scale), 20)
    for policy in POLICIES:
        yield placements(nodes, pods, policy)
    yield following_cycles(nodes, pods)


def placements(nodes: int, pods: int, policy: str) -> Case:
    """Gangs of ten pods with four different requests, with and without the plugin."""
    gangs = [_gang(f"g{i}", policy, 1 + i % 4 * 5) for i in range(pods // 10)]
    seconds, outcome = _cycle(nodes, gangs, policy, AWARE)
    without, _ = _cycle(nodes, gangs, policy, PLAIN)
    bound = sum(isinstance(d, Bind) for d in outcome.decisions)
    metrics = {
        "placements/s": bound / seconds,
        "placed": float(bound),
        "times without the plugin": seconds / without,
    }
    targets = {"min:placed": float(pods)} | ({"min:placements/s": 1_000.0} if nodes >= 1000 else {})
    return Case(BENCH, f"{pods} {policy} pods, {nodes} nodes", metrics, targets)


def following_cycles(nodes: int, pods: int) -> Case:
    """The cycle after a wave, with pods that nodes do not list yet, and a cycle in which nothing is to be done."""
    policy = "best-effort"
    gangs = [_gang(f"g{i}", policy, 4) for i in range(pods // 10)]
    machines, topologies = _machines(nodes, policy)
    cluster = cluster_of(nodes=machines, jobs=gangs, others=topologies)
    first = schedule(cluster.snapshot(START, 1), AWARE)
    cluster.assume(first.decisions)
    idle, second = timed(lambda: schedule(cluster.snapshot(START, 2, first.memory), AWARE))
    gang = _gang("late", policy, 4)
    for manifest in (gang.group, *gang.pods):
        cluster.apply(event(manifest, cluster))
    late, _ = timed(lambda: schedule(cluster.snapshot(START, 3, second.memory), AWARE))
    metrics = {"idle milliseconds": idle * 1000, "one gang more, milliseconds": late * 1000}
    targets = {"max:idle milliseconds": 20.0} if nodes >= 1000 else {}
    return Case(BENCH, f"after {pods} pods, {nodes} nodes", metrics, targets)


def _cycle(nodes: int, gangs: list[JobManifests], policy: str, used: Config) -> tuple[float, Outcome]:
    machines, topologies = _machines(nodes, policy)
    cluster = cluster_of(nodes=machines, jobs=gangs, others=topologies)
    return timed(lambda: schedule(cluster.snapshot(START, 1), used))


def _machines(nodes: int, policy: str) -> tuple[list[Manifest], list[Manifest]]:
    names = [f"n{i}" for i in range(nodes)]
    return (
        [node(name, cpu=64, memory="256Gi", pods=250) for name in names],
        [numatopology(name, 2, 32, threads=2, policy=policy) for name in names],
    )


def _gang(name: str, policy: str, cpu: int) -> JobManifests:
    limits = {"cpu": str(cpu), "memory": "2Gi"}
    containers = [{"name": "main", "image": "busybox", "resources": {"limits": limits}}]
    annotations = {"volcano.sh/numa-topology-policy": policy}
    return job(name, 10, cpu=None, annotations=annotations, spec={"containers": containers})
