"""fairshare: queues and users that used less than their share in the past go first; older use counts less."""

from functools import cached_property
from typing import ClassVar

from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.scheduler.engine.answers import Memory
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.inputs import UsageInput
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.plugins.fairshare.factors import Factors
from volcano.scheduler.plugins.fairshare.settings import ARGUMENTS, Settings
from volcano.scheduler.plugins.fairshare.standing import Standing
from volcano.scheduler.plugins.fairshare.tree import Share
from volcano.scheduler.plugins.fairshare.usage import (
    Holdings,
    Usage,
    account_of,
    decayed_seconds,
    memory_of,
    remembered,
)

__all__ = [
    "Factors", "FairShare", "Holdings", "Settings", "Share", "Standing", "Usage", "account_of",
    "decayed_seconds", "memory_of", "remembered",
]  # fmt: skip


class FairShare(Plugin):
    """Jobs of a queue are ordered by a weighted sum of priority, age, size and fair share (`factors.py`), queues by
    their fair-share factors from the root of the tree (`tree.py`). Usage is that of the cycles so far (`usage.py`)."""

    arguments: ClassVar = ARGUMENTS
    inputs: ClassVar = (UsageInput(lambda arguments: Settings.of(arguments).half_life, memory_of),)
    follows_usage: ClassVar = True

    def open(self, arguments: Arguments) -> None:
        self._settings = Settings.of(arguments)

    @cached_property
    def _usage(self) -> Usage:
        """Usage as of this cycle. The memory is used only if it is that of a cycle before."""
        snapshot = self.snapshot
        before = remembered(snapshot.memory.get(self.name), snapshot.now, self.resources)
        holdings = Holdings.of(snapshot, self.name)
        return before.follow(snapshot.now, self._settings.half_life, holdings)

    @cached_property
    def _standing(self) -> Standing:
        return Standing(self.snapshot, self._settings, self._usage)

    def queue_order(self, queue: Queue) -> tuple[float, ...]:
        return self._standing.tree.path(queue.name)

    def job_order(self, job: Job) -> float:
        return -self._standing.priority(job)

    def remember(self) -> Memory | None:
        return Memory(self._usage.memory()) if self._usage.accounts else None
