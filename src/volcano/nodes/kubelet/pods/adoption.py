"""Adoption after a restart: restores a pod's state from its status, its checkpoint and the runtime."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from volcano.base.clock import parse_timestamp
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest, controller_of, is_deleting
from volcano.nodes.kubelet.container_state import (
    Container,
    ContainerRun,
    Role,
    Termination,
    crashes_before,
    restart_delay,
)
from volcano.nodes.kubelet.pods.checkpoint import PodCheckpoint
from volcano.nodes.kubelet.pods.lifecycle import Containers, PodFailure, PodState
from volcano.nodes.kubelet.probe_state import ProbeKind, ProbeState
from volcano.nodes.shim.specs import ContainerState, SandboxState

STATUS_UNKNOWN = "ContainerStatusUnknown"
STATUS_UNKNOWN_EXIT_CODE = 137
STATUS_UNKNOWN_MESSAGE = "The container could not be located when the pod was terminated"


def restore_pod_state(
    pod: Manifest,
    containers: Containers,
    sandbox: SandboxState | None,
    found: Iterable[ContainerState],
    checkpoint: PodCheckpoint,
    now: float,
) -> PodState:
    """The state of a pod. Containers that ran and are unknown to the runtime have ended with unknown status.

    A container that ended since is restored as running: its end is handled afterwards like any other.
    """
    status = pod.get("status") or {}
    pod_state = PodState(
        accepted=parse_timestamp(status["startTime"]) if status.get("startTime") else now,
        host_address=status.get("hostIP") or "",
        address=sandbox.address if sandbox else "",
        prepared=sandbox is not None,
        phase=status.get("phase") or "Pending",
    )
    if pod_state.phase in TERMINAL_PHASES:
        pod_state.address = status.get("podIP") or ""
        pod_state.released = sandbox is None
        if status.get("reason"):
            pod_state.failure = PodFailure(status["reason"], status.get("message") or "")
    every = {(state.name, state.attempt): state for state in found}
    states = _latest(every.values())
    for entry in _entries(status):
        name = entry["name"]
        if name in containers:
            back_off = checkpoint.back_offs.get(name)
            pod_state.runs[name] = _run(containers[name], entry, states.pop(name, None), back_off)
    for name, state in states.items():  # started, but not yet reported in the status
        if name in containers:
            pod_state.runs[name] = _running(ContainerRun(), state)
    for name, run in pod_state.runs.items():
        pod_state.runs[name] = _with_last_termination(run, every.get((name, run.attempt - 1)))
    _mark_started_sidecars(containers, pod_state)
    if sandbox is None and pod_state.phase not in TERMINAL_PHASES:
        reset_sandbox(containers, pod_state)
    return pod_state


def was_accepted(pod: Manifest) -> bool:
    """Whether the node had accepted a pod before: its status has the time."""
    return bool((pod.get("status") or {}).get("startTime"))


def is_lost(
    pod: Manifest, containers: Containers, pod_state: PodState, found: Iterable[ContainerState]
) -> bool:
    """Whether a pod ended with its node, while no kubelet ran, and can only be replaced by its controller.

    The exit of a container that is not restarted in its pod is unknown: the pod has neither succeeded nor failed.
    """
    if (
        pod_state.prepared
        or pod_state.phase in TERMINAL_PHASES
        or is_deleting(pod)
        or controller_of(pod) is None
    ):
        return False
    ended = {name for name, run in pod_state.runs.items() if run.ended and run.ended.reason == STATUS_UNKNOWN}
    ended |= {
        state.name
        for state in found
        if state.reason == STATUS_UNKNOWN and state.attempt == pod_state.run(state.name).attempt
    }
    return any(
        containers[name].role is not Role.EPHEMERAL
        and not containers[name].restarts_after(STATUS_UNKNOWN_EXIT_CODE)
        for name in ended
        if name in containers
    )


def _with_last_termination(run: ContainerRun, before: ContainerState | None) -> ContainerRun:
    """Adds the attempt before the latest, which the status of a waiting container lacks, if the runtime has it."""
    if run.last is not None or before is None or before.running:
        return run
    return replace(
        run,
        last=Termination(
            before.attempt,
            before.exit_code,
            before.reason or ("Completed" if before.exit_code == 0 else "Error"),
            before.message,
            before.started,
            before.finished,
        ),
    )


def _mark_started_sidecars(containers: Containers, pod_state: PodState) -> None:
    """Sidecars that were followed by a started container have been started themselves."""
    later = False
    for name, container in reversed(list(containers.items())):
        run = pod_state.run(name)
        if container.role is Role.SIDECAR and later:
            pod_state.runs[name] = replace(run, initialized=True)
        later = later or (container.role is not Role.EPHEMERAL and run.attempt >= 0)


def reset_sandbox(containers: Containers, pod_state: PodState) -> None:
    """Resets the pod for a new sandbox: init containers run again, unless their restart policy is Never."""
    pod_state.prepared = False
    for name, run in pod_state.runs.items():
        again = containers[name].role is Role.INIT and containers[name].policy != "Never"
        restart = run.restart or (again and run.ended is not None)
        pod_state.runs[name] = replace(run, initialized=False, restart=restart)


def _latest(found: Iterable[ContainerState]) -> dict[str, ContainerState]:
    latest: dict[str, ContainerState] = {}
    for state in found:
        if state.name not in latest or latest[state.name].attempt < state.attempt:
            latest[state.name] = state
    return latest


def _entries(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        yield from status.get(field) or ()


def _run(
    container: Container,
    entry: Mapping[str, Any],
    state: ContainerState | None,
    back_off: tuple[float, float] | None,
) -> ContainerRun:
    restarts = entry.get("restartCount") or 0
    created = bool(entry.get("containerID"))
    shown, last = entry.get("state") or {}, (entry.get("lastState") or {}).get("terminated")
    run = ContainerRun(
        attempt=restarts if created else -1,
        crashes=crashes_before(back_off[1]) if back_off else restarts,
        last=_termination(last, restarts - 1),
        initialized=container.role is Role.SIDECAR and bool(entry.get("started")),
    )
    if not created and state is None:
        return run
    ended = _termination(shown.get("terminated"), restarts)
    if ended is None and "waiting" in shown:  # waiting for its next start: `lastState` is the latest attempt
        ended, run = _termination(last, restarts), replace(run, last=None)
    if state is not None and (ended is None or state.attempt > ended.attempt):
        return _restore_probe_states(_running(replace(run, last=ended or run.last), state), container, entry)
    if ended is None:
        if "running" not in shown:
            return run
        return replace(
            run, ended=Termination(restarts, STATUS_UNKNOWN_EXIT_CODE, STATUS_UNKNOWN, STATUS_UNKNOWN_MESSAGE)
        )
    # Without a checkpoint, every restart counts as a crash.
    delay, crashes = (back_off[0], run.crashes) if back_off else (restart_delay(restarts), restarts + 1)
    return replace(run, ended=ended, delay=delay, crashes=crashes, retry_at=ended.finished + delay)


def _running(run: ContainerRun, state: ContainerState) -> ContainerRun:
    """A container that runs, or did so until recently."""
    return replace(run, attempt=state.attempt, running=True, post_start_done=True, started=state.started)


def _restore_probe_states(run: ContainerRun, container: Container, entry: Mapping[str, Any]) -> ContainerRun:
    """Restores the probe results that are visible in the status."""
    probe_states = {}
    if ProbeKind.STARTUP in container.probes and entry.get("started"):
        probe_states[ProbeKind.STARTUP] = ProbeState(result=True, on_hold=True)
    if ProbeKind.READINESS in container.probes and entry.get("ready"):
        probe_states[ProbeKind.READINESS] = ProbeState(result=True, latest=True, consecutive=1)
    return replace(run, probe_states=probe_states)


def _termination(terminated: Mapping[str, Any] | None, attempt: int) -> Termination | None:
    if not terminated:
        return None
    return Termination(
        attempt,
        terminated.get("exitCode") or 0,
        terminated.get("reason") or "",
        terminated.get("message") or "",
        parse_timestamp(terminated["startedAt"]) if terminated.get("startedAt") else 0.0,
        parse_timestamp(terminated["finishedAt"]) if terminated.get("finishedAt") else 0.0,
    )
