"""Scheduling: placements per second, evictions, idle cycles and restart, by size; and gang experiments."""

import resource
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from bench._timing import timed
from bench.case import Case
from tests.builders import START, JobManifests, job, node, priority_class, queue
from tests.experiments import WITH_GANG, WITHOUT_GANG, Training, pairs_together
from tests.scenario import cluster_of
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Evict
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse, shipped
from volcano.scheduler.engine.session import Outcome

BENCH = "scheduling"
SIZES = (100, 1_000, 5_000, 10_000)
CONFIG = parse(shipped("volcano-scheduler-preempt.conf"))
CLASSES = (priority_class("low", 10), priority_class("high", 1000))


def cases(scale: float = 1.0) -> Iterator[Case]:
    """Every case, at sizes up to 10,000 nodes times `scale`."""
    for nodes in [size for size in SIZES if size <= max(SIZES) * scale]:
        yield gangs(nodes)
        yield one_gang(nodes)
        if nodes <= 5_000:
            yield single_pods(nodes)
            yield constrained(nodes)
            yield evictions(nodes, across_queues=True)
            yield evictions(nodes, across_queues=False)
        yield idle(nodes)
        yield waiting(nodes)
    yield restart(max(int(5_000 * scale), 50))
    yield from experiments()


def gangs(nodes: int) -> Case:
    """100 gangs of 50 identical pods."""
    seconds, outcome = _cycle(_machines(nodes, 64), [_job(f"g{i}", 50) for i in range(100)])
    targets = {1_000: 50_000.0, 10_000: 10_000.0}
    return _placed("100 gangs of 50", nodes, seconds, outcome, targets)


def one_gang(nodes: int) -> Case:
    """One gang of 10,000 pods."""
    seconds, outcome = _cycle(_machines(nodes, 128), [_job("g", 10_000)])
    return _placed("1 gang of 10,000", nodes, seconds, outcome, {1_000: 50_000.0, 10_000: 10_000.0})


def single_pods(nodes: int) -> Case:
    """10,000 jobs of one pod, with 50 different requests."""
    jobs = [
        job(f"s{i}", 1, cpu=f"{100 + i % 50 * 10}m", memory=f"{100 + i % 50}Mi", age=i) for i in range(10_000)
    ]
    seconds, outcome = _cycle(_machines(nodes, 128), jobs)
    return _placed("10,000 single pods with 50 different requests", nodes, seconds, outcome, {1_000: 5_000.0})


