"""Pod lifecycle: computes the next actions from a pod's spec, its state and the time.

Pure: `compute_pod_actions` reads a `PodState`, which the pod worker updates with the results of the
actions.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from volcano.base.clock import parse_timestamp
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest, is_deleting
from volcano.nodes.kubelet.container_state import (
    NEVER_RUN,
    Container,
    ContainerRun,
    Role,
    Stopping,
    is_started,
    unhealthy,
)
from volcano.nodes.kubelet.probe_state import ProbeKind, next_probe_at

FOREVER = math.inf
MIN_GRACE = 2.0  # seconds between TERM and KILL, however short the grace period
DEFAULT_GRACE = 30.0


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why a pod as a whole has failed; `grace` overrides its termination grace period."""

    reason: str
    message: str
    grace: float | None = None


DEADLINE = PodFailure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


@dataclass(slots=True)
class PodState:
    """State of one pod. Times are wall."""

    accepted: float = 0.0
    host_address: str = ""
    address: str = ""
    runs: dict[str, ContainerRun] = field(default_factory=dict)
    prepared: bool = False  # its volumes and sandbox exist
    preparing: bool = False
    prepare_at: float = -FOREVER
    failure: PodFailure | None = None
    phase: str = "Pending"  # as last reported; a terminal phase is final
    releasing: bool = False
    released: bool = False  # sandbox and volumes have been removed

    def run(self, name: str) -> ContainerRun:
        return self.runs.get(name, NEVER_RUN)


# Actions.


@dataclass(frozen=True, slots=True)
class PreparePod:
    """Set up volumes and create the sandbox."""


@dataclass(frozen=True, slots=True)
class StartContainer:
    name: str


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Begin to stop a container: run its preStop hook, then signal it."""

    name: str
    message: str
    grace: float
    restart: bool = False


@dataclass(frozen=True, slots=True)
class SignalContainer:
    """Send a stopping container its stop signal, or with `kill` SIGKILL."""

    name: str
    kill: bool


@dataclass(frozen=True, slots=True)
class RunProbe:
    """Run one probe of a container."""

    name: str
    kind: ProbeKind


@dataclass(frozen=True, slots=True)
class FailPod:
    """Fail the pod as a whole."""

    failure: PodFailure


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Remove the sandbox and the volumes: no container runs any more."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete the pod from the API: it is cleaned up and its final status is reported."""


Action = (
    PreparePod
    | StartContainer
    | StopContainer
    | SignalContainer
    | RunProbe
    | FailPod
    | ReleasePod
    | DeletePod
)
Containers = Mapping[str, Container]


@dataclass(frozen=True, slots=True)
class PodActions:
    """The actions to execute now, and the wall time of the next sync if no event comes before."""

    actions: Sequence[Action] = ()
    sync_at: float = FOREVER


def compute_pod_actions(pod: Manifest, containers: Containers, pod_state: PodState, now: float) -> PodActions:
    """The next actions of a pod; idempotent until one of them has changed its state."""
    if (
        pod_state.failure is None
        and pod_state.phase not in TERMINAL_PHASES
        and now >= _deadline(pod, pod_state)
    ):
        return PodActions((FailPod(DEADLINE),))
    if is_terminating(pod, containers, pod_state):
        steps = [*_termination_steps(pod, containers, pod_state, now)]
    else:
        steps = [*_sync_steps(pod, containers, pod_state, now)]
        steps.append(_deadline(pod, pod_state))
    steps += _stop_steps(pod, containers, pod_state, now)
    steps += _probe_steps(pod, containers, pod_state, now)
    return PodActions(
        tuple(step for step in steps if not isinstance(step, float)),
        min((step for step in steps if isinstance(step, float)), default=FOREVER),
    )


def is_terminating(pod: Manifest, containers: Containers, pod_state: PodState) -> bool:
    """Whether no container is started any more: the pod is deleted, has failed or has completed."""
    return (
        is_deleting(pod)
        or pod_state.failure is not None
        or pod_state.phase in TERMINAL_PHASES
        or init_failed(containers, pod_state)
        or all_completed(containers, pod_state)
    )


def will_restart(container: Container, run: ContainerRun) -> bool:
    """Whether an ended container is restarted."""
    return run.restart or (run.ended is not None and container.restarts_after(run.ended.exit_code))


def initialized(containers: Containers, pod_state: PodState) -> bool:
    """Whether all init containers have completed and all sidecars have been started."""
    return all(_is_initialized(container, pod_state.run(container.name)) for container in containers.values())


def mark_started_sidecars(containers: Containers, pod_state: PodState) -> None:
    """Marks sidecars that have been started: containers after them do not wait for them again."""
    for container in containers.values():
        run = pod_state.run(container.name)
        if container.role is Role.SIDECAR and not run.initialized and is_started(container, run):
            pod_state.runs[container.name] = replace(run, initialized=True)


def init_failed(containers: Containers, pod_state: PodState) -> bool:
    """Whether an init container has failed and is not restarted."""
    return any(
        container.role is Role.INIT
        and (run := pod_state.run(container.name)).ended is not None
        and not run.active
        and run.ended.exit_code != 0
        and not will_restart(container, run)
        for container in containers.values()
    )


def all_completed(containers: Containers, pod_state: PodState) -> bool:
    """Whether every main container has ended and is not restarted."""
    return all(
        (run := pod_state.run(container.name)).ended is not None
        and not run.active
        and not will_restart(container, run)
        for container in containers.values()
        if container.role is Role.MAIN
    )


def grace_of(pod: Manifest) -> float:
    """Termination grace period of the pod's containers, in seconds."""
    if is_deleting(pod):
        return float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    given = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if given is None else float(given)


