"""Pods that have succeeded: recorded in the status of the job, so that none runs again when it is deleted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from volcano.controllers.indexes import format_indexes, parse_indexes
from volcano.controllers.job.partitions import partition_of
from volcano.controllers.job.pod_cache import PodCache
from volcano.controllers.job.pods import pod_name
from volcano.controllers.job.spec import Job, Task
from volcano.controllers.job.status import FINISHED_PODS, Status
from volcano.controllers.job.types import LIVE

# Ranges of a task that are recorded; pods beyond run again if they are deleted.
MAX_RANGES = 256

Finished = Mapping[str, frozenset[int]]


def finished_pods(job: Job, status: Status, pod_cache: PodCache) -> Finished:
    """The indexes of each task's pods that have succeeded: recorded ones, and those seen since."""
    finished: dict[str, frozenset[int]] = {}
    for task in job.tasks:
        recorded = parse_indexes(status.controlled.get(f"{FINISHED_PODS}{task.name}"), task.replicas)
        if status.phase in LIVE:  # those of a restarting job may be about to be deleted
            recorded |= pod_cache.succeeded_ordinals(task.name)
            recorded |= {info.ordinal for info in pod_cache.gone_succeeded(task.name, status.version)}
        if recorded:
            finished[task.name] = frozenset(index for index in recorded if index < task.replicas)
    return finished


def drop_recorded(job: Job, status: Status, pod_cache: PodCache) -> None:
    """Drops pods that have succeeded and were deleted, once the status has them or a restart runs them again."""
    for uid, info in list(pod_cache.succeeded.items()):
        recorded = parse_indexes(status.controlled.get(f"{FINISHED_PODS}{info.task}"))
        one = {info.task: frozenset((info.ordinal,))}
        runs_again = info.version < status.version or not without_targets(job, one, status.restart)[info.task]
        if runs_again or info.ordinal in recorded or job.task(info.task) is None:
            del pod_cache.succeeded[uid]


def recorded_in(finished: Finished) -> dict[str, str]:
    """`controlledResources` of the status."""
    texts = {task: _bounded(format_indexes(indexes)) for task, indexes in finished.items()}
    return {f"{FINISHED_PODS}{task}": text for task, text in texts.items() if text}


def without_targets(job: Job, finished: Finished, targets: str) -> dict[str, frozenset[int]]:
    """What stays finished when the targets of a restart run again."""
    kept = dict(finished)
    for target in filter(None, targets.split(",")):
        scope, _, rest = target.partition("/")
        name, _, which = rest.partition("/")
        task = job.task(name)
        if task is not None and name in kept:
            kept[name] = frozenset(
                index for index in kept[name] if not _is_target(job, task, index, scope, which)
            )
    return kept


def gone(task: str, finished: Finished, pod_cache: PodCache) -> int:
    """The number of a task's finished pods that do not exist any more."""
    return len(finished.get(task, frozenset()) - pod_cache.ordinals(task))


def reduced(job: Job, finished: Finished, pod_cache: PodCache) -> Job:
    """The job without its finished pods that do not exist any more: the gang is complete without them."""
    counts = {task.name: gone(task.name, finished, pod_cache) for task in job.tasks}
    if not any(counts.values()):
        return job
    tasks = tuple(
        replace(
            task,
            replicas=task.replicas - counts[task.name],
            minimum=max(task.minimum - counts[task.name], 0),
        )
        for task in job.tasks
    )
    return replace(job, tasks=tasks, min_available=max(job.min_available - sum(counts.values()), 0))


def _is_target(job: Job, task: Task, index: int, scope: str, which: str) -> bool:
    match scope:
        case "task":
            return True
        case "pod":
            return pod_name(job, task, index) == which
    return partition_of(task, index) == which


def _bounded(text: str) -> str:
    return ",".join(text.split(",")[:MAX_RANGES])


def only_records(status: Mapping[str, Any]) -> bool:
    """Whether a change of a status leaves `controlledResources` as it is, but for finished pods."""
    changed = status.get("controlledResources", {})
    return changed is not None and all(name.startswith(FINISHED_PODS) for name in changed)
