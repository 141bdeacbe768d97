"""Enforcement of walltimes, for queues that ask for it: a warning, then the job is terminated."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from volcano.clock import Instant
from volcano.controllers.job.objects import job_event
from volcano.controllers.job.observe import Observed
from volcano.controllers.job.run_limits import policy_timeout
from volcano.controllers.job.spec import Job, Policy
from volcano.controllers.job.types import Action, PolicyEvent
from volcano.kube import duration
from volcano.kube.names import ENFORCE_WALLTIME
from volcano.kube.operations import Create
from volcano.model.annotations.walltime import annotated, is_enforced

# The warning is recorded when this share of the walltime is left, at the earliest so many seconds before the end.
WARNING_SHARE, EARLIEST_WARNING = 0.1, 300.0


def enforced_walltime(job: Job, queue: Mapping[str, Any] | None) -> float | None:
    """Seconds after which the job is terminated because its queue enforces the annotation; None when it is not.

    Pods with a deadline of their own that is not later end by themselves, one by one.
    """
    if queue is None or not is_enforced((queue.get("metadata") or {}).get("annotations") or {}):
        return None
    limit = annotated(job.annotations)
    if limit is None:
        return None
    deadlines = [(task.template.get("spec") or {}).get("activeDeadlineSeconds") for task in job.tasks]
    if deadlines and all(isinstance(deadline, int) and 0 < deadline <= limit + 1 for deadline in deadlines):
        return None
    earlier = policy_timeout(job)
    return None if earlier is not None and earlier <= limit else limit


def with_enforcement(job: Job, limit: float) -> Job:
    """The job with a policy that terminates it at the end of its walltime."""
    policy = Policy(Action.TERMINATE, frozenset((PolicyEvent.POD_RUNNING,)), timeout=limit)
    tasks = tuple(replace(task, policies=(policy, *_others(task.policies))) for task in job.tasks)
    return replace(job, tasks=tasks)


def _others(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
    return tuple(policy for policy in policies if PolicyEvent.POD_RUNNING not in policy.events)


def warn_before_end(
    seen: Observed, limit: float, started: Mapping[str, float], now: Instant
) -> tuple[Create | None, float | None]:
    """The event that warns of the end when it is near, and otherwise the seconds until it is to be recorded.

    `started` are the times of policy timers by what they are about.
    """
    running = [at for subject, at in started.items() if subject.startswith(f"{PolicyEvent.POD_RUNNING}/")]
    if not running:
        return None, None
    lead = min(limit * WARNING_SHARE, EARLIEST_WARNING)
    left = min(running) + limit - now.wall
    if left > lead:
        return None, left - lead
    text = (
        f"the job is terminated in {duration.format(round(lead, 3))}: its walltime is {duration.format(limit)}, "
        f"and queue {seen.job.queue} enforces it ({ENFORCE_WALLTIME})"
    )
    occasion = f"{seen.status.version}/{seen.status.retries}"
    return job_event(seen.manifest, "WalltimeEnding", text, now, warning=True, occasion=occasion), None


def elapsed_text(job: Job, limit: float) -> str:
    return f"the walltime of {duration.format(limit)} is over, and queue {job.queue} enforces it"
