"""Targets of a restart as text in the job's status: `task/worker`, `pod/worker/job-worker-0`."""

from collections.abc import Iterable, Iterator

from volcano.controllers.job.pod_cache import PodCache, PodInfo
from volcano.controllers.job.spec import Job
from volcano.controllers.job.status import Status
from volcano.controllers.job.types import POD_PHASES, Action
from volcano.kube.api.manifest import TERMINAL_PHASES

WHOLE_JOB = "job"
# Targets of one restart; further ones are left for the next.
MAX_TARGETS = 64


def render_target(action: Action, info: PodInfo) -> str:
    """The target of an action triggered by this pod; empty when the action concerns the whole job."""
    match action:
        case Action.RESTART_TASK:
            return f"task/{info.task}"
        case Action.RESTART_POD:
            return f"pod/{info.task}/{info.name}"
        case Action.RESTART_PARTITION if info.partition:
            return f"partition/{info.task}/{info.partition}"
    return ""


def join_targets(targets: Iterable[str]) -> str:
    """Joins distinct targets."""
    return ",".join(list(dict.fromkeys(filter(None, targets)))[:MAX_TARGETS])


def select_pods(pod_cache: PodCache, targets: str) -> Iterator[PodInfo]:
    """The pods that targets select and whose deletion was not requested."""
    for target in filter(None, targets.split(",")):
        scope, _, rest = target.partition("/")
        task, _, which = rest.partition("/")
        match scope:
            case "task":
                yield from pod_cache.within(task, *POD_PHASES)
            case "pod" if (info := pod_cache.pods.get(which)) is not None and info.state in POD_PHASES:
                yield info
            case "partition":
                yield from (m for m in pod_cache.within(task, *POD_PHASES) if m.partition == which)


def pods_to_restart(job: Job, status: Status, pod_cache: PodCache) -> list[PodInfo]:
    """The pods that the restart in progress has yet to delete."""
    match status.restart:
        case "":  # a resumed job keeps finished pods
            return [
                m for m in pod_cache.in_states("Pending", "Running", "Unknown") if m.version < status.version
            ]
        case "job":
            # The pods of the last try are kept for inspection.
            spared = TERMINAL_PHASES if status.retries >= job.max_retry else ()
            return [
                info
                for info in pod_cache.in_states(*POD_PHASES)
                if info.version < status.version and info.state not in spared
            ]
        case targets:
            return [info for info in select_pods(pod_cache, targets) if info.retry < status.retries]
