"""State of a pod in one word, its ready containers and its restarts, as kubectl shows them."""

from collections.abc import Iterator, Mapping
from typing import Any

from volcano.kube.api.duration import human_duration
from volcano.kube.api.fields import at, is_true, items, number, wall_time
from volcano.kube.api.manifest import Manifest, has_ended

Status = Mapping[str, Any]


def ready_containers(pod: Manifest) -> str:
    """Value of the READY column: ready containers of all, sidecars included."""
    statuses = items(pod, "status", "containerStatuses")
    ready = sum(_is_ready_sidecar(status, pod) for status in _init_statuses(pod))
    if _initialized(pod):
        ready += sum(_is_running_ready(status) for status in statuses)
    return f"{ready}/{len(items(pod, 'spec', 'containers')) + len(_sidecars(pod))}"


def pod_status(pod: Manifest) -> str:
    """Value of the STATUS column: the phase, or the reason that overrides it."""
    if at(pod, "metadata", "deletionTimestamp"):
        if at(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if not has_ended(pod):
            return "Terminating"
    initializing = _initializing(pod)
    if initializing and not is_true(pod, "Initialized"):
        return initializing
    return _container_status(pod, initializing or _phase_or_reason(pod))


def _phase_or_reason(pod: Manifest) -> str:
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(at(pod, "status", "reason") or at(pod, "status", "phase", default=""))


def _container_status(pod: Manifest, default: str) -> str:
    status_text, failure = default, ""
    statuses = items(pod, "status", "containerStatuses")
    for status in reversed(statuses):
        terminated = at(status, "state", "terminated")
        if reason := at(status, "state", "waiting", "reason"):
            status_text = str(reason)
        elif terminated is not None:
            status_text = _termination_reason(terminated)
            failure = status_text if number(terminated, "exitCode") else failure
    if status_text != "Completed":
        return status_text
    running = any(_is_running_ready(status) for status in statuses)
    if running and is_true(pod, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else status_text)


def _termination_reason(terminated: Status) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


def _is_running_ready(status: Status) -> bool:
    """Whether a container is ready and running, and neither waiting for a reason nor terminated."""
    state = at(status, "state", default={})
    return (
        bool(status.get("ready"))
        and at(state, "running") is not None
        and not at(state, "waiting", "reason")
        and at(state, "terminated") is None
    )


def _init_statuses(pod: Manifest) -> list[Status]:
    return items(pod, "status", "initContainerStatuses")


def _sidecars(pod: Manifest) -> set[str]:
    """Names of the sidecars: init containers with restartPolicy Always."""
    return {
        str(container.get("name"))
        for container in items(pod, "spec", "initContainers")
        if container.get("restartPolicy") == "Always"
    }


def _is_ready_sidecar(status: Status, pod: Manifest) -> bool:
    return status.get("name") in _sidecars(pod) and bool(status.get("started") and status.get("ready"))


def _initializing(pod: Manifest) -> str:
    """STATUS of a pod whose first unfinished init container is not done; empty if all are."""
    for position, status in enumerate(_init_statuses(pod)):
        terminated = at(status, "state", "terminated")
        if terminated is not None and not number(terminated, "exitCode"):
            continue
        if status.get("name") in _sidecars(pod) and status.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_termination_reason(terminated)}"
        waiting = at(status, "state", "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{position}/{len(items(pod, 'spec', 'initContainers'))}"
    return ""


def _initialized(pod: Manifest) -> bool:
    return not _initializing(pod) or is_true(pod, "Initialized")


def restarts(pod: Manifest, now: float) -> str:
    """Value of the RESTARTS column."""
    counted = list(_counted(pod))
    total = sum(number(status, "restartCount") for status in counted)
    ends = (at(status, "lastState", "terminated", "finishedAt") for status in counted)
    last = max((wall for end in ends if (wall := wall_time(end)) is not None), default=None)
    return f"{total} ({human_duration(now - last)} ago)" if total and last is not None else str(total)


def _counted(pod: Manifest) -> Iterator[Status]:
    """Containers whose restarts count: the init containers while initializing, then sidecars and containers."""
    if not _initialized(pod):
        yield from _init_statuses(pod)
        return
    sidecars = _sidecars(pod)
    yield from (status for status in _init_statuses(pod) if status.get("name") in sidecars)
    yield from items(pod, "status", "containerStatuses")
