"""Forecast: many possible futures of a cluster, from drawn run times."""

from collections.abc import Collection, Sequence

import numpy as np

from volcano.analysis.estimate.forecast_input import Arrivals, Rules, Running, Waiting
from volcano.analysis.estimate.future import Future, Start
from volcano.model.resources import Vector


class Forecast:
    """Draws futures of one state of a cluster."""

    def __init__(
        self,
        free: Vector,
        running: Sequence[Running],
        waiting: Sequence[Waiting],
        now: float,
        rules: Rules,
        arrivals: Arrivals | None = None,
    ) -> None:
        self._free = free
        self._running = running
        self._waiting = waiting
        self._now = now
        self._rules = rules
        self._arrivals = arrivals or Arrivals()

    def draw(self, random: np.random.Generator, wanted: Collection[int] | None = None) -> dict[int, Start]:
        """Starts of the waiting jobs, by their position; those that do not start are absent. Ends early when the wanted
        ones have started."""
        return self._future(random).run(self._running, wanted)

    def fits_now(self) -> frozenset[int]:
        """Positions of the jobs for which enough is free and which their queues may take, each on its own."""
        future = self._future(np.random.default_rng(0))
        return frozenset(number for number in range(len(self._waiting)) if future.fits(number))

    def _future(self, random: np.random.Generator) -> Future:
        return Future(self._free.copy(), self._waiting, self._now, self._rules, self._arrivals, random)
