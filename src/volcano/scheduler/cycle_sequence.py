"""Sequence of cycles: number, seed and memory for the next, and whether repeating one would decide nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from volcano.base.clock import Clock
from volcano.model.cluster import Cluster
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Outcome

PERIODS_SETTLED = 10  # for which a cycle that decided nothing is not repeated while nothing changes


class CycleSequence:
    """The cycles of one scheduler, one after the other. The running scheduler and the simulator both use it, so that
    their cycles see the same snapshots and follow each other by the same rules."""

    def __init__(self, cluster: Cluster, clock: Clock, *, period: float, seed: int) -> None:
        self._cluster, self._clock = cluster, clock
        self._period, self._seed = period, seed
        self.count = 0
        self.last_snapshot: Snapshot | None = None
        self.last_outcome = Outcome(())
        # Revision and configuration of a cycle that decided nothing, and when it was.
        self._nothing_to_do: tuple[int, Config, float] | None = None

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Replaces the memory that the next cycle gets."""
        if memory is not self.last_outcome.memory:
            self.last_outcome = replace(self.last_outcome, memory=memory)

    def begin(self, usage: Mapping[str, Mapping[str, float]] | None = None) -> Snapshot:
        """Begins the next cycle: the snapshot it decides on."""
        self.count += 1
        now, memory = self._clock.now().wall, self.last_outcome.memory
        self.last_snapshot = self._cluster.snapshot(now, self._seed + self.count, memory, usage)
        return self.last_snapshot

    def failed(self, error: Exception) -> None:
        """Ends a cycle that raised an error; the memory of the one before is kept."""
        failure = f"cycle failed: {type(error).__name__}: {error}"
        self.last_outcome = replace(self.last_outcome, errors=(failure,))

    def ended(self, outcome: Outcome, config: Config, revision: int) -> None:
        """Ends a cycle that began at a revision of the cluster cache."""
        self.last_outcome = outcome
        nothing = not outcome.decisions and not outcome.errors and not config.depends_on_time
        self._nothing_to_do = (revision, config, self._clock.now().monotonic) if nothing else None

    def needs_cycle(self) -> bool:
        """Whether a plugin remembers something for which a cycle is needed now."""
        return self.last_outcome.due <= self._clock.now().wall

    def is_settled(self, config: Config | None) -> bool:
        """Whether another cycle would decide nothing either, because nothing changed since one that did not. It is
        checked again after some periods, for limits of time such as that of admitted gangs."""
        if self._nothing_to_do is None:
            return False
        revision, used, at = self._nothing_to_do
        until = at + PERIODS_SETTLED * self._period
        return revision == self._cluster.revision and used is config and self._clock.now().monotonic < until
