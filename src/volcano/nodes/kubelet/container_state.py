"""Containers of a pod and their run state: attempts, terminations, restart back-off."""

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcano.base.workqueue import Backoff
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.probe_state import (
    Probe,
    ProbeKind,
    ProbeState,
    failed_probe,
    probes_of,
    readiness_succeeded,
    startup_succeeded,
)

CRASH_LOOP_BACKOFF = Backoff(first=10.0, longest=300.0)
BACKOFF_RESET = 600.0  # seconds; a container that ran longer restarts without back-off
START_ERROR = 128


class Role(enum.StrEnum):
    """Role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy Always
    MAIN = "main"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod's spec."""

    name: str
    role: Role
    spec: Manifest
    policy: str  # Always, OnFailure, Never
    probes: Mapping[ProbeKind, Probe]

    def restarts_after(self, exit_code: int) -> bool:
        """Whether the container is restarted after this exit code."""
        for rule in self.spec.get("restartPolicyRules") or () if self.spec.get("restartPolicy") else ():
            codes = rule.get("exitCodes") or {}
            named = exit_code in (codes.get("values") or ())
            if rule.get("action") == "Restart" and named == (codes.get("operator") == "In"):
                return True
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)

    def hook(self, name: str) -> Manifest | None:
        """The handler of `postStart` or `preStop`, if any."""
        handler: Manifest | None = (self.spec.get("lifecycle") or {}).get(name)
        return handler or None


def containers_of(pod: Mapping[str, Any]) -> dict[str, Container]:
    """Every container by name, in start order."""
    return {container.name: container for container in _containers(pod["spec"])}


def _containers(spec: Mapping[str, Any]) -> Iterator[Container]:
    policy = spec.get("restartPolicy", "Always")
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield Container(container["name"], Role.SIDECAR, container, "Always", probes_of(container))
        else:
            own = container.get("restartPolicy") or ("Never" if policy == "Never" else "OnFailure")
            yield Container(container["name"], Role.INIT, container, own, {})
    for container in spec.get("containers") or ():
        own = container.get("restartPolicy") or policy
        yield Container(container["name"], Role.MAIN, container, own, probes_of(container))
    for container in spec.get("ephemeralContainers") or ():
        yield Container(container["name"], Role.EPHEMERAL, container, "Never", {})


@dataclass(frozen=True, slots=True)
class Termination:
    """How one attempt of a container ended. Times are wall; 0 is unknown."""

    attempt: int
    exit_code: int
    reason: str
    message: str = ""
    started: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container has not been created, and when creation is retried."""

    reason: str
    message: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """A running container that is being stopped."""

    begun: float
    grace: float
    restart: bool = False  # restart it whatever its exit code
    hook: bool = False  # its preStop hook is running
    term_sent: float = math.inf  # when the stop signal was sent
    killed: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """Run state of one container. `attempt` is the latest start; -1 before the first."""

    attempt: int = -1
    starting: bool = False
    started: float = 0.0
    running: bool = False
    post_start_done: bool = False  # its postStart hook, if any, has finished
    ended: Termination | None = None  # the latest attempt, once it has ended
    last: Termination | None = None  # the attempt before
    crashes: int = 0  # consecutive ends that count for the back-off
    retry_at: float = 0.0  # wall, the earliest next start
    delay: float = 0.0  # the back-off that `retry_at` includes
    waiting: Waiting | None = None
    stopping: Stopping | None = None
    restart: bool = False  # restart it whatever the restart policy says
    initialized: bool = False  # an init container that has completed, a sidecar that has been started
    probe_states: Mapping[ProbeKind, ProbeState] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether the container runs or is being started."""
        return self.starting or self.running

    @property
    def restarts(self) -> int:
        return max(self.attempt, 0)

    @property
    def back_off(self) -> float:
        """Seconds that the restart after the next end is delayed."""
        return restart_delay(self.crashes)


NEVER_RUN = ContainerRun()


def restart_delay(crashes: int) -> float:
    """Seconds before a container is restarted after one more end; the first restart is immediate."""
    return CRASH_LOOP_BACKOFF.delay(crashes - 1) if crashes > 0 else 0.0


def crashes_before(delay: float) -> int:
    """The number of crashes after which restarts are delayed that long: inverse of `restart_delay`."""
    longest = min(delay, CRASH_LOOP_BACKOFF.longest)
    crashes = 0
    while restart_delay(crashes) < longest:
        crashes += 1
    return crashes


def starting(run: ContainerRun) -> ContainerRun:
    """The state while a start is in progress; the previous attempt is kept until it succeeds."""
    return replace(run, starting=True)


def started(run: ContainerRun, attempt: int, moment: float, *, hook: bool) -> ContainerRun:
    """The state of a running container; with `hook`, its postStart hook is still running."""
    return replace(
        run,
        attempt=attempt,
        starting=False,
        running=True,
        started=moment,
        post_start_done=not hook,
        last=run.ended or run.last,
        ended=None,
        waiting=None,
        stopping=None,
        restart=False,
        probe_states={},
    )


def not_created(run: ContainerRun, waiting: Waiting) -> ContainerRun:
    """The state after a failed creation, which is not counted as an attempt."""
    return replace(run, starting=False, waiting=waiting)


def ended(run: ContainerRun, how: Termination) -> ContainerRun:
    """The state after the container ended; a restart is delayed by the crash loop back-off."""
    stable = how.finished - how.started > BACKOFF_RESET and how.started > 0
    crashes = 0 if stable else run.crashes
    delay = restart_delay(crashes)
    if how.exit_code == START_ERROR and how.reason == "StartError":
        delay = delay or CRASH_LOOP_BACKOFF.first
    return replace(
        run,
        attempt=how.attempt,
        starting=False,
        running=False,
        post_start_done=False,
        last=run.last if run.ended is None else run.ended,
        ended=how,
        crashes=crashes + 1,
        delay=delay,
        retry_at=how.finished + delay,
        restart=run.stopping is not None and run.stopping.restart,
        stopping=None,
        waiting=None,
        probe_states={},
    )


def is_started(container: Container, run: ContainerRun) -> bool:
    """Whether the container runs and counts as started."""
    return run.running and run.post_start_done and startup_succeeded(container.probes, run.probe_states)


def is_ready(container: Container, run: ContainerRun) -> bool:
    return run.running and run.post_start_done and readiness_succeeded(container.probes, run.probe_states)


def unhealthy(container: Container, run: ContainerRun) -> Probe | None:
    """The liveness or startup probe that a running container has failed."""
    return failed_probe(container.probes, run.probe_states) if run.running else None
