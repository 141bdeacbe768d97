"""Pods that the controller did not delete: found, kept until a policy has handled them, then dropped."""

from volcano.controllers.job.finished import gone
from volcano.controllers.job.observe import Observed
from volcano.controllers.job.partitions import partition_of
from volcano.controllers.job.pod_cache import PodInfo
from volcano.controllers.job.pods import pod_name
from volcano.controllers.job.policies import resolve
from volcano.controllers.job.restart_targets import WHOLE_JOB, render_target, select_pods
from volcano.controllers.job.spec import Policy
from volcano.controllers.job.state import JobState
from volcano.controllers.job.types import LIVE, TARGETED, Phase, PolicyEvent


def find_lost_pods(seen: Observed) -> None:
    """Finds the pods that were deleted while no controller was running, when a job is reconciled for the
    first time.

    The status has the number of pods that each task had when it was last written. Missing pods up to that
    number have been deleted since.
    """
    if seen.status.phase not in (Phase.PENDING, Phase.RUNNING):
        return
    for task in seen.job.tasks:
        counted = sum(seen.status.counts.tasks.get(task.name, {}).values())
        finished = seen.finished.get(task.name, frozenset())
        missing = min(counted, task.replicas) - seen.pod_cache.size(task.name)
        missing -= gone(task.name, seen.finished, seen.pod_cache)
        for ordinal in seen.pod_cache.missing(task.name, task.replicas, finished)[: max(missing, 0)]:
            name = pod_name(seen.job, task, ordinal)
            seen.pod_cache.lost[f"lost/{name}"] = PodInfo(
                name=name,
                uid=f"lost/{name}",
                task=task.name,
                ordinal=ordinal,
                version=seen.status.version,
                retry=seen.status.retries,
                state="Unknown",
                marked=False,
                evicted=False,
                exit_code=0,
                restarts=0,
                ready=False,
                partition=partition_of(task, ordinal) or "",
                stamp=0.0,
            )


def drop_handled_pods(seen: Observed, state: JobState) -> None:
    """Drops lost pods that were handled, that no policy concerns, or that were created again."""
    status, pod_cache = seen.status, seen.pod_cache
    watching = status.phase in LIVE or status.phase is Phase.RESTARTING
    for uid, info in list(pod_cache.lost.items()):
        task = seen.job.task(info.task)
        policy = resolve((*task.policies, *seen.job.policies), PolicyEvent.POD_EVICTED) if task else None
        back = pod_cache.pods.get(info.name)
        if (
            not watching
            or state.was_handled(uid, status)
            or info.version < status.version
            or policy is None
            or (policy.timeout and back is not None and back.state == "Running")
            or _is_part_of_restart(seen, policy, info)
        ):
            del pod_cache.lost[uid]
            state.handled.pop(uid, None)


def _is_part_of_restart(seen: Observed, policy: Policy, info: PodInfo) -> bool:
    """Whether the restart in progress covers a pod lost meanwhile: it is created again without another retry."""
    status = seen.status
    if status.phase is not Phase.RESTARTING or policy.action not in TARGETED or policy.timeout:
        return False
    target = render_target(policy.action, info)
    if status.restart == WHOLE_JOB or target in status.restart.split(","):
        return True
    return not any(other.retry < status.retries for other in select_pods(seen.pod_cache, target))
