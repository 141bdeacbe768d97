"""What the controller remembers of one job between looks; all of it can be lost without harm."""

from dataclasses import dataclass, field

from volcano.controllers.job.observe import Blueprint
from volcano.controllers.job.roster import Roster
from volcano.controllers.job.status import Status
from volcano.controllers.job.timers import Timers

Round = tuple[int, int]


def round_of(status: Status) -> Round:
    """Tells whether anything has been torn down meanwhile."""
    return status.version, status.retries


@dataclass(slots=True)
class Memory:
    """One job's pods, timeouts and what was already said and done about it."""

    roster: Roster = field(default_factory=Roster)
    timers: Timers = field(default_factory=Timers)
    blueprint: Blueprint | None = None
    # Occurrences (lost pods, commands) that a tear-down was asked for, and the round in which it was.
    acted: dict[str, Round] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)  # names of events
    refusal: tuple[str, str] | None = None  # reason and message of the last write that was refused
    refusals: int = 0  # in a row, of a kind that does not pass by itself

    def was_acted_on(self, occurrence: str, status: Status) -> bool:
        """Whether the tear-down that this occurrence asked for has been written down."""
        at = self.acted.get(occurrence)
        return at is not None and at != round_of(status)
