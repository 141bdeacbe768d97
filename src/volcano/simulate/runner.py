"""Runs one workload with several configurations, one after the other; partial results are kept."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from volcano.base.clock import Clock, SystemClock
from volcano.scheduler.engine.config import Config
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.jobs import Result
from volcano.simulate.results.recorder import Recorder
from volcano.simulate.results.summary import Summary, summarise
from volcano.simulate.workload import Workload

# Allocations per young collection, young collections per middle one, and middle ones per full one.
THRESHOLDS = (5_000, 10, 20)
STEPS = 200  # between two reports of progress

# Called with the name of the configuration, the finished jobs, the virtual seconds so far.
Progress = Callable[[str, int, float], None]


@dataclass(slots=True)
class Run:
    """One configuration: its summary and what plots need."""

    summary: Summary
    recorder: Recorder


@dataclass(slots=True)
class Runs:
    """Results so far."""

    finished: list[Run] = field(default_factory=list)
    interrupted: bool = False


def run_all(
    workload: Workload,
    configurations: Sequence[tuple[str, Settings]],
    *,
    report: Path | None = None,
    progress: Progress = lambda name, jobs, now: None,
) -> Runs:
    """Runs all configurations. Ctrl-C ends the present one: its partial results are the last."""
    runs = Runs()
    for name, settings in configurations:
        run = run_one(name, workload, settings, report=report, progress=progress)
        runs.finished.append(run)
        if run.summary.interrupted:
            runs.interrupted = True
            break
    return runs


def run_one(
    name: str,
    workload: Workload,
    settings: Settings,
    *,
    report: Path | None = None,
    progress: Progress = lambda name, jobs, now: None,
    clock: Clock | None = None,
) -> Run:
    """Runs one configuration to its end, or until it is interrupted. The clock measures how long that takes."""
    clock = clock or SystemClock()
    began = clock.now().monotonic
    interrupted = False
    with ExitStack() as stack:
        jobs = None
        if report is not None:
            report.mkdir(parents=True, exist_ok=True)
            jobs = stack.enter_context((report / f"jobs-{name}.csv").open("w", newline=""))
        recorder = Recorder(workload, jobs)
        simulation = Simulation(workload, settings, recorder)
        stack.enter_context(rare_collections())
        try:
            for _ in _steps(simulation):
                progress(name, simulation.finished, simulation.now)
        except KeyboardInterrupt:
            interrupted = True
        # A job that has not started when the simulation is interrupted may have started later.
        simulation.finish(Result.WAITING if interrupted else Result.UNPLACED)
        recorder.close(simulation.now)
    summary = summarise(
        name,
        recorder,
        virtual=simulation.now,
        wall=clock.now().monotonic - began,
        cycles=simulation.cycles,
        interrupted=interrupted,
    )
    return Run(summary, recorder)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collects garbage less often than usual: with many jobs in memory, collections take a third of the time."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _steps(simulation: Simulation) -> Iterator[None]:
    """Yields now and then until the simulation has ended."""
    while True:
        for _ in range(STEPS):
            if not simulation.step():
                return
        yield


def uses_vgpus(config: Config) -> bool:
    """Whether a configuration places shared cards one by one."""
    return any(
        plugin.name == "deviceshare" and plugin.arguments.boolean("deviceshare.VGPUEnable")
        for tier in config.tiers
        for plugin in tier
    )
