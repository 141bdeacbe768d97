"""Walltime: the longest time that a job runs, from its annotation, the deadlines of its pods and policy timeouts.

The job controller writes the annotation `volcano.sh/walltime` of a Job, or a shorter timeout of its policies, to the
PodGroup: the scheduler reads PodGroups and pods only.
"""

import re
from collections.abc import Mapping
from typing import Any

from volcano.kube.api import duration
from volcano.kube.api.names import ENFORCE_WALLTIME, WALLTIME
from volcano.model.job import Job
from volcano.model.task import Task

EXAMPLES = "a duration such as 2h, 90m or 1-12:00:00"
_SLURM = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?P<first>\d{1,9})(?::(?P<second>\d{1,9}))?(?::(?P<third>\d{1,9}))?", re.ASCII
)


def parse(text: str) -> float:
    """Seconds of `2h30m` (Go), of `90` (minutes), `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM` or `D-HH:MM:SS` (Slurm).

    Raises ValueError with what is wrong and what would be right.
    """
    found = _SLURM.fullmatch(text)
    try:
        seconds = _slurm_seconds(found) if found else duration.parse(text)
    except ValueError:
        raise ValueError(f"{text!r} must be {EXAMPLES}") from None
    if seconds <= 0:
        raise ValueError(f"must be more than 0 (got {text})")
    return seconds


def _slurm_seconds(found: "re.Match[str]") -> float:
    numbers = [int(found[name]) for name in ("first", "second", "third") if found[name] is not None]
    if found["days"] is not None:  # D-HH[:MM[:SS]]
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return int(found["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    if len(numbers) == 3:  # HH:MM:SS
        return numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)  # MM[:SS]


def annotated(annotations: Mapping[str, Any]) -> float | None:
    """Seconds of the annotation; None without one, or for one that cannot be understood (admission rejects those)."""
    text = annotations.get(WALLTIME)
    if not isinstance(text, str):
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def is_enforced(queue_annotations: Mapping[str, Any]) -> bool:
    """Whether the queue has jobs ended that run longer than their annotation says."""
    return str(queue_annotations.get(ENFORCE_WALLTIME, "")).lower() == "true"


def walltime(job: Job) -> float | None:
    """Seconds that each pod of the job runs at most; None when nothing limits them."""
    limits = [] if job.group.walltime is None else [job.group.walltime]
    deadlines = [task.deadline for task in job.tasks.values()]
    if deadlines and all(deadlines):
        limits.append(max(deadlines))
    return min(limits, default=None)


def run_limit(task: Task, job: Job | None) -> float | None:
    """Seconds that one pod runs at most; None when nothing limits it."""
    limits = [task.deadline] if task.deadline else []
    if job is not None and job.group.walltime is not None:
        limits.append(job.group.walltime)
    return min(limits, default=None)


def started_at(task: Task, now: float) -> float:
    """When a pod on a node started; one that is about to start does so now."""
    return task.started or task.scheduled or now
