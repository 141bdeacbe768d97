"""Samples of the last hour: what the cluster and its queues used, and what ended, in steps of ten seconds.

They are of the whole cluster. A page shows a viewer only the parts that the viewer may list: see `visible`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import Scopes
from volcano.kube.api.fields import at, wall_time
from volcano.kube.api.kinds import JOB, NODE, POD, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.views.amounts import Amounts, largest_part
from volcano.views.jobs import WAITING

STEP = 10.0  # seconds between two samples
KEPT = 360  # samples: one hour
# Phases of jobs that have ended.
COMPLETED, FAILED = "Completed", "Failed"
ENDED = (COMPLETED, FAILED)
ACTIVE = ("Running", "Completing", "Restarting", "Aborting", "Terminating")


@dataclass(frozen=True, slots=True)
class QueueSample:
    """What a queue with its descendants held and deserved."""

    allocated: Amounts
    deserved: Amounts

    def share(self, total: Amounts) -> float:
        """Dominant share: the largest fraction of any cluster resource."""
        return largest_part(self.allocated, total)


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """Cycles of the scheduler that decided something, within a step."""

    count: int = 0
    seconds: float = 0.0  # of all together
    longest: float = 0.0
    placed: int = 0  # pods
    evicted: int = 0  # pods

    @property
    def mean(self) -> float:
        return self.seconds / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one moment, and what ended in the step before it."""

    at: float  # wall time
    used: Amounts  # requested by pods on nodes
    total: Amounts  # allocatable
    queues: Mapping[str, QueueSample] = field(default_factory=dict)
    running: int = 0  # jobs
    pending: int = 0
    completed: int = 0  # jobs that completed in the step
    failed: int = 0
    cycles: CycleTimes | None = None  # None: the record of cycles cannot be read
    reconstructed: bool = False  # computed from records of the past, not observed


class Samples:
    """The samples of the last hour, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=KEPT)
        self.version = 0  # changes with every sample

    @property
    def newest(self) -> Sample | None:
        return self._kept[-1] if self._kept else None

    def all(self) -> Sequence[Sample]:
        return tuple(self._kept)

    def add(self, *samples: Sample) -> None:
        """Adds samples, oldest first. What did not change is shared with the sample before, to save memory."""
        for sample in samples:
            self._kept.append(_sharing(sample, self.newest))
            self.version += 1

    def of_queue(self, name: str) -> list[tuple[float, QueueSample]]:
        """Times and samples of one queue, where it existed."""
        return [(sample.at, sample.queues[name]) for sample in self._kept if name in sample.queues]


def visible(sample: Sample, scopes: Scopes) -> Sample:
    """The parts of a sample that a viewer may see: each needs the right to list its kind in the whole cluster."""
    nodes, pods = scopes.everywhere(NODE), scopes.everywhere(POD)
    jobs, queues = scopes.everywhere(JOB), scopes.everywhere(QUEUE)
    return replace(
        sample,
        used=sample.used if pods else {},
        total=sample.total if nodes else {},
        queues=sample.queues if queues else {},
        running=sample.running if jobs else 0,
        pending=sample.pending if jobs else 0,
        completed=sample.completed if jobs else 0,
        failed=sample.failed if jobs else 0,
        cycles=sample.cycles if jobs and pods else None,
    )


class EndedJobs:
    """Counts jobs that ended since the last count. Jobs that had ended before the first count are not counted."""

    def __init__(self) -> None:
        self._known: frozenset[str] | None = None

    def count(self, jobs: Sequence[Manifest]) -> tuple[int, int]:
        """Completed and failed jobs."""
        ended = {str(job["metadata"].get("uid", "")): phase for job in jobs if (phase := ended_phase(job))}
        new = [phase for uid, phase in ended.items() if self._known is not None and uid not in self._known]
        self._known = frozenset(ended)
        return new.count(COMPLETED), new.count(FAILED)


def ended_phase(job: Manifest) -> str:
    """Completed or Failed when the job has ended so; else "". An aborted job may be resumed."""
    phase = str(at(job, "status", "state", "phase", default=""))
    return phase if phase in ENDED else FAILED if phase == "Terminated" else ""


def ended_at(job: Manifest) -> float:
    """Wall time at which a job took its present phase; 0 when not known."""
    return wall_time(at(job, "status", "state", "lastTransitionTime")) or 0.0


def sample_of(
    objects: Objects, now: float, *, completed: int = 0, failed: int = 0, cycles: CycleTimes | None = None
) -> Sample:
    """The present state as a sample."""
    board = objects.board
    phases = [job.phase for job in board.jobs]
    return Sample(
        now,
        {name: amount for name, amount in board.used.items() if name in board.total},
        board.total,
        {share.name: QueueSample(share.allocated, share.deserved) for share in board.queues},
        sum(phase in ACTIVE for phase in phases),
        sum(phase in WAITING and phase not in ACTIVE for phase in phases),
        completed,
        failed,
        cycles,
    )


def _sharing(sample: Sample, before: Sample | None) -> Sample:
    if before is None:
        return sample
    queues = {
        name: known if (known := before.queues.get(name)) == queue and known is not None else queue
        for name, queue in sample.queues.items()
    }
    return replace(
        sample,
        used=before.used if before.used == sample.used else sample.used,
        total=before.total if before.total == sample.total else sample.total,
        queues=before.queues if before.queues == queues else queues,
    )
