"""The status of a job: parsed, counted, moved from phase to phase, and written as a minimal patch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcano.base.clock import Instant
from volcano.controllers.job.pod_cache import PodCache
from volcano.controllers.job.spec import Job
from volcano.controllers.job.types import LIVE, POD_PHASES, TERMINATING, Phase
from volcano.kube.api import duration
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest, key_of
from volcano.kube.client.operations import Patch
from volcano.kube.patches.patch import merge_diff

# The key in `controlledResources` under which a restart in progress is recorded.
RESTART = "restart"
# The beginning of keys under which the pods of a task that have succeeded are recorded.
FINISHED_PODS = "finished/"

_COUNTERS = {
    "pending": "Pending",
    "running": "Running",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "unknown": "Unknown",
    "terminating": TERMINATING,
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Pods by phase, in total and by task; pods being deleted count as terminating only."""

    total: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of(self, *states: str) -> int:
        return sum(self.total.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True)
class Status:
    """The parsed status of a job."""

    phase: Phase = Phase.NONE
    reason: str = ""
    message: str = ""
    since: str = ""
    min_available: int = 0
    counts: Counts = field(default_factory=Counts)
    version: int = 0
    retries: int = 0
    duration: str = ""
    controlled: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Mapping[str, Any], ...] = ()

    @property
    def restart(self) -> str:
        """The targets of the restart in progress: `job`, targets, or empty."""
        return self.controlled.get(RESTART, "")


def parse_status(manifest: Mapping[str, Any]) -> Status:
    """Parses the status of a job; unknown phases are treated as none."""
    raw = manifest.get("status") or {}
    state = raw.get("state") or {}
    return Status(
        phase=next((phase for phase in Phase if phase == state.get("phase")), Phase.NONE),
        reason=state.get("reason") or "",
        message=state.get("message") or "",
        since=state.get("lastTransitionTime") or "",
        min_available=raw.get("minAvailable") or 0,
        counts=Counts(
            {name: raw[field] for field, name in _COUNTERS.items() if raw.get(field)},
            {
                task: counted
                for task, entry in (raw.get("taskStatusCount") or {}).items()
                if (counted := (entry or {}).get("phase") or {})
            },
        ),
        version=raw.get("version") or 0,
        retries=raw.get("retryCount") or 0,
        duration=raw.get("runningDuration") or "",
        controlled=raw.get("controlledResources") or {},
        conditions=tuple(raw.get("conditions") or ()),
    )


def render(status: Status) -> Manifest:
    """The status as a manifest, without zero and empty values."""
    state = {
        "phase": str(status.phase),
        "reason": status.reason,
        "message": status.message,
        "lastTransitionTime": status.since,
    }
    whole: Manifest = {
        "state": {name: value for name, value in state.items() if value},
        "minAvailable": status.min_available,
        **{field: status.counts.of(name) for field, name in _COUNTERS.items()},
        "taskStatusCount": {
            task: {"phase": {phase: count for phase, count in counted.items() if count}}
            for task, counted in status.counts.tasks.items()
            if any(counted.values())
        },
        "version": status.version,
        "retryCount": status.retries,
        "runningDuration": status.duration,
        "controlledResources": dict(status.controlled),
        "conditions": [dict(condition) for condition in status.conditions],
    }
    return {name: value for name, value in whole.items() if value}


def counted(job: Job, pod_cache: PodCache, gone: Mapping[str, int] | None = None) -> Counts:
    """Counts the pods of a job's tasks, with those that have succeeded and are `gone`; pods of tasks that the job does
    not have are not counted."""
    tasks: dict[str, dict[str, int]] = {}
    total: dict[str, int] = {}
    for task in (task.name for task in job.tasks):
        for state in (*POD_PHASES, TERMINATING):
            count = pod_cache.count(task, state)
            if state == "Succeeded" and gone is not None:
                count += gone.get(task, 0)
            if count:
                total[state] = total.get(state, 0) + count
                if state != TERMINATING:
                    tasks.setdefault(task, {})[state] = count
    return Counts(total, tasks)


def at_least(counts: Counts, before: Counts) -> Counts:
    """Counts that still include finished pods which were deleted since."""
    tasks = {
        task: _most_over(counts.tasks.get(task, {}), before.tasks.get(task, {}))
        for task in dict.fromkeys((*counts.tasks, *before.tasks))
    }
    return Counts(
        _most_over(counts.total, before.total), {task: most for task, most in tasks.items() if most}
    )


def _most_over(counts: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    over = {phase: max(counts.get(phase, 0), before.get(phase, 0)) for phase in TERMINAL_PHASES}
    return {**counts, **{phase: count for phase, count in over.items() if count}}


def transition(
    status: Status, phase: Phase, job: Job, now: Instant, *, reason: str = "", message: str = ""
) -> Status:
    """The status after entering a phase; unchanged when it is in that phase."""
    if phase is status.phase:
        return status
    stamp = now.timestamp()
    kept = tuple(condition for condition in status.conditions if condition.get("status") != phase)
    lived = "" if phase in LIVE else duration.format(max(int(now.wall) - int(job.created), 0))
    return replace(
        status,
        phase=phase,
        reason=reason,
        message=message,
        since=stamp,
        duration=lived,
        conditions=(*kept, {"status": str(phase), "lastTransitionTime": stamp}),
    )


def write(manifest: Manifest, status: Status) -> Patch | None:
    """The patch that writes a status, conditional on the job's version; None when nothing changes."""
    change = merge_diff(manifest.get("status") or {}, render(status))
    if not change:
        return None
    metadata = {"resourceVersion": manifest["metadata"].get("resourceVersion", "")}
    return Patch(JOB, key_of(manifest), {"metadata": metadata, "status": change}, subresource="status")
