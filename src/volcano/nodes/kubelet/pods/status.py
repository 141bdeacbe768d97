"""Computes a pod's status as the kubelet reports it: phase, conditions and container statuses."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from volcano.base.clock import timestamp
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest, is_deleting
from volcano.nodes.kubelet.container_state import (
    Container,
    ContainerRun,
    Role,
    Termination,
    is_ready,
    is_started,
)
from volcano.nodes.kubelet.pods.lifecycle import (
    Containers,
    PodState,
    initialized,
    is_terminating,
    will_restart,
)

LISTS = {
    Role.INIT: "initContainerStatuses",
    Role.SIDECAR: "initContainerStatuses",
    Role.MAIN: "containerStatuses",
    Role.EPHEMERAL: "ephemeralContainerStatuses",
}


def status_of(
    pod: Manifest, containers: Containers, pod_state: PodState, now: float, runtime: str
) -> Manifest:
    """The part of the status that the kubelet owns."""
    entries = {
        name: _container(pod, container, containers, pod_state, now, runtime)
        for name, container in containers.items()
    }
    phase = phase_of(pod, containers, pod_state, entries)
    status: Manifest = {
        "phase": phase,
        "hostIP": pod_state.host_address,
        "hostIPs": [{"ip": pod_state.host_address}],
        "startTime": timestamp(pod_state.accepted),
        "conditions": _conditions(pod, containers, pod_state, entries, phase, now),
    }
    if pod_state.failure is not None and phase == "Failed":
        status |= {"reason": pod_state.failure.reason, "message": pod_state.failure.message}
    if pod_state.address:
        status |= {"podIP": pod_state.address, "podIPs": [{"ip": pod_state.address}]}
    if "generation" in pod["metadata"]:
        status["observedGeneration"] = pod["metadata"]["generation"]
    if pod_state.failure is None or pod_state.runs:
        for name, entry in entries.items():
            status.setdefault(LISTS[containers[name].role], []).append(entry)
    return status


def phase_of(
    pod: Manifest, containers: Containers, pod_state: PodState, entries: Mapping[str, Manifest]
) -> str:
    """The phase. A terminal phase is final and is reached only when no container runs any more."""
    if pod_state.phase in TERMINAL_PHASES:
        return pod_state.phase
    active = any(run.active for run in pod_state.runs.values())
    over = not active and pod_state.released
    if pod_state.failure is not None and over:
        return "Failed"
    counts = _Counts(containers, pod_state, entries)
    if counts.init_failed and over:
        return "Failed"
    if over and is_deleting(pod):
        if not pod_state.runs:
            return "Failed" if pod_state.phase == "Pending" else pod_state.phase
        return "Succeeded" if counts.stopped and counts.stopped == counts.succeeded else "Failed"
    return counts.phase(ended=over)


class _Counts:
    """Numbers of containers by state."""

    def __init__(self, containers: Containers, pod_state: PodState, entries: Mapping[str, Manifest]) -> None:
        self.waiting = self.running = self.stopped = self.final = self.succeeded = 0
        self.pending = self.init_failed = False
        started = any(pod_state.run(c.name).attempt >= 0 for c in containers.values() if c.role is Role.MAIN)
        for container in containers.values():
            run, state = pod_state.run(container.name), _terminated_state(entries[container.name])
            match container.role:
                case Role.INIT:
                    failed = state is not None and state["exitCode"] != 0
                    self.init_failed |= failed and not will_restart(container, run)
                    done = (
                        state is not None and not failed and "running" not in entries[container.name]["state"]
                    )
                    self.pending |= not done and not started
                case Role.SIDECAR:
                    self.running += run.running
                    self.pending |= not started and not is_started(container, run) and not run.initialized
                case Role.MAIN:
                    self._count_main(container, run, entries[container.name], state)

    def _count_main(
        self, container: Container, run: ContainerRun, entry: Manifest, state: Mapping[str, Any] | None
    ) -> None:
        if "running" in entry["state"]:
            self.running += 1
        elif state is None:
            self.waiting += 1
        else:
            self.stopped += 1
            self.succeeded += state["exitCode"] == 0
            self.final += not (run.restart or container.restarts_after(state["exitCode"]))

    def phase(self, *, ended: bool) -> str:
        if self.pending or self.waiting:
            return "Pending"
        if self.running or self.stopped != self.final or not ended:
            return "Running"
        return "Succeeded" if self.stopped == self.succeeded else "Failed"


def _terminated_state(entry: Manifest) -> Mapping[str, Any] | None:
    """The termination in a container's status: the current one, or the last one while it waits."""
    if "running" in entry["state"]:
        return None
    end: Mapping[str, Any] | None = entry["state"].get("terminated") or entry["lastState"].get("terminated")
    return end


