"""`vcctl plan` on a large cluster: reading it, a re-run, a plan of a new job, and the search for changes."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import orjson

from bench.case import Case
from tests.builders import START, JobManifests, job, node, priority_class, queue
from tests.scenario import cluster_of
from volcano.analysis.plan.changes import AddJob
from volcano.analysis.plan.plan import Subject, plan
from volcano.analysis.plan.suggestions import suggest
from volcano.analysis.rerun.rerun import run
from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api.kinds import POD, POD_GROUP
from volcano.scheduler.engine.config import PRESETS, parse, shipped

BENCH = "plan"
NODES, PODS, WAITING, PER_JOB = 1_000, 10_000, 50, 10
QUEUES = 5
# A user waits for either of them; processor time, as the machine may do other things.
TARGET = {"max:plan_cpu_seconds": 3.0, "max:changes_cpu_seconds": 3.0}
Value = TypeVar("Value")


def cases(scale: float = 1.0) -> Iterator[Case]:
    nodes, pods = max(int(NODES * scale), 10), max(int(PODS * scale), 100)
    for preset in PRESETS:
        yield _planned(nodes, pods, preset)


def _planned(nodes: int, pods: int, preset: str) -> Case:
    config = parse(shipped(PRESETS[preset]))
    cluster = cluster_of(
        nodes=[node(f"n{i}", 32, "128Gi") for i in range(nodes)],
        queues=[queue("default"), *(queue(f"q{i}") for i in range(QUEUES))],
        jobs=[*_running(nodes, pods), *_waiting()],
        others=[priority_class("high", 1000)],
    )
    state = ClusterState(cluster, START)
    state.snapshot()
    metrics: dict[str, float] = {}
    _measure(metrics, "rerun", lambda: run(state, config))
    small, large = _subject(job("small", 4, cpu=1)), _subject(job("large", 100, cpu=8))
    fits = _measure(metrics, "plan", lambda: plan(state, config, [small], allow_preempt=True))
    assert fits[0].starts
    after = state.changed([large.change])
    found = _measure(metrics, "changes", lambda: suggest(after, config, large.uid))
    metrics["changes"] = float(len(found))
    return Case(BENCH, f"{nodes} nodes, {pods} pods, preset {preset}", metrics, TARGET)


def _measure(metrics: dict[str, float], name: str, work: Callable[[], Value]) -> Value:
    began, cpu = time.perf_counter(), time.process_time()
    found = work()
    metrics[f"{name}_seconds"] = time.perf_counter() - began
    metrics[f"{name}_cpu_seconds"] = time.process_time() - cpu
    return found


def _running(nodes: int, pods: int) -> list[JobManifests]:
    """Jobs that hold 27 of the 32 cores of each node."""
    each = f"{27_000 * nodes // pods}m"
    return [
        job(
            f"r{i}",
            PER_JOB,
            cpu=each,
            queue=f"q{i % QUEUES}",
            on=[f"n{(i * PER_JOB + k) % nodes}" for k in range(PER_JOB)],
            phase="Running",
            age=1000 - i,
        )
        for i in range(pods // PER_JOB)
    ]


def _waiting() -> list[JobManifests]:
    """Jobs that fit on no node now."""
    return [job(f"w{i}", PER_JOB, cpu=16, queue=f"q{i % QUEUES}", age=WAITING - i) for i in range(WAITING)]


def _subject(manifests: JobManifests) -> Subject:
    name = manifests.group["metadata"]["name"]
    objects = ((POD_GROUP, orjson.dumps(manifests.group)), *((POD, orjson.dumps(p)) for p in manifests.pods))
    uid = f"default/{name}"
    return Subject(uid, name, AddJob(uid, tuple(objects)))