def constrained(nodes: int) -> Case:
    """Pods with anti-affinity, and pods spread over zones."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    selector = {"matchLabels": {"app": "y"}}
    spread = [
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    ]
    many = min(500, nodes)
    jobs = [
        job("apart", many, min_available=1, labels={"app": "x"}, spec={"affinity": apart}),
        job("spread", many, min_available=1, labels={"app": "y"}, spec={"topologySpreadConstraints": spread}),
    ]
    machines = [node(f"n{i}", cpu=32, memory="128Gi", labels={"zone": f"z{i % 3}"}) for i in range(nodes)]
    seconds, outcome = _cycle(machines, jobs)
    return _placed("anti-affinity and spread", nodes, seconds, outcome, {1_000: 1_000.0})


def evictions(nodes: int, *, across_queues: bool) -> Case:
    """Half of a full cluster is evicted, by reclaim or preempt."""
    machines = [node(f"n{i}", cpu=10, memory="40Gi") for i in range(nodes)]
    full = [
        _job(f"a{i}", 10, on=f"n{i}", queue="a", priority_class="low", min_available=1) for i in range(nodes)
    ]
    preemptors_queue = "b" if across_queues else "a"
    preemptors = [_job(f"b{i}", 10, queue=preemptors_queue, priority_class="high") for i in range(nodes // 2)]
    seconds, outcome = _cycle(machines, [*full, *preemptors], queues=[queue("a"), queue("b")])
    evicted = sum(isinstance(d, Evict) for d in outcome.decisions)
    bound = {1_000: 1.0, 5_000: 5.0}.get(nodes)
    targets = {"max:seconds": bound} if bound else {}
    action = "reclaim" if across_queues else "preempt"
    targets["min:evicted"] = nodes * 10 / 2
    return Case(
        BENCH, f"{action} half of {nodes} nodes", {"seconds": seconds, "evicted": float(evicted)}, targets
    )


def idle(nodes: int) -> Case:
    """A cycle in which all pods run and nothing changed, ten pods per node."""
    running = [_job(f"j{i}", 10, on=f"n{i}") for i in range(nodes)]
    cluster = cluster_of(nodes=_machines(nodes, 32), jobs=running, others=CLASSES)
    first = schedule(cluster.snapshot(START, 1), CONFIG)
    cluster.assume(first.decisions)
    schedule(cluster.snapshot(START, 2), CONFIG)

    def cycle() -> Outcome:
        return schedule(cluster.snapshot(START, 3), CONFIG)

    seconds, _ = timed(cycle)
    bound = {1_000: 20.0, 10_000: 100.0}.get(nodes)
    targets = {"max:milliseconds": bound} if bound else {}
    return Case(BENCH, f"idle cycle, {nodes} nodes", {"milliseconds": seconds * 1000}, targets)


def waiting(nodes: int) -> Case:
    """A cycle that diagnoses 1,000 jobs of three sizes again, which wait for pods that fill all nodes."""
    running = [_job(f"j{i}", 10, on=f"n{i}") for i in range(nodes)]
    jobs = [_job(f"w{i}", 1 + i % 3) for i in range(1_000)]
    cluster = cluster_of(nodes=_machines(nodes, 10), jobs=[*running, *jobs], others=CLASSES)
    config = parse(shipped())
    memory = schedule(cluster.snapshot(START, 1), config).memory
    seconds = min(
        timed(lambda: schedule(cluster.snapshot(START + 1, 2, memory), config))[0] for _ in range(3)
    )
    return Case(BENCH, f"1,000 jobs that wait, {nodes} nodes", {"milliseconds": seconds * 1000})


def restart(nodes: int) -> Case:
    """From a full list, as bytes, to the first decision: 28 pods per node."""
    pods = 28 * nodes
    listed = list(_listing(nodes, pods))
    before = _memory()

    def start() -> Outcome:
        cluster = Cluster()
        for kind, data in listed:
            cluster.apply(Event(EventType.ADDED, kind, cluster.decoder(kind)(data)))
        return schedule(cluster.snapshot(START, 1), CONFIG)

    seconds, outcome = timed(start)
    metrics = {
        "seconds": seconds,
        "pods": float(pods),
        "bound": float(_bound(outcome)),
        "MiB more": _memory() - before,
    }
    targets = (
        {"max:seconds": 10.0, "max:MiB more": 2048.0, "min:bound": 1.0}
        if nodes >= 5_000
        else {"min:bound": 1.0}
    )
    return Case(BENCH, f"restart, {nodes} nodes", metrics, targets)


def experiments() -> Iterator[Case]:
    """Two experiments with gangs; a makespan of -1 is a deadlock."""
    for count in (1, 2, 5):
        for name, plugins in (("with gang", WITH_GANG), ("without gang", WITHOUT_GANG)):
            training = Training(count, plugins)
            metrics = {"makespan": float(training.run() or -1), "finished": float(len(training.finished))}
            targets = {"min:finished": float(count)} if plugins is WITH_GANG else {}
            yield Case(BENCH, f"{count} jobs of 2 ps + 4 workers, {name}", metrics, targets)
    for topology in (True, False):
        together = pairs_together(topology=topology)
        name = "with" if topology else "without"
        yield Case(BENCH, f"workers beside their ps, {name} task-topology", {"part": together})


def _machines(nodes: int, cpu: int) -> list[Manifest]:
    return [node(f"n{i}", cpu=cpu, memory=f"{4 * cpu}Gi", pods=250) for i in range(nodes)]


def _job(name: str, replicas: int, **options: Any) -> JobManifests:
    options.setdefault("phase", "Running" if options.get("on") else "Inqueue")
    return job(name, replicas, cpu=1, memory="2Gi", **options)


def _cycle(
    machines: Sequence[Manifest], jobs: Sequence[JobManifests], queues: Sequence[Manifest] | None = None
) -> tuple[float, Outcome]:
    """CPU seconds of snapshot and cycle."""
    cluster = cluster_of(nodes=machines, jobs=jobs, queues=queues, others=CLASSES)
    return timed(lambda: schedule(cluster.snapshot(START, 1), CONFIG))


def _placed(name: str, nodes: int, seconds: float, outcome: Outcome, targets: dict[int, float]) -> Case:
    bound = _bound(outcome)
    metrics = {
        "placements/s": bound / seconds,
        "placed": float(bound),
        "µs per pod": seconds / max(bound, 1) * 1e6,
    }
    wanted = {"min:placements/s": targets[nodes]} if nodes in targets else {}
    return Case(BENCH, f"{name}, {nodes} nodes", metrics, wanted)


def _bound(outcome: Outcome) -> int:
    return sum(isinstance(decision, Bind) for decision in outcome.decisions)


def _listing(nodes: int, pods: int) -> Iterator[tuple[Any, bytes]]:
    """Encoded list as from an API server."""
    yield kinds.QUEUE, orjson.dumps(queue("default"))
    for machine in _machines(nodes, 32):
        yield kinds.NODE, orjson.dumps(machine)
    for i in range(pods // 28):
        found = _job(f"j{i}", 28, on=f"n{i % nodes}") if i else _job("j0", 28)
        yield kinds.POD_GROUP, orjson.dumps(found.group)
        for member in found.pods:
            member["spec"]["containers"][0]["env"] = [{"name": f"V{k}", "value": "x" * 40} for k in range(20)]
            yield kinds.POD, orjson.dumps(member)


def _memory() -> float:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
