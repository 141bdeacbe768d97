"""The controller's state of one job between reconciliations; it can be rebuilt after a restart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.base.clock import Instant
from volcano.controllers.job.finished import only_records
from volcano.controllers.job.observe import CompiledJob
from volcano.controllers.job.pod_cache import PodCache
from volcano.controllers.job.status import Status
from volcano.controllers.job.timeouts import PolicyTimers
from volcano.controllers.job.types import Phase
from volcano.kube.api.kinds import EVENT, JOB, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.operations import Concurrent, Create, Delete, Operation, Patch

Round = tuple[int, int]

# Seconds for which changes of counters are collected into one write, as Kubernetes' Job controller does.
# Before a job runs, its next phase makes most of them superfluous.
COUNTERS_DELAY, COUNTERS_DELAY_BEFORE_RUNNING = 1.0, 5.0

# Least seconds between warnings of one reason about one job.
WARNING_INTERVAL = 10.0


def _is_count(operation: Operation | Concurrent) -> bool:
    """Whether a write changes counters of a job's status and nothing else."""
    if not isinstance(operation, Patch) or operation.kind is not JOB or operation.subresource != "status":
        return False
    status = operation.patch["status"]
    return "state" not in status and only_records(status)


def is_report(operations: Sequence[Operation | Concurrent], *, first: bool = False) -> bool:
    """Whether the writes only report progress: counters, and that the job runs or is completed.

    The first status of a job may also report that it is pending.
    """
    if len(operations) != 1 or not isinstance(patch := operations[0], Patch) or patch.kind is not JOB:
        return False
    status = patch.patch.get("status") if patch.subresource == "status" else None
    if status is None or not (first or only_records(status)):
        return False
    phase = status["state"].get("phase") if "state" in status else Phase.RUNNING
    return phase in (Phase.RUNNING, Phase.COMPLETED) or (first and phase == Phase.PENDING)


def round_of(status: Status) -> Round:
    """Changes with every tear-down."""
    return status.version, status.retries


@dataclass(slots=True)
class JobState:
    """One job's pods, timers, recorded events and handled occurrences."""

    pod_cache: PodCache = field(default_factory=PodCache)
    timers: PolicyTimers = field(default_factory=PolicyTimers)
    compiled: CompiledJob | None = None
    # Occurrences (lost pods, commands) for which a tear-down was requested, and the round in which it was.
    handled: dict[str, Round] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)  # names of events
    warned_at: dict[str, float] = field(default_factory=dict)  # monotonic time by reason
    rejection: tuple[str, str] | None = None  # reason and message of the last rejected write
    rejections: int = 0  # consecutive ones that a retry does not resolve
    first_seen: Instant | None = None  # when a job without a status was first reconciled
    counters_due: float | None = None  # when changed counters have to be written
    contents: dict[Key, Mapping[str, str]] = field(default_factory=dict)  # of Secrets that were deleted
    deletions: set[str] = field(default_factory=set)  # uids of pods whose deletion was requested
    foreign_due: float = 0.0  # when an object of another owner is read again

    def was_handled(self, occurrence: str, status: Status) -> bool:
        """Whether the tear-down requested for this occurrence has been written to the status."""
        at = self.handled.get(occurrence)
        return at is not None and at != round_of(status)

    def record_deletions(self, operations: Iterable[Operation | Concurrent]) -> None:
        """Records the pods that are deleted now: for policies they are not lost."""
        for operation in operations:
            if isinstance(operation, Concurrent):
                self.record_deletions(operation.operations)
            elif isinstance(operation, Delete) and operation.kind is POD:
                self.deletions.add(operation.options.uid)

    def was_own_deletion(self, uid: str) -> bool:
        """Whether the deletion of a pod that does not exist any more was requested."""
        if uid not in self.deletions:
            return False
        self.deletions.discard(uid)
        return True

    def counters_delay(
        self, operations: Sequence[Operation | Concurrent], phase: Phase, now: Instant
    ) -> float | None:
        """Seconds for which a write of counters alone can be delayed; None when it cannot.

        Many pods that start or end at about the same time then cause one write.
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
        """Drops events that were recorded before, and warnings that follow one of the same reason too soon."""
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
