"""The state machine as tables: tear-downs by phase and action, final phases, and transitions by pod counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from volcano.controllers.job.spec import Job
from volcano.controllers.job.status import Status
from volcano.controllers.job.types import TARGETED, TERMINATING, Action, Phase


class Keep(Enum):
    """The pods that a tear-down keeps."""

    NOTHING = "nothing"
    FINISHED = "finished"
    OTHERS = "others"  # all but the targets


@dataclass(frozen=True, slots=True)
class TearDown:
    """The pods a tear-down deletes, and the phase until they are gone."""

    keep: Keep
    phase: Phase
    counts_as_retry: bool = False


_STOPS = {
    Action.ABORT: TearDown(Keep.FINISHED, Phase.ABORTING),
    Action.TERMINATE: TearDown(Keep.FINISHED, Phase.TERMINATING),
    Action.COMPLETE: TearDown(Keep.FINISHED, Phase.COMPLETING),
}
_RESTART = TearDown(Keep.NOTHING, Phase.RESTARTING, counts_as_retry=True)
_RESTART_SOME = TearDown(Keep.OTHERS, Phase.RESTARTING, counts_as_retry=True)
_RESTART_MORE = TearDown(Keep.OTHERS, Phase.RESTARTING)
_RESTART_ALL_AFTER_ALL = TearDown(Keep.NOTHING, Phase.RESTARTING)
_RESUME = TearDown(Keep.FINISHED, Phase.RESTARTING)

# The effect of an action, by phase. In all other cases the job is synchronized: pods are created in live
# phases and deleted in the others. A restart requested during a restart extends it and does not count as
# another retry.
TEARDOWNS: Mapping[tuple[Phase, Action], TearDown] = {
    **{(phase, action): stop for phase in (Phase.PENDING, Phase.RUNNING) for action, stop in _STOPS.items()},
    **{(phase, Action.RESTART_JOB): _RESTART for phase in (Phase.PENDING, Phase.RUNNING)},
    **{(phase, action): _RESTART_SOME for phase in (Phase.PENDING, Phase.RUNNING) for action in TARGETED},
    **{(Phase.RESTARTING, action): _RESTART_MORE for action in TARGETED},
    (Phase.RESTARTING, Action.RESTART_JOB): _RESTART_ALL_AFTER_ALL,
    **{(phase, Action.RESUME): _RESUME for phase in (Phase.ABORTING, Phase.ABORTED)},
}

# The phase that follows when the last pod of a stopping job is deleted.
ENDS: Mapping[Phase, Phase] = {
    Phase.ABORTING: Phase.ABORTED,
    Phase.TERMINATING: Phase.TERMINATED,
    Phase.COMPLETING: Phase.COMPLETED,
}


def next_phase(job: Job, status: Status) -> Phase:
    """The phase that follows from the counts of a job."""
    progress = _PROGRESS.get(status.phase)
    return progress(job, status) if progress else status.phase


def _from_pending(job: Job, status: Status) -> Phase:
    started = status.counts.of("Running", "Succeeded", "Failed")
    return Phase.RUNNING if job.min_available <= started else Phase.PENDING


def _from_restarting(job: Job, status: Status) -> Phase:
    if status.retries >= job.max_retry:
        return Phase.FAILED
    enough = job.replicas - status.counts.of(TERMINATING) >= status.min_available
    return Phase.PENDING if enough else Phase.RESTARTING


def _from_running(job: Job, status: Status) -> Phase:
    succeeded, failed = status.counts.of("Succeeded"), status.counts.of("Failed")
    if job.replicas == 0:
        return Phase.RUNNING
    if job.min_success is not None and succeeded >= job.min_success:
        return Phase.COMPLETED
    if succeeded + failed == job.replicas:
        return Phase.COMPLETED if _is_success(job, status) else Phase.FAILED
    if status.counts.of("Pending") > job.replicas - job.min_available:
        return Phase.PENDING
    return Phase.RUNNING


def _is_success(job: Job, status: Status) -> bool:
    """Whether a job whose pods have all ended has succeeded."""
    if job.min_available >= sum(task.minimum for task in job.tasks):
        for task in job.tasks:
            counts = status.counts.tasks.get(task.name)
            if counts is not None and counts.get("Succeeded", 0) < task.minimum:
                return False
    succeeded = status.counts.of("Succeeded")
    return succeeded >= (job.min_available if job.min_success is None else job.min_success)


_PROGRESS: Mapping[Phase, Callable[[Job, Status], Phase]] = {
    Phase.PENDING: _from_pending,
    Phase.RUNNING: _from_running,
    Phase.RESTARTING: _from_restarting,
}
