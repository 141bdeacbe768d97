"""Estimates: whether jobs of a replayed trace start in the interval that `vcctl job list --start` shows for them.

A generated trace runs with the plugin `reservation`; more is requested than the nodes have, so that jobs wait, and half
of the applications have walltimes. At moments spread over the middle of the trace, the start of every job that waits is
estimated from what is known then: running jobs, the history of finished ones, and how many jobs arrived lately. The
first moments are left out because no history exists, the last because jobs would wait until after the end of the trace.

`coverage` is the share of estimates whose interval contained the actual start, which should be 80 %; `width/wait` is
the median width divided by the median time from the arrival of these jobs to their start, `width/remaining` by the
median time from the estimate to the start. A job that waits for long is shown, and counted, at several moments. The
cases `at arrival` have the estimates of jobs that had just arrived. Seeds run in processes of their own.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from bench._batch_trace import batch_trace
from bench.case import Case
from bench.reservation import plugin
from volcano.analysis.estimate.estimates import Estimate, estimate_snapshot
from volcano.analysis.estimate.run_history import RunHistory, RunKey, key_of_job
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config, parse
from volcano.scheduler.engine.session import Outcome
from volcano.simulate.engine import Settings, Simulation
from volcano.simulate.jobs import LiveJob, Result
from volcano.simulate.results.recorder import Recorder
from volcano.simulate.runner import rare_collections
from volcano.simulate.workload import Workload

BENCH = "estimates"
JOBS, NODES, LOAD = 500, 64, 1.2
SEEDS = (21, 22, 23)  # the method was chosen on others: 101, 102, 201 to 205, 211 to 215
EVERY = 10  # arrivals between two moments
# Moments, as shares of all arrivals.
FIRST, LAST = 0.3, 0.7


@dataclass(frozen=True, slots=True)
class Compared:
    """An estimate beside the actual start: how far that is outside the interval (-1 before, 1 after), in seconds its
    width, and the time to the start from the arrival and from the estimate."""

    limited: bool  # has a walltime
    arrived: bool  # just now
    error: int
    width: float
    wait: float
    remaining: float


@dataclass(slots=True)
class Comparison:
    """Estimates of some replays, how many jobs got none, and seconds that each moment took."""

    estimates: list[Compared] = field(default_factory=list)
    unclaimed: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    taken: list[float] = field(default_factory=list)

    def add(self, other: "Comparison") -> None:
        self.estimates += other.estimates
        self.taken += other.taken
        for limited, count in other.unclaimed.items():
            self.unclaimed[limited] += count


class Replay(Recorder):
    """Estimates the starts of all jobs that wait, at some moments, and compares them with the actual ones."""

    def __init__(self, given: Workload, config: Config) -> None:
        super().__init__(given)
        self._config = config
        self._history = RunHistory()
        self._keys: dict[str, RunKey] = {}
        self._moments = set(range(int(len(given.jobs) * FIRST), int(len(given.jobs) * LAST), EVERY))
        self._arrived = 0
        self._offset = 0.0
        self._new: set[str] = set()
        self._made: dict[str, list[tuple[float, bool, Estimate | None]]] = {}
        self.found = Comparison()

    def arrived(self, job: LiveJob, now: float) -> None:
        super().arrived(job, now)
        self._arrived += 1
        self._new.add(f"simulated/{job.trace.name}")

    def cycled(self, snapshot: Snapshot, outcome: Outcome, now: float) -> None:
        super().cycled(snapshot, outcome, now)
        self._offset = snapshot.now - now
        for uid in self._new:
            job = snapshot.jobs.get(uid)
            if job is not None:
                self._keys[uid] = key_of_job(job, job.tasks.values())
                self._history.arrived(job, job.tasks.values())
        if self._arrived in self._moments:
            self._moments.remove(self._arrived)
            began = time.perf_counter()
            found = estimate_snapshot(snapshot, self._config, self._history, diagnoses=outcome.diagnoses)
            self.found.taken.append(time.perf_counter() - began)
            for uid in outcome.diagnoses:
                self._made.setdefault(uid, []).append((now, uid in self._new, found.get(uid)))
        self._new.clear()

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        super().finished(job, now, result, reason)
        uid = f"simulated/{job.trace.name}"
        if uid in self._keys:
            self._history.add(self._keys.pop(uid), job.trace.attempts[0].seconds, job.trace.walltime)
        limited = job.trace.walltime is not None
        for at, arrived, made in self._made.pop(uid, ()):
            if job.first_start is None:
                continue
            if made is None:
                self.found.unclaimed[limited] += 1
                continue
            start = job.first_start + self._offset
            error = -1 if start < made.earliest - 1 else int(start > made.latest + 1)
            wait, remaining = job.first_start - job.trace.arrival, job.first_start - at
            width = made.latest - made.earliest
            self.found.estimates.append(Compared(limited, arrived, error, width, wait, remaining))


def replayed(seed: int, count: int) -> Comparison:
    """Estimates of one trace."""
    config = parse(plugin(""), "estimates")
    workload = batch_trace(count, NODES, load=LOAD, seed=seed, users=10, with_walltime=0.5)
    replay = Replay(workload, config)
    with rare_collections():
        Simulation(workload, Settings(config), replay).run()
    return replay.found


def cases(scale: float) -> Iterator[Case]:
    count = max(int(JOBS * min(scale, 1.0)), 150)
    seeds = SEEDS[: max(int(len(SEEDS) * min(scale, 1.0)), 1)]
    whole = Comparison()
    with ProcessPoolExecutor(min(len(seeds), os.cpu_count() or 1)) as pool:
        for found in pool.map(replayed, seeds, [count] * len(seeds)):
            whole.add(found)
    yield from compared(whole, scale)


def compared(whole: Comparison, scale: float) -> Iterator[Case]:
    """Figures by whether jobs have a walltime."""
    targets = {"min:coverage": 0.7, "max:coverage": 0.9, "max:width/wait": 0.5} if scale >= 1 else {}
    for name, limited in (("with walltime", True), ("without walltime", False)):
        found = [each for each in whole.estimates if each.limited is limited]
        missing = {"nothing claimed": float(whole.unclaimed[limited])}
        yield Case(BENCH, f"jobs {name}", _figures(found) | missing, targets)
        at_arrival = [each for each in found if each.arrived]
        yield Case(BENCH, f"jobs {name}, at arrival", _figures(at_arrival), targets)
    seconds = {"s per list": median(whole.taken) if whole.taken else 0.0}
    yield Case(BENCH, "all jobs", _figures(whole.estimates) | seconds, targets)


def _figures(found: Sequence[Compared]) -> dict[str, float]:
    if not found:
        return {"estimates": 0.0}
    width, wait = median(each.width for each in found), median(each.wait for each in found)
    return {
        "coverage": sum(each.error == 0 for each in found) / len(found),
        "earlier": sum(each.error < 0 for each in found) / len(found),
        "later": sum(each.error > 0 for each in found) / len(found),
        "width/wait": width / max(wait, 1.0),
        "width/remaining": width / max(median(each.remaining for each in found), 1.0),
        "median width": width,
        "median wait": wait,
        "estimates": float(len(found)),
    }
