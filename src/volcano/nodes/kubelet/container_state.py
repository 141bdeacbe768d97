"""The containers of a pod, and what is remembered of each: how often it started, how it ended, when to try again."""

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcano.kube.manifest import Manifest
from volcano.kube.workqueue import Backoff
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
    """What a container is to its pod."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container that stays
    MAIN = "main"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class Container:
    """A container as its pod describes it."""

    name: str
    role: Role
    spec: Manifest
    policy: str  # Always, OnFailure, Never
    probes: Mapping[ProbeKind, Probe]

    def restarts_after(self, exit_code: int) -> bool:
        """Whether it is started again after ending with this code."""
        for rule in self.spec.get("restartPolicyRules") or () if self.spec.get("restartPolicy") else ():
            codes = rule.get("exitCodes") or {}
            named = exit_code in (codes.get("values") or ())
            if rule.get("action") == "Restart" and named == (codes.get("operator") == "In"):
                return True
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)

    def hook(self, name: str) -> Manifest | None:
        """The handler of `postStart` or `preStop`, if there is one."""
        handler: Manifest | None = (self.spec.get("lifecycle") or {}).get(name)
        return handler or None


def containers_of(pod: Mapping[str, Any]) -> dict[str, Container]:
    """Every container by name, in the order they start."""
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
    """How one start of a container went. Times are wall; 0 is unknown."""

    attempt: int
    exit_code: int
    reason: str
    message: str = ""
    started: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container has not been created, and when that is tried again."""

    reason: str
    message: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """A running container on its way out."""

    begun: float
    grace: float
    restart: bool = False  # whatever it ends with
    hook: bool = False  # its preStop hook is under way
    term_sent: float = math.inf  # when it was asked to end
    killed: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """What is remembered of one container. `attempt` is that of the latest start; -1 before the first."""

    attempt: int = -1
    starting: bool = False
    started: float = 0.0
    running: bool = False
    post_start_done: bool = False  # its postStart hook, if any, is over
    ended: Termination | None = None  # the latest start, once it is over
    last: Termination | None = None  # the one before
    crashes: int = 0  # consecutive ends that count for the back-off
    retry_at: float = 0.0  # wall, the earliest next start
    delay: float = 0.0  # the back-off that `retry_at` includes
    waiting: Waiting | None = None
    stopping: Stopping | None = None
    restart: bool = False  # start again whatever the policy says of the exit code
    initialized: bool = False  # an init container that is done, a sidecar that has been up
    probe_states: Mapping[ProbeKind, ProbeState] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether something of it exists or is coming into being."""
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
    """A start is under way; what was known of the one before stays until it is there."""
    return replace(run, starting=True)


def started(run: ContainerRun, attempt: int, moment: float, *, hook: bool) -> ContainerRun:
    """The container runs; with `hook`, its postStart hook does, too."""
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
    """It could not even be created: no start counts."""
    return replace(run, starting=False, waiting=waiting)


def ended(run: ContainerRun, how: Termination) -> ContainerRun:
    """The container is over; the next start, if there is one, waits as long as the earlier ones make it."""
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
    """Whether it runs and counts as started."""
    return run.running and run.post_start_done and startup_succeeded(container.probes, run.probe_states)


def is_ready(container: Container, run: ContainerRun) -> bool:
    return run.running and run.post_start_done and readiness_succeeded(container.probes, run.probe_states)


def unhealthy(container: Container, run: ContainerRun) -> Probe | None:
    """The probe a running container has failed for good."""
    return failed_probe(container.probes, run.probe_states) if run.running else None