def _termination_grace(pod: Manifest, pod_state: PodState) -> float:
    """Grace period of the containers of a terminating pod, in seconds."""
    given = pod_state.failure.grace if pod_state.failure is not None else None
    return grace_of(pod) if given is None else given


def _deadline(pod: Manifest, pod_state: PodState) -> float:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    return FOREVER if seconds is None or not pod_state.accepted else pod_state.accepted + float(seconds)


def _is_initialized(container: Container, run: ContainerRun) -> bool:
    match container.role:
        case Role.INIT:
            return run.ended is not None and run.ended.exit_code == 0 and not run.active and not run.restart
        case Role.SIDECAR:
            return run.initialized or is_started(container, run)
        case _:
            return True


def _termination_steps(
    pod: Manifest, containers: Containers, pod_state: PodState, now: float
) -> Iterator[Action | float]:
    for container in containers.values():
        run = pod_state.run(container.name)
        if run.running and run.stopping is None:
            yield StopContainer(
                container.name, f"Stopping container {container.name}", _termination_grace(pod, pod_state)
            )
    if pod_state.preparing or any(run.active for run in pod_state.runs.values()):
        return
    if not pod_state.released:
        if not pod_state.releasing:
            yield ReleasePod()
    elif is_deleting(pod):
        yield DeletePod()


def _sync_steps(
    pod: Manifest, containers: Containers, pod_state: PodState, now: float
) -> Iterator[Action | float]:
    """Starts containers one after the other and stops unhealthy ones."""
    if not pod_state.prepared:
        if not pod_state.preparing:
            yield PreparePod() if now >= pod_state.prepare_at else pod_state.prepare_at
        return
    blocked = any(
        run.starting or (run.running and not run.post_start_done) for run in pod_state.runs.values()
    )
    for container in _startable(containers, pod_state):
        step = _container_step(pod, container, pod_state.run(container.name), now)
        if isinstance(step, StartContainer):
            if not blocked:
                yield step
            blocked = True
        elif step is not None:
            yield step


def _startable(containers: Containers, pod_state: PodState) -> Iterator[Container]:
    """The containers that may run: init containers in order, then all others."""
    for container in containers.values():
        if container.role is Role.EPHEMERAL:
            yield container
    for container in containers.values():
        run = pod_state.run(container.name)
        if container.role is Role.SIDECAR or not _is_initialized(container, run):
            yield container
        if not _is_initialized(container, run):
            return
        if container.role is Role.MAIN:
            yield container


def _container_step(
    pod: Manifest, container: Container, run: ContainerRun, now: float
) -> Action | float | None:
    """The action a container needs, or the time at which it needs one."""
    if run.running:
        probe = unhealthy(container, run) if run.stopping is None else None
        if probe is None:
            return None
        restart = container.policy != "Never"
        init = "Init container" if container.role is Role.SIDECAR else "Container"
        message = f"{init} {container.name} failed {probe.kind.label} probe"
        grace = grace_of(pod) if probe.grace is None else probe.grace
        return StopContainer(
            container.name, f"{message}, will be restarted" if restart else message, grace, restart=restart
        )
    if run.starting:
        return None
    if run.waiting is not None:
        return StartContainer(container.name) if now >= run.waiting.retry_at else run.waiting.retry_at
    if run.ended is not None:
        if not will_restart(container, run):
            return None
        if now < run.retry_at:
            return run.retry_at
    return StartContainer(container.name)


def _stop_steps(
    pod: Manifest, containers: Containers, pod_state: PodState, now: float
) -> Iterator[Action | float]:
    """Continues to stop containers: preStop hook, order of sidecars, TERM, KILL."""
    for container in containers.values():
        run = pod_state.run(container.name)
        if run.stopping is None or not run.running or run.stopping.killed:
            continue
        limit = _kill_deadline(pod, run.stopping)
        if run.stopping.term_sent == FOREVER:
            if now < limit and (run.stopping.hook or not _may_terminate(container, containers, pod_state)):
                yield limit
            else:
                yield SignalContainer(container.name, kill=False)
        else:
            kill_at = max(limit, run.stopping.term_sent + MIN_GRACE)
            yield SignalContainer(container.name, kill=True) if now >= kill_at else kill_at


def _kill_deadline(pod: Manifest, stop: Stopping) -> float:
    """When a container is killed; a later deletion of the pod may shorten its grace period."""
    limit = stop.begun + stop.grace
    if is_deleting(pod):
        limit = min(limit, max(stop.begun, parse_timestamp(pod["metadata"]["deletionTimestamp"])))
    return limit


def _may_terminate(container: Container, containers: Containers, pod_state: PodState) -> bool:
    """Whether a container may get TERM: sidecars of a terminating pod get it after all later containers have ended."""
    run = pod_state.run(container.name)
    if container.role is not Role.SIDECAR or (run.stopping is not None and run.stopping.restart):
        return True
    later = list(containers)[list(containers).index(container.name) + 1 :]
    return not any(
        pod_state.run(name).active for name in later if containers[name].role is not Role.EPHEMERAL
    )


def _probe_steps(
    pod: Manifest, containers: Containers, pod_state: PodState, now: float
) -> Iterator[Action | float]:
    for container in containers.values():
        run = pod_state.run(container.name)
        if not run.running or not run.post_start_done:
            continue
        ending = is_deleting(pod) or run.stopping is not None
        for probe in container.probes.values():
            at = next_probe_at(probe, container.probes, run.probe_states, run.started, ending=ending)
            yield RunProbe(container.name, probe.kind) if now >= at else at
