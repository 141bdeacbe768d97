"""The simulator: a GPU trace with arrivals and departures, and very many small jobs.

The first case runs the pods of openb if $VOLCANO_TRACES names a directory with its files, otherwise a generated trace
of the same size.
"""

import os
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from bench.case import Case
from volcano.scheduler.engine.config import parse, shipped
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.loaders import load, load_nodes
from volcano.simulate.results.recorder import Recorder
from volcano.simulate.runner import rare_collections
from volcano.simulate.workload import GIB, Attempt, Requests, SimNode, TraceJob, TraceTask, Workload

BENCH = "simulate"
JOBS, NODES = 100_000, 1_000  # --scale 10 runs a million
PODS, GPU_NODES = 8_152, 1_523
DAYS = 150


def cases(scale: float) -> Iterator[Case]:
    yield _trace(scale)
    yield from _many_jobs(scale)


def _trace(scale: float) -> Case:
    given = _openb()
    name = "openb" if given is not None else "generated trace"
    workload = given or _generated()
    jobs = workload.jobs[: max(int(len(workload.jobs) * scale), 1)]
    workload = replace(workload, jobs=jobs).with_all_queues()
    simulation = Simulation(workload, _settings(), Recorder(workload))
    began = time.perf_counter()
    with rare_collections():
        simulation.run()
    seconds = time.perf_counter() - began
    targets = {"max:seconds": 20.0} if scale >= 1 else {}
    metrics = {"seconds": seconds, "jobs": float(len(jobs)), "cycles": float(simulation.cycles)}
    return Case(BENCH, f"{name}, {len(workload.nodes)} nodes", metrics, targets)


def _many_jobs(scale: float) -> Iterator[Case]:
    """Single-pod jobs that fill nine tenths of the nodes; memory at a quarter of the jobs and at the end."""
    total = max(int(JOBS * scale), 1000)
    nodes = tuple(SimNode(f"node-{i}", 64.0, 256 * GIB) for i in range(NODES))
    workload = Workload((), nodes).with_all_queues()
    settings = replace(_settings(), period=1.0)  # the schedule period of Volcano
    simulation = Simulation(workload, settings, Recorder(workload), _stream(total))
    began = time.perf_counter()
    early = 0.0
    with rare_collections():
        while simulation.step():
            if not early and simulation.finished >= total // 4:
                early = _memory()
    seconds = time.perf_counter() - began
    metrics = {
        "jobs/s": simulation.finished / seconds,
        "jobs": float(simulation.finished),
        "cycles": float(simulation.cycles),
        "MiB grown": _memory() - early,
    }
    yield Case(
        BENCH, f"single-pod jobs, {NODES} nodes", metrics, {"min:jobs/s": 2000.0, "max:MiB grown": 64.0}
    )


def _stream(total: int) -> Iterator[TraceJob]:
    """Jobs of one to four cores for 30 to 90 seconds, 400 per second."""
    random = Random(1)
    tasks = [(TraceTask(Requests(cpu=float(cores), memory=cores * GIB)),) for cores in (1, 2, 3, 4)]
    now = 0.0
    for number in range(total):
        now += random.expovariate(400.0)
        yield TraceJob(f"job-{number}", now, random.choice(tasks), (Attempt(random.uniform(30.0, 90.0)),))


def _openb() -> Workload | None:
    directory = os.environ.get("VOLCANO_TRACES", "")
    if not directory:
        return None
    workload = load(Path(directory) / "openb_pod_list_default.csv", "openb")
    return replace(workload, nodes=load_nodes(str(Path(directory) / "openb_node_list_all_node.csv")))


def _generated() -> Workload:
    random = Random(2)
    nodes = tuple(
        SimNode(f"node-{i}", random.choice((64.0, 96.0)), 384 * GIB, random.choice((0, 2, 4, 8)), "A100")
        for i in range(GPU_NODES)
    )
    shapes = [
        (TraceTask(Requests(cpu=float(cores), memory=4 * cores * GIB, gpus=gpus, gpu_share=share)),)
        for cores in (2, 4, 6, 8, 12)
        for gpus, share in ((0, 1.0), (1, 0.3), (1, 0.46), (1, 0.81), (1, 1.0), (2, 1.0), (8, 1.0))
    ]
    times = sorted(random.uniform(0, DAYS * 86400) for _ in range(PODS))
    jobs = [
        TraceJob(f"pod-{i}", at, random.choice(shapes), (Attempt(random.lognormvariate(7.0, 1.8)),))
        for i, at in enumerate(times)
    ]
    return Workload(jobs, nodes)


def _settings() -> Settings:
    return Settings(parse(shipped(), "default"))


def _memory() -> float:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
