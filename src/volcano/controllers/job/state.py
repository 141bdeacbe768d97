"""What the controller remembers of one job between looks; all of it can be lost without harm."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from volcano.clock import Instant
from volcano.controllers.job.observe import CompiledJob
from volcano.controllers.job.pod_cache import PodCache
from volcano.controllers.job.status import Status
from volcano.controllers.job.timeouts import PolicyTimers
from volcano.controllers.job.types import Phase
from volcano.kube.kinds import EVENT, JOB
from volcano.kube.operations import Concurrent, Create, Operation, Patch

Round = tuple[int, int]

# So long news of nothing but a job's counters waits for more of its kind, in seconds; as long as in Kubernetes' own.
# Before a job runs there is little to be counted that its next phase will not tell.
COUNTERS_DELAY, COUNTERS_DELAY_BEFORE_RUNNING = 1.0, 5.0

# Warnings of one kind about one job come no more often than this, in seconds.
WARNING_INTERVAL = 10.0


def _is_count(operation: Operation | Concurrent) -> bool:
    """Whether a write changes counters of a job's status and nothing else."""
    if not isinstance(operation, Patch) or operation.kind is not JOB or operation.subresource != "status":
        return False
    return "state" not in operation.patch["status"] and "controlledResources" not in operation.patch["status"]


def is_report(operations: Sequence[Operation | Concurrent], *, first: bool = False) -> bool:
    """Whether all that is written is how far a job has come: its counters, and that it runs or is completed.

    The first word about a job may also be that it is pending.
    """
    if len(operations) != 1 or not isinstance(patch := operations[0], Patch) or patch.kind is not JOB:
        return False
    status = patch.patch.get("status") if patch.subresource == "status" else None
    if status is None or ("controlledResources" in status and not first):
        return False
    phase = status["state"].get("phase") if "state" in status else Phase.RUNNING
    return phase in (Phase.RUNNING, Phase.COMPLETED) or (first and phase == Phase.PENDING)


def round_of(status: Status) -> Round:
    """Tells whether anything has been torn down meanwhile."""
    return status.version, status.retries


@dataclass(slots=True)
class JobState:
    """One job's pods, timeouts and what was already said and done about it."""

    pod_cache: PodCache = field(default_factory=PodCache)
    timers: PolicyTimers = field(default_factory=PolicyTimers)
    compiled: CompiledJob | None = None
    # Occurrences (lost pods, commands) that a tear-down was asked for, and the round in which it was.
    handled: dict[str, Round] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)  # names of events
    warned_at: dict[str, float] = field(default_factory=dict)  # when, by reason
    rejection: tuple[str, str] | None = None  # reason and message of the last write that was refused
    rejections: int = 0  # in a row, of a kind that does not pass by itself
    first_seen: Instant | None = None  # when a job without a status was first looked at
    counters_due: float | None = None  # when counters that changed have to be written

    def was_handled(self, occurrence: str, status: Status) -> bool:
        """Whether the tear-down that this occurrence asked for has been written down."""
        at = self.handled.get(occurrence)
        return at is not None and at != round_of(status)

    def counters_delay(
        self, operations: Sequence[Operation | Concurrent], phase: Phase, now: Instant
    ) -> float | None:
        """How long a write of nothing but a job's counters can wait for more of its kind; None when it cannot.

        Many pods that start or end at about the same time are then one write and not one each.
        """
        if len(operations) != 1 or not _is_count(operations[0]):
            self.counters_due = None
            return None
        if self.counters_due is None:
            self.counters_due = now.monotonic + (
                COUNTERS_DELAY_BEFORE_RUNNING if phase is Phase.PENDING else COUNTERS_DELAY
            )
        left = self.counters_due - now.monotonic
        if left > 0:
            return left
        self.counters_due = None
        return None

    def drop_recorded_events(
        self, operations: Iterable[Operation | Concurrent], now: Instant
    ) -> list[Operation | Concurrent]:
        """Leaves out events that were recorded before, and warnings that follow one of their kind too soon."""
        return [
            operation
            for operation in operations
            if not (isinstance(operation, Create) and operation.kind is EVENT)
            or self._is_new_event(operation, now)
        ]

    def _is_new_event(self, event: Create, now: Instant) -> bool:
        name, reason = event.key.name, event.manifest["reason"]
        if name in self.recorded:
            return False
        if event.manifest["type"] == "Warning":
            if now.monotonic - self.warned_at.get(reason, float("-inf")) < WARNING_INTERVAL:
                return False
            self.warned_at[reason] = now.monotonic
        self.recorded.add(name)
        return True