def _container(
    pod: Manifest, container: Container, containers: Containers, pod_state: PodState, now: float, runtime: str
) -> Manifest:
    run, spec = pod_state.run(container.name), container.spec
    state, last = _states(pod, container, containers, pod_state, now, runtime)
    entry: Manifest = {
        "name": container.name,
        "image": spec.get("image", ""),
        "imageID": f"{runtime}://{spec.get('image', '')}" if run.attempt >= 0 else "",
        "ready": is_ready(container, run),
        "started": is_started(container, run),
        "restartCount": run.restarts,
        "state": state,
        "lastState": last,
    }
    if container.role is Role.INIT:
        entry["ready"] = "terminated" in state and state["terminated"]["exitCode"] == 0
    if run.attempt >= 0:
        entry["containerID"] = identifier(pod, container.name, run.attempt, runtime)
    if run.running and spec.get("resources"):
        entry["resources"] = spec["resources"]
        if spec["resources"].get("requests"):
            entry["allocatedResources"] = spec["resources"]["requests"]
    if spec.get("volumeMounts"):
        entry["volumeMounts"] = [_mount(mount) for mount in spec["volumeMounts"]]
    return entry


def identifier(pod: Manifest, container: str, attempt: int, runtime: str) -> str:
    """The container ID of one attempt."""
    return f"{runtime}://{pod['metadata'].get('uid', '')}/{container}/{attempt}"


def _mount(mount: Mapping[str, Any]) -> Manifest:
    shown = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        shown |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return shown


def _states(
    pod: Manifest, container: Container, containers: Containers, pod_state: PodState, now: float, runtime: str
) -> tuple[Manifest, Manifest]:
    """`state` and `lastState`."""
    run = pod_state.run(container.name)
    last = {"terminated": _terminated(pod, container, run.last, runtime)} if run.last else {}
    if run.running and run.post_start_done:
        return {"running": {"startedAt": timestamp(run.started)}}, last
    latest = {"terminated": _terminated(pod, container, run.ended, runtime)} if run.ended else last
    if run.waiting is not None:
        return {"waiting": {"reason": run.waiting.reason, "message": run.waiting.message}}, latest
    if run.ended is not None:
        backing_off = not run.starting and now < run.retry_at and will_restart(container, run)
        if backing_off and not is_terminating(pod, containers, pod_state):
            return {"waiting": _crash_loop(pod, container, run)}, latest
        return latest, last
    first = initialized(containers, pod_state) and not any(
        c.role in (Role.INIT, Role.SIDECAR) for c in containers.values()
    )
    reason = "ContainerCreating" if first or container.role is Role.EPHEMERAL else "PodInitializing"
    return {"waiting": {"reason": reason}}, last


def _crash_loop(pod: Manifest, container: Container, run: ContainerRun) -> Manifest:
    ended = run.ended
    if ended is not None and ended.reason == "StartError" and run.back_off <= run.delay:
        return {"reason": "RunContainerError", "message": ended.message}
    text = (
        f"back-off {go_duration(run.delay)} restarting failed container={container.name} pod={full_name(pod)}"
    )
    return {"reason": "CrashLoopBackOff", "message": text}


