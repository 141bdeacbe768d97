"""Timeouts of policies: since when something has been the case, and whether that is long enough."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from volcano.clock import Instant
from volcano.controllers.job.policies import Trigger


@dataclass(frozen=True, slots=True)
class Sorted:
    """Triggers by their time: those due, those that began to wait just now, and seconds until the next is due."""

    due: list[Trigger]
    begun: list[Trigger]
    wait: float | None


@dataclass(slots=True)
class Timers:
    """When this process first saw each occurrence. What is no longer the case is forgotten, its timeout with it."""

    started: dict[str, float] = field(default_factory=dict)

    def sort(self, triggers: Iterable[Trigger], now: Instant) -> Sorted:
        due: list[Trigger] = []
        begun: list[Trigger] = []
        waits: list[float] = []
        running: dict[str, float] = {}
        for trigger in triggers:
            if not trigger.delay:
                due.append(trigger)
                continue
            if trigger.subject not in self.started:
                begun.append(trigger)
            seen = self.started.get(trigger.subject, now.wall)
            running[trigger.subject] = min(seen, trigger.stamp or seen)
            left = running[trigger.subject] + trigger.delay - now.wall
            if left <= 0:
                due.append(trigger)
            else:
                waits.append(left)
        self.started = running
        return Sorted(due, begun, min(waits, default=None))
