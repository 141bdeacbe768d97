"""Expected run times: what the run times of jobs are drawn from, and the draws of one possible future.

A few finished jobs tell neither the mean nor the longest run time exactly. So each future draws its own selection of
them, and every job runs a little longer or shorter than the finished job that was drawn for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volcano.analysis.estimate.run_history import RunHistory, RunKey
from volcano.model.resources import Vector

# Standard deviation of the logarithm of run times of similar jobs, where nothing is known, and its weight in jobs.
USUAL_SPREAD, USUAL_WEIGHT = 0.5, 1
OTHERS_WEIGHT = 3  # as how many finished jobs the spread among all similar jobs counts
LEAST_NOISE = 0.1  # share of the variance that is added to run times of finished jobs in any case
LEAST_EXCESS = 0.05  # share of its age that a job goes on, on average, which runs longer than all before
CANDIDATES = 32  # drawn for a job that runs already
SHORTEST = 1.0  # second that a job goes on which has run longer than its walltime
# Shares of the walltime that jobs are assumed to use where no finished job tells.
ASSUMED_SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
ASSUMED_NOISE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class RunTimes:
    """Run times of finished jobs, in seconds or as shares of their walltime. Standard deviations of the logarithm:
    `noise`, by which another job differs from one of them, and `spread` of all such jobs."""

    values: Vector
    noise: float
    spread: float


@dataclass(frozen=True, slots=True)
class Expected:
    """The run time of one job: a distribution, its unit in seconds, and whether finished jobs alone tell it."""

    times: RunTimes
    unit: float
    by_history: bool


class ExpectedRunTimes:
    """Run times of jobs by a history; similar jobs share a distribution."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._by_key: dict[RunKey, RunTimes] = {}
        self._by_user: dict[str, RunTimes] = {}
        self._variance = _common_variance(list(history.runs.values()))
        self._assumed = RunTimes(np.array(ASSUMED_SHARES), ASSUMED_NOISE, USUAL_SPREAD)
        every = history.all_run_times()
        self._every = Expected(self._made(every), 1.0, by_history=True) if every else None

    def of(self, key: RunKey, limit: float | None) -> Expected | None:
        """Of a job with this walltime; None when nothing is known."""
        if len(known := self._history.run_times(key)):
            if key not in self._by_key:
                self._by_key[key] = self._made(known)
            return Expected(self._by_key[key], 1.0, limit is None)
        if limit is None:
            return None
        if key.user not in self._by_user:
            shares = self._history.walltime_shares(key.user)
            self._by_user[key.user] = self._made(shares) if shares else self._assumed
        return Expected(self._by_user[key.user], limit, by_history=False)

    def of_any(self, key: RunKey, limit: float | None) -> Expected | None:
        """As `of`; without walltime and finished jobs like this, as jobs of all kinds."""
        return self.of(key, limit) or self._every

    def _made(self, values: Sequence[float]) -> RunTimes:
        logarithms = np.log(values)
        found, count = float(logarithms.var()), len(values)
        variance = (count * found + OTHERS_WEIGHT * self._variance) / (count - 1 + OTHERS_WEIGHT)
        # The mean is not known exactly either, which adds a part of the variance.
        noise = math.sqrt(max(variance * (1 + 1 / count) - found, LEAST_NOISE * variance))
        return RunTimes(np.array(values), noise, math.sqrt(variance))


def _common_variance(groups: Sequence[Sequence[float]]) -> float:
    """Variance of the logarithms of run times among similar jobs: the median, because few groups in which different
    programs meet vary much more."""
    known = sorted((float(np.log(group).var(ddof=1)), len(group) - 1) for group in groups if len(group) > 1)
    if not known:
        return USUAL_SPREAD**2
    weights = np.cumsum([weight for _, weight in known])
    whole = int(weights[-1])
    median = known[int(np.searchsorted(weights, whole / 2))][0]
    return (whole * median + USUAL_WEIGHT * USUAL_SPREAD**2) / (whole + USUAL_WEIGHT)


class Draws:
    """Run times of one future."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._selected: dict[RunTimes, Vector] = {}

    def run_time(self, expected: Expected, limit: float | None) -> float:
        """Seconds that a job runs which starts."""
        random, values = self._random, self._selection(expected.times)
        noise = expected.times.noise
        # Less half the variance: jobs run neither longer nor shorter than finished ones on average.
        factor = math.exp(noise * random.standard_normal() - noise**2 / 2)
        seconds = float(values[random.integers(len(values))]) * expected.unit * factor
        return seconds if limit is None else min(seconds, limit)

    def run_time_after(self, elapsed: float, expected: Expected, limit: float | None) -> float:
        """Seconds that a job runs in all which has run so long already."""
        random, times, values = self._random, expected.times, self._selection(expected.times)
        picked = values[random.integers(len(values), size=CANDIDATES)] * expected.unit
        drawn = picked * np.exp(times.noise * random.standard_normal(CANDIDATES) - times.noise**2 / 2)
        longer = drawn[drawn > elapsed]
        if len(longer):
            seconds = float(longer[0])
        else:
            # It runs longer than all before. Beyond them, the logarithm falls off about exponentially.
            beyond = math.log(elapsed / (float(values.max()) * expected.unit))
            excess = max(times.spread**2 / max(beyond, times.spread), LEAST_EXCESS)
            seconds = elapsed * math.exp(random.exponential(excess))
        return seconds if limit is None else max(min(seconds, limit), elapsed + SHORTEST)

    def _selection(self, times: RunTimes) -> Vector:
        found = self._selected.get(times)
        if found is None:
            count = len(times.values)
            found = self._selected[times] = times.values[self._random.integers(count, size=count)]
        return found