def full_name(pod: Manifest) -> str:
    """The name of a pod in the kubelet's messages."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})"


def go_duration(seconds: float) -> str:
    """Seconds as Go formats a duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _terminated(pod: Manifest, container: Container, ended: Termination, runtime: str) -> Manifest:
    shown: Manifest = {"exitCode": ended.exit_code, "reason": ended.reason}
    if ended.message:
        shown["message"] = ended.message
    shown["startedAt"] = timestamp(ended.started) if ended.started else None
    shown["finishedAt"] = timestamp(ended.finished) if ended.finished else None
    if ended.finished:
        shown["containerID"] = identifier(pod, container.name, ended.attempt, runtime)
    return shown


ConditionValue = tuple[str, str, str]  # status, reason, message


def _conditions(
    pod: Manifest,
    containers: Containers,
    pod_state: PodState,
    entries: Mapping[str, Manifest],
    phase: str,
    now: float,
) -> list[Manifest]:
    """The conditions that the kubelet owns, with their last transition times."""
    known = {c.get("type", ""): c for c in (pod.get("status") or {}).get("conditions") or ()}
    containers_ready = _containers_ready(containers, entries, phase)
    wanted: dict[str, ConditionValue] = {
        "PodReadyToStartContainers": (
            _condition_status(pod_state.prepared and not pod_state.released),
            "",
            "",
        ),
        "Initialized": _initialized(containers, pod_state, entries, phase),
        "Ready": _ready(pod, containers_ready, known),
        "ContainersReady": containers_ready,
        "PodScheduled": ("True", "", ""),
    }
    return [_condition(kind, value, known.get(kind), pod, now) for kind, value in wanted.items()]


def _condition(
    kind: str, value: ConditionValue, before: Mapping[str, Any] | None, pod: Manifest, now: float
) -> Manifest:
    status, reason, message = value
    since = before.get("lastTransitionTime") if before and before.get("status") == status else None
    condition: Manifest = {"type": kind, "status": status, "lastTransitionTime": since or timestamp(now)}
    if "generation" in pod["metadata"]:
        condition["observedGeneration"] = pod["metadata"]["generation"]
    for field, text in (("reason", reason), ("message", message)):
        if text or (before and before.get(field)):
            condition[field] = text or None
    return condition


def _condition_status(value: bool) -> str:
    return "True" if value else "False"


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


def _containers_ready(containers: Containers, entries: Mapping[str, Manifest], phase: str) -> ConditionValue:
    if phase in TERMINAL_PHASES:
        return "False", "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    unready = [
        container.name
        for container in containers.values()
        if container.role in (Role.SIDECAR, Role.MAIN) and not entries[container.name]["ready"]
    ]
    if unready:
        return "False", "ContainersNotReady", f"containers with unready status: {_listed(unready)}"
    return "True", "", ""


def _ready(
    pod: Manifest, containers_ready: ConditionValue, known: Mapping[str, Mapping[str, Any]]
) -> ConditionValue:
    if containers_ready[0] != "True":
        return containers_ready
    missing = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        condition = known.get(kind)
        if condition is None:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition["status"] != "True":
            missing.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {condition["status"]}'
            )
    return ("False", "ReadinessGatesNotReady", ", ".join(missing)) if missing else ("True", "", "")


def _initialized(
    containers: Containers, pod_state: PodState, entries: Mapping[str, Manifest], phase: str
) -> ConditionValue:
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    if any(c.role is Role.MAIN and pod_state.run(c.name).attempt >= 0 for c in containers.values()):
        return "True", "", ""
    incomplete = [
        container.name
        for container in containers.values()
        if (container.role is Role.INIT and not entries[container.name]["ready"])
        or (container.role is Role.SIDECAR and not entries[container.name]["started"])
    ]
    if incomplete:
        message = f"containers with incomplete status: {_listed(incomplete)}"
        return "False", "ContainersNotInitialized", message
    return "True", "", ""
