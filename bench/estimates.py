"""Estimates: whether jobs of a replayed trace start in the interval that was estimated when they arrived.

A generated trace runs with the plugin `reservation`; more is requested than the nodes have, so that jobs wait, and half
of the applications have walltimes. When a job arrives and does not start at once, its start is estimated from what is
known then: running jobs, the history of finished ones, and how many jobs arrived lately. `coverage` is the share of
jobs that started inside their interval, which should hold in 80 % of the cases; `width/wait` is the median width
divided by the median wait.
"""

import time
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from bench._batch_trace import batch_trace
from bench.case import Case
from bench.reservation import plugin
from volcano.analysis.estimates import Estimate, estimate_snapshot
from volcano.analysis.run_history import RunHistory, key_of_job
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
SEEDS = (21, 22, 23)  # the method was chosen on others: 101 to 103
EVERY = 2  # one of so many jobs that wait is looked at
# Jobs that are looked at, as shares of all that arrive: a history exists, and the trace goes on while they wait.
FIRST, LAST = 0.4, 0.8


class Replay(Recorder):
    """Estimates the start of every job that waits after its first cycle, and compares it with the actual start."""

    def __init__(self, given: Workload, config: Config) -> None:
        super().__init__(given)
        self._config = config
        self._history = RunHistory()
        self._keys: dict[str, object] = {}
        self._looked_at = range(int(len(given.jobs) * FIRST), int(len(given.jobs) * LAST))
        self._arrived = 0
        self._offset = 0.0
        self._new: set[str] = set()
        self.estimates: dict[str, tuple[float, Estimate | None]] = {}
        self.compared: list[tuple[bool, int, float, float]] = []  # walltime, error, width, wait
        self.unclaimed = {True: 0, False: 0}
        self.taken: list[float] = []

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
        waiting = [uid for uid in self._new if uid in outcome.diagnoses and self._arrived % EVERY == 0]
        self._new.clear()
        if waiting and self._arrived in self._looked_at:
            began = time.perf_counter()
            found = estimate_snapshot(
                snapshot, self._config, self._history, diagnoses=outcome.diagnoses, only=waiting
            )
            self.taken.append(time.perf_counter() - began)
            for uid in waiting:
                self.estimates[uid] = (now, found.get(uid))

    def finished(self, job: LiveJob, now: float, result: Result, reason: str) -> None:
        super().finished(job, now, result, reason)
        uid = f"simulated/{job.trace.name}"
        if uid in self._keys:
            key = self._keys.pop(uid)
            self._history.add(key, job.trace.attempts[0].seconds, job.trace.walltime)  # type: ignore[arg-type]
        made = self.estimates.pop(uid, None)
        if made is None or job.first_start is None:
            return
        limited = job.trace.walltime is not None
        if made[1] is None:
            self.unclaimed[limited] += 1
            return
        start = job.first_start + self._offset
        error = -1 if start < made[1].earliest - 1 else int(start > made[1].latest + 1)
        self.compared.append(
            (limited, error, made[1].latest - made[1].earliest, job.first_start - job.trace.arrival)
        )


def replayed(seed: int, count: int) -> Replay:
    """A trace after its replay."""
    config = parse(plugin(""), "estimates")
    workload = batch_trace(count, NODES, load=LOAD, seed=seed, users=10, with_walltime=0.5)
    replay = Replay(workload, config)
    with rare_collections():
        Simulation(workload, Settings(config), replay).run()
    return replay


def cases(scale: float) -> Iterator[Case]:
    count = max(int(JOBS * min(scale, 1.0)), 150)
    seeds = SEEDS[: max(int(len(SEEDS) * min(scale, 1.0)), 1)]
    yield from compared([replayed(seed, count) for seed in seeds], scale)


def compared(replays: Sequence[Replay], scale: float) -> Iterator[Case]:
    """Figures of some replays together, by whether jobs have a walltime."""
    results = [each for replay in replays for each in replay.compared]
    seconds = [each for replay in replays for each in replay.taken]
    missing = {limited: sum(replay.unclaimed[limited] for replay in replays) for limited in (True, False)}
    targets = {"min:coverage": 0.7, "max:coverage": 0.9, "max:width/wait": 0.5} if scale >= 1 else {}
    for name, limited in (("with walltime", True), ("without walltime", False)):
        found = [each for each in results if each[0] is limited]
        yield Case(BENCH, f"jobs {name}", _figures(found, missing[limited]), targets)
    whole = _figures(results, sum(missing.values())) | {
        "ms per estimate": 1000 * float(np.median(seconds)) if seconds else 0.0
    }
    yield Case(BENCH, "all jobs", whole, targets)


def _figures(found: list[tuple[bool, int, float, float]], missing: int) -> dict[str, float]:
    if not found:
        return {"jobs": 0.0, "nothing claimed": float(missing)}
    width, wait = median(each[2] for each in found), median(each[3] for each in found)
    return {
        "coverage": sum(each[1] == 0 for each in found) / len(found),
        "earlier": sum(each[1] < 0 for each in found) / len(found),
        "later": sum(each[1] > 0 for each in found) / len(found),
        "width/wait": width / max(wait, 1.0),
        "median width": width,
        "median wait": wait,
        "jobs": float(len(found)),
        "nothing claimed": float(missing),
    }
