"""Reservations: waits and slowdowns of a generated batch trace with and without the plugin `reservation`.

Gangs of up to half of 64 nodes arrive so that 90 % of the nodes are requested. `FCFS` has a queue in which the first
job blocks all others; the default configuration places whatever fits. Slowdown is (wait + run time) / run time, with
run times of at least ten seconds. Each seed and configuration runs in a process of its own. The last cases measure the
CPU time of a cycle on many nodes with a gang that waits.
"""

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from statistics import mean
from typing import NamedTuple

from bench._batch_trace import batch_trace
from bench.case import Case
from tests.builders import START, job, node
from tests.scenario import cluster_of, config
from volcano.base.clock import timestamp
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse, shipped
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.jobs import LiveJob, Result
from volcano.simulate.results.recorder import Recorder
from volcano.simulate.runner import rare_collections
from volcano.simulate.workload import Workload

BENCH = "reservation"
JOBS, NODES, LOAD = 1_500, 64, 0.9
SEEDS = (1, 2, 3)
LARGE = 16  # pods
SHORTEST = 10.0  # seconds
CYCLE_NODES, CYCLE_PODS = 5_000, 20_000


def plugin(text: str) -> str:
    return shipped().replace("  - name: priority\n", f"  - name: reservation\n{text}  - name: priority\n", 1)


CONFIGS: Mapping[str, tuple[str, bool]] = {
    "FCFS": (shipped(), True),
    "default configuration": (shipped(), False),
    "reservation, easy": (plugin(""), False),
    "reservation, conservative": (plugin("    arguments:\n      mode: conservative\n"), False),
}


class Waits(Recorder):
    """Keeps wait, slowdown and size of every job."""

    def __init__(self, given: Workload) -> None:
        super().__init__(given)
        self.jobs: list[tuple[float, float, int]] = []

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        super().finished(job, now, result, reason)
        start = now if job.first_start is None else job.first_start
        wait, run = start - job.trace.arrival, job.trace.attempts[0].seconds
        self.jobs.append((wait, (wait + run) / max(run, SHORTEST), job.trace.pods))


def cases(scale: float) -> Iterator[Case]:
    count, seeds = max(int(JOBS * min(scale, 1.0)), 100), SEEDS[: max(int(len(SEEDS) * min(scale, 1.0)), 1)]
    figures: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        replays = {name: [pool.submit(_replayed, name, seed, count) for seed in seeds] for name in CONFIGS}
        for name, futures in replays.items():
            found = [future.result() for future in futures]
            jobs = [job for replay in found for job in replay.jobs]
            cycle = sum(replay.seconds for replay in found) / sum(replay.cycles for replay in found)
            figures[name] = _figures(jobs) | {"CPU ms per cycle": 1000 * cycle}
            yield Case(BENCH, f"{name}, {len(jobs)} jobs", figures[name])
    ours = figures["reservation, easy"]
    for other in ("FCFS", "default configuration"):
        shown = ("mean wait", "mean slowdown", "large p95 wait")
        yield Case(
            BENCH,
            f"easy against {other}",
            {metric: ours[metric] / figures[other][metric] for metric in shown},
        )
    yield from _cycles(scale)


class _Replay(NamedTuple):
    """Jobs of one trace with one configuration, CPU seconds, and cycles."""

    jobs: list[tuple[float, float, int]]
    seconds: float
    cycles: int


def _replayed(name: str, seed: int, count: int) -> _Replay:
    text, fifo = CONFIGS[name]
    workload = batch_trace(count, NODES, load=LOAD, seed=seed, fifo=fifo)
    waits = Waits(workload)
    simulation = Simulation(workload, Settings(parse(text, name)), waits)
    began = time.process_time()
    with rare_collections():
        simulation.run()
    return _Replay(waits.jobs, time.process_time() - began, simulation.cycles)


def _figures(jobs: list[tuple[float, float, int]]) -> dict[str, float]:
    waits, slowdowns = [wait for wait, _, _ in jobs], [slow for _, slow, _ in jobs]
    large = [wait for wait, _, pods in jobs if pods >= LARGE]
    return {
        "mean wait": mean(waits),
        "p95 wait": _p95(waits),
        "mean slowdown": mean(slowdowns),
        "p95 slowdown": _p95(slowdowns),
        "large mean wait": mean(large),
        "large p95 wait": _p95(large),
    }


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


def _cycles(scale: float) -> Iterator[Case]:
    """A cycle with running pods that have walltimes, a gang that waits, and small jobs behind it."""
    nodes, pods = max(int(CYCLE_NODES * scale), 50), max(int(CYCLE_PODS * scale), 200)
    annotations = {"volcano.sh/walltime": "4h"}
    busy = [
        job(f"run-{i}", 1, cpu=4, on=f"n{i % nodes}", phase="Running", group={"annotations": annotations})
        for i in range(pods)
    ]
    for number, made in enumerate(busy):
        made.pods[0]["status"]["startTime"] = timestamp(START - number % 10_000)
    gang = job("gang", max(nodes // 2, 2), cpu=16, age=60)
    small = [job(f"small-{i}", 1, cpu=1, group={"annotations": annotations}) for i in range(100)]
    cluster = cluster_of(
        nodes=[node(f"n{i}", cpu=18, memory="64Gi") for i in range(nodes)], jobs=[*busy, gang, *small]
    )
    base = ("priority", "gang", "predicates", "binpack")
    for name, plugins in (("without", base), ("with", ("reservation", *base))):
        memory: Mapping[str, object] = {}
        times = []
        made_config = config(plugins=plugins)
        for cycle in range(5):
            snapshot = cluster.snapshot(START + cycle, 1, memory)
            began = time.process_time()
            outcome = schedule(snapshot, made_config)
            times.append(1000 * (time.process_time() - began))
            memory = outcome.memory
        yield Case(
            BENCH,
            f"cycle {name} the plugin, {nodes} nodes, {pods} pods",
            {"first CPU ms": times[0], "later CPU ms": min(times[1:])},
        )
